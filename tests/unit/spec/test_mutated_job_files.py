"""Whatever is in a file, loading it ends soon: with a job, or with BadInput and nothing else.

More than 10,000 mutants of a valid job in all: of its values and structure, of its text, of its
bytes, and of its YAML syntax.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sample_jobs import SHORTEST, full

from mooring.model.errors import BadInput
from mooring.spec import TrainingJob, load_job, parse_job

# A file that takes for ever is found by the time limit.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]

FULL = full()
FULL_TEXT = yaml.safe_dump(FULL, sort_keys=False)
CHEAP = settings(
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
ODD_SCALARS: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, -(10**30), 0.5, -0.0, 1e308, float("nan")),
    *(float("inf"), "", " ", "\0", "a\nb", "x" * 3000, "é\u2028\U0001f600", "../..", "/", "500m"),
    *("-1Gi", "1h", "auto", "exclusive", "regex", "(?P<step>", "(a+)+$", "worker", "ps", "[key]"),
    *(b"bytes", [], {}, [[]], {"a": {}}, [None], {"": ""}, "spec", "MOORING_X", "=", "~", "<<"),
]
SYNTAX = [
    *("*a", "&a ", "!!python/object:os.system ", "!!binary ", "!x ", "<<: ", "? ", "- ", ": ", "{"),
    *("}", "[", "]", "'", '"', "|\n", ">\n", "---\n", "...\n", "%YAML 1.1\n", "\t", "\x00", "\x85"),
    *("\ufeff", "\\x00", "#", "\r", "2020-01-01", "0x" + "f" * 300, "9" * 5000, "1:2:3", ".nan"),
    *("[" * 200, "{a: " * 200, "!!set {a}", "!!float x", "!!int 'x'", "=", "~", "\n  ", "\u2029"),
]


def dump(data: Any) -> str:
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(data, Dumper=dumper, sort_keys=False)
    return text


def load_or_refuse(load: Callable[[], TrainingJob]) -> None:
    try:
        job = load()
    except BadInput as error:
        assert error.problems
        for problem in error.problems:
            assert problem.path and problem.found and problem.accepted
        assert len(str(error)) < 100_000
        str(error).encode("utf-8", "backslashreplace")
    else:
        assert parse_job(job.to_yaml(), "again") == job


def places(data: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner: list[tuple[Any, Any]] = []
    if isinstance(data, dict):
        inner = list(data.items())
    elif isinstance(data, list):
        inner = list(enumerate(data))
    return [path, *(found for key, value in inner for found in places(value, (*path, key)))]


PLACES = places(FULL)[1:]


@st.composite
def changed_values(draw: st.DrawFn) -> str:
    """One to three values replaced, removed, renamed, doubled or moved elsewhere."""
    data = copy.deepcopy(FULL)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(PLACES))
        here: Any = data
        try:
            for part in path[:-1]:
                here = here[part]
            found = here[path[-1]]
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change took this place away
        if not isinstance(here, dict | list):
            continue  # or put a text there, whose characters are no places
        change = draw(st.integers(0, 4))
        if change == 0:
            del here[path[-1]]
        elif change == 1:
            here[path[-1]] = [found, found]
        elif change == 2 and isinstance(here, dict):
            here[draw(st.sampled_from(["replcas", "a b", "", "worker", "x" * 100]))] = found
        elif change == 3:
            here[path[-1]] = copy.deepcopy(draw(st.sampled_from([FULL, FULL["spec"], SHORTEST])))
        else:
            here[path[-1]] = draw(st.sampled_from(ODD_SCALARS))
    return dump(data)


@settings(CHEAP, max_examples=1000)
@given(changed_values())
def test_changed_values(text: str) -> None:
    load_or_refuse(lambda: parse_job(text, "job.yaml"))


plain_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(CHEAP, max_examples=600)
@given(st.sampled_from(PLACES), plain_values)
def test_arbitrary_values_anywhere(path: tuple[Any, ...], value: Any) -> None:
    data = copy.deepcopy(FULL)
    here: Any = data
    for part in path[:-1]:
        here = here[part]
    here[path[-1]] = value
    text = dump(data)
    load_or_refuse(lambda: parse_job(text, "job.yaml"))


@pytest.mark.parametrize("seed", range(4))
def test_changed_text(seed: int) -> None:
    """Pieces of YAML syntax and of the file itself put in, cut out and swapped."""
    chance = random.Random(seed)
    for _ in range(1150):
        text = chance.choice([FULL_TEXT, SHORTEST])
        for _ in range(chance.randint(1, 4)):
            at, other = sorted((chance.randrange(len(text) + 1), chance.randrange(len(text) + 1)))
            other = min(other, at + chance.choice([1, 5, 40]))
            text = chance.choice(
                [
                    text[:at] + text[other:],
                    text[:at] + text[at:other] * 3 + text[other:],
                    text[:at] + chance.choice(SYNTAX) + text[at:],
                    text[:at] + chance.choice(SYNTAX) + text[other:],
                    text[:at]
                    + chr(chance.choice([chance.randrange(128), 0xD800, 0x10FFFF]))
                    + text[at:],
                    text[:at].replace(":", chance.choice(SYNTAX), 1) + text[at:],
                ]
            )
        load_or_refuse(lambda text=text: parse_job(text, "job.yaml"))  # type: ignore[misc]


@pytest.mark.parametrize("seed", range(4))
def test_changed_bytes(seed: int, tmp_path: Path) -> None:
    chance = random.Random(1000 + seed)
    path = tmp_path / "job.yaml"
    for _ in range(850):
        content = bytearray(chance.choice([FULL_TEXT, SHORTEST]).encode())
        for _ in range(chance.choice([1, 1, 2, 20])):
            at = chance.randrange(len(content))
            content[at : at + chance.randint(0, 2)] = chance.randbytes(chance.randint(0, 2))
        path.write_bytes(content)
        load_or_refuse(lambda: load_job(path))


@settings(CHEAP, max_examples=300)
@given(st.text(max_size=200))
def test_arbitrary_text(text: str) -> None:
    load_or_refuse(lambda: parse_job(text, "job.yaml"))


override_paths = st.sampled_from(
    [".".join(map(str, path[1:])) for path in PLACES if path[0] == "spec" and len(path) > 1]
    + ["", "a.b", "roles.x", "roles.worker.command[0]", "metadata.name", "[0]", "'", '"a.b"']
)


@settings(CHEAP, max_examples=600)
@given(
    override_paths,
    st.sampled_from(["=", "", "==", ".="]),
    st.sampled_from([*SYNTAX, *map(str, ODD_SCALARS)]) | st.text(max_size=10),
)
def test_arbitrary_overrides(path: str, sign: str, value: str) -> None:
    load_or_refuse(lambda: parse_job(FULL_TEXT, "job.yaml", [path + sign + value]))


WORST = {
    "unknown fields": SHORTEST + "".join(f"  replicas{n}: 1\n" for n in range(9_000)),
    "bad roles": SHORTEST + "".join(f"    W{n}: {{replicas: 0}}\n" for n in range(4_900)),
    "many roles": SHORTEST + "".join(f"    w{n}: {{replicas: 1}}\n" for n in range(4_900)),
    "unknown success roles": SHORTEST
    + f"  successPolicy: {{roles: [{', '.join(f'w{n}' for n in range(15_000))}]}}\n",
    "long comment": SHORTEST + "#" * 1_000_000,
    "long text": SHORTEST + "  image: " + "x" * 1_000_000 + "\n",
    "long key": SHORTEST + "  ? " + "x" * 1_000_000 + "\n  : 1\n",
    "many short lines": SHORTEST + "\n" * 1_000_000,
    "escapes": SHORTEST + '  image: "' + "\\u0041" * 170_000 + '"\n',
    "wide list": SHORTEST + "  files: [" + "a, " * 19_900 + "a]\n",
    "wide empty lists": SHORTEST + "  files: [" + "[], " * 19_900 + "a]\n",
    "long env": SHORTEST + "  env: {" + ", ".join(f"MOORING_{n}: 1" for n in range(9_000)) + "}\n",
    "many anchors": "".join(f"a{n}: &a{n} x\n" for n in range(9_000)),
    "many aliases": SHORTEST + "  image: &a x\n  files: [" + "*a , " * 15_000 + "*a ]\n",
    "many merges": "a: &a {"
    + ", ".join(f"k{n}: 1" for n in range(90))
    + "}\nb: {<<: ["
    + "*a , " * 100
    + "*a ]}\n",
    "slow pattern": SHORTEST
    + "  stepMetrics: {source: regex, pattern: '(?i)"
    + "[\\0-\\U0010ffff]" * 30
    + "'}\n",
    "deep pattern": SHORTEST + f"  stepMetrics: {{source: regex, pattern: '{'(?:' * 330}'}}\n",
    "open flow": SHORTEST + "  files: [" + "{" * 500_000,
    "question marks": "? " * 500_000,
    "quotes": "'" * 1_000_000,
    "anchors only": "&a " * 300_000,
    "tags only": "! " * 500_000,
    "percent": "%a b\n" * 200_000,
}


@pytest.mark.parametrize("text", WORST.values(), ids=WORST.keys())
def test_hostile_files_are_quick(text: str) -> None:
    load_or_refuse(lambda: parse_job(text, "job.yaml"))
