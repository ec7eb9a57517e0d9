"""Profiles by name or from a file: the rules and weights that nodes are judged by.

What a file may say is `mooring.brain.profiles`' business: Mooring's own form, a legacy scheduler
Policy or a KubeSchedulerConfiguration, as YAML or JSON.
"""

from __future__ import annotations

from pathlib import Path

from mooring.brain import profiles
from mooring.brain.profile import DEFAULT, FULL, Profile
from mooring.model.errors import BadInput
from mooring.spec.base import describe, one_of
from mooring.spec.document import parse_document
from mooring.spec.source import name_of, read_text

#: Far above what presets weigh a preference with, so that the profile's own decides.
_DECIDES = 10_000.0
KNOWN = {
    profile.name: profile
    for profile in (
        DEFAULT,
        Profile("packed", scores=(("tight", _DECIDES),)),
        Profile("roomy", scores=(("room", _DECIDES),)),
        FULL,
    )
}


def read_profile(name: str, option: str = "--profile") -> profiles.ProfileReading:
    """A profile by its known name, otherwise from the file of that name. Raises BadInput.

    `option` is where the name comes from. With a sentence for each thing in the file that has no
    meaning here.
    """
    if name in KNOWN:
        return profiles.ProfileReading(KNOWN[name])
    path = Path(name)
    if not path.exists():
        accepted = f"a profile file, or {one_of(name, KNOWN)}"
        raise BadInput.at("moor", option, describe(name), accepted)
    source = name_of(path)
    document = parse_document(read_text(path), source)
    if document.problems:
        raise BadInput(source, [problem for _, problem in document.problems])
    return profiles.read(document.data, source)
