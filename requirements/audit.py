"""`make audit`: known vulnerabilities of what the lock files install, and what is not pinned.

The advisories are PyPI's own (`/pypi/NAME/VERSION/json`), asked for each locked version. Without
them the answer is that nothing is known, never that nothing was found.

Exit codes: 0 nothing known against any of them, 1 something is, or is not pinned, 3 no data.
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = os.environ.get("MOORING_AUDIT_URL", "https://pypi.org/pypi")
_TIMEOUT_S = 20
_AT_ONCE = 8
_LARGEST_BYTES = 32 << 20
_PINNED = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?==(?P<version>[^\s;\\]+)")
_IMAGE = re.compile(r"^ARG BASE=(?P<image>\S+)$", re.MULTILINE)
_EXACT_IMAGE = re.compile(r"\S+:\d+\.\d+\.\d+-[\w.-]+|\S+@sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class Package:
    name: str
    version: str
    file: str

    def __str__(self) -> str:
        return f"{self.name} {self.version} ({self.file})"


def unpinned(folder: Path) -> Iterator[str]:
    """What would be another thing tomorrow: a sentence each."""
    for file in [*sorted(folder.glob("*.lock")), *sorted(folder.glob("*.txt"))]:
        for line in _requirements(file):
            if _PINNED.match(line) is None:
                yield f"{file.name}: {line.split()[0]} has no exact version"
            elif file.suffix == ".lock" and "--hash=sha256:" not in line:
                yield f"{file.name}: {line.split()[0]} has no hash"
    dockerfile = folder.parent / "images" / "Dockerfile"
    image = _IMAGE.search(dockerfile.read_text(encoding="utf-8"))
    if image is None or _EXACT_IMAGE.fullmatch(image["image"]) is None:
        yield f"images/Dockerfile: {image['image'] if image else 'no ARG BASE'} is not exact"


def packages(folder: Path) -> list[Package]:
    found: dict[tuple[str, str], Package] = {}
    for file in [*sorted(folder.glob("*.lock")), *sorted(folder.glob("*.txt"))]:
        for line in _requirements(file):
            pinned = _PINNED.match(line)
            if pinned is not None:
                key = (pinned["name"].lower(), pinned["version"])
                found.setdefault(key, Package(*key, file.name))
    return list(found.values())


def _requirements(file: Path) -> Iterator[str]:
    text = file.read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith(("#", "-")):
            yield line.strip()


def advisories(package: Package) -> list[str]:
    """Sentences of what is known against it. Raises OSError or ValueError without data."""
    url = f"{SOURCE}/{package.name}/{package.version}/json"
    with urllib.request.urlopen(url, timeout=_TIMEOUT_S) as answer:
        document = json.loads(answer.read(_LARGEST_BYTES))
    known = document["vulnerabilities"]
    if not isinstance(known, list):
        raise ValueError("no list of vulnerabilities")
    return [
        f"{package}: {one.get('id')} {one.get('link', '')}, fixed in "
        f"{', '.join(one.get('fixed_in') or []) or 'no version'}"
        for one in known
        if not one.get("withdrawn")
    ]


def main() -> int:
    bad = list(unpinned(HERE))
    for sentence in bad:
        print(sentence)
    every = packages(HERE)
    found: list[str] = []
    unknown: dict[str, str] = {}

    def ask(package: Package) -> None:
        try:
            found.extend(advisories(package))
        except (OSError, ValueError, KeyError) as error:
            unknown[str(package)] = str(error) or type(error).__name__

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(ask, every))
    for sentence in sorted(found):
        print(sentence)
    checked = len(every) - len(unknown)
    print(f"{checked} of {len(every)} locked versions checked: {len(found)} known vulnerabilities")
    if unknown:
        package, why = next(iter(unknown.items()))
        print(f"no data about {len(unknown)}, such as {package}: {why}")
        print(f"nothing is said of those; the data is {SOURCE}'s (MOORING_AUDIT_URL: another)")
    if bad or found:
        return 1
    return 3 if unknown else 0


if __name__ == "__main__":
    sys.exit(main())
