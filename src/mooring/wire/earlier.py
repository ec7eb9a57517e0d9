"""Journals of before records had a version: some facts stood in sentences alone.

Nothing else reads facts out of sentences.
"""

from __future__ import annotations

import re

from mooring.wire.members import EndCause, HeldCpus, WhyNotHeld

_RANK = re.compile(r"local rank (\d{1,6})\b")
_OTHER_CPUS = re.compile(r"asked for CPUs ([0-9,]{1,4000}), holds ")


def with_fields_of_now(document: dict[str, object]) -> dict[str, object]:
    """The same record with the fields that its sentences stand for."""
    if document.get("kind") == "exit":
        return {**_ending(document), **document}
    if document.get("kind") == "ready":
        return {**_holding(document), **document}
    return document


def _ending(document: dict[str, object]) -> dict[str, object]:
    code, reason = document.get("code"), document.get("reason")
    if not isinstance(reason, str):
        return {}
    rank = _RANK.match(reason)
    fields: dict[str, object] = {"rank": int(rank[1])} if rank else {}
    if "over its memory limit" in reason:
        cause = EndCause.OUT_OF_MEMORY
    elif reason.startswith("stopped"):
        cause = EndCause.STOPPED
        fields["killed"] = reason.endswith("killed after the grace period")
    elif code == 0:
        cause = EndCause.DONE
    else:
        cause = EndCause.FAILED
    return {**fields, "cause": cause.value}


def _holding(document: dict[str, object]) -> dict[str, object]:
    notes = document.get("notes")
    for note in notes if isinstance(notes, list) else ():
        if not isinstance(note, str):
            continue
        if note.startswith("not pinned"):
            held = {"cpus": HeldCpus.UNPINNED.value, "why_not": WhyNotHeld.NO_AFFINITY.value}
            return {"held": held}
        if other := _OTHER_CPUS.match(note):
            given = [int(number) for number in other[1].split(",") if number]
            return {"held": {"why_not": WhyNotHeld.OTHER_CPUS.value, "given": given}}
    return {}
