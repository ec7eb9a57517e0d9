"""Each way in which a job file can be wrong: the path, what was found, what is accepted."""

from __future__ import annotations

import copy
import os
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from sample_jobs import SHORTEST, full

from mooring.model.errors import BadInput, Problem
from mooring.spec import load_cluster, load_job, parse_job

_DELETE = object()


def problems_of(text: str, *overrides: str) -> tuple[Problem, ...]:
    with pytest.raises(BadInput) as raised:
        parse_job(text, "job.yaml", overrides)
    assert not re.search("pydantic|validation|Input should|Traceback", str(raised.value))
    return raised.value.problems


def changed(path: str, value: Any) -> str:
    """The full job with one value changed (or taken out)."""
    data = copy.deepcopy(full())
    here: Any = data
    *way, last = [int(part) if part.isdecimal() else part for part in path.split("/")]
    for part in way:
        here = here[part]
    if value is _DELETE:
        del here[last]
    else:
        here[last] = value
    return yaml.safe_dump(data, sort_keys=False)


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
AFFINITY = "spec/roles/worker/nodeAffinity"
TERM = f"{AFFINITY}/{REQUIRED}/nodeSelectorTerms/0/matchExpressions/0"
VALUES = (
    f"spec.roles.worker.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].values"
)
PREFERRED = f"{AFFINITY}/preferredDuringSchedulingIgnoredDuringExecution/0"

WRONG_VALUES = [
    # where, the value, the problem's path if another, words of found, words of accepted
    ("apiVersion", "mooring.dev/v2", "", "mooring.dev/v2", "'mooring.dev/v1'"),
    ("apiVersion", _DELETE, "", "nothing", "mooring.dev/v1"),
    ("kind", "Job", "", "'Job'", "'TrainingJob'"),
    ("kind", _DELETE, "", "nothing", "TrainingJob"),
    ("metadata", _DELETE, "", "nothing", "What the job is called"),
    ("metadata", "demo", "", "the text 'demo'", "name, labels"),
    ("metadata/name", _DELETE, "", "nothing", "a value for 'name'"),
    ("metadata/name", "Wide_Deep", "", "'Wide_Deep'", "lower-case letters"),
    ("metadata/name", "a" * 41, "", "aaa", "1 to 40 characters"),
    ("metadata/name", "job-", "", "'job-'", "not ending with '-'"),
    ("metadata/name", 7, "", "the number 7", 'in quotes: "7"'),
    ("metadata/labels", ["a"], "", "a list of 1", "a mapping"),
    ("spec", _DELETE, "", "nothing", "What is to run"),
    ("spec", [], "", "an empty list", "framework"),
    ("spec/framework", _DELETE, "", "nothing", "tensorflow"),
    ("spec/framework", " ", "", "' '", "not empty"),
    ("spec/strategy", "allreduce", "", "'allreduce'", "did you mean 'all-reduce'?"),
    ("spec/strategy", 3, "", "the number 3", "one of: parameter-server"),
    ("spec/command", "python train.py", "", "the text", "a list"),
    ("spec/command", [], "", "an empty list", "at least 1 entry"),
    ("spec/command", ["python", 5], "spec.command[1]", "the number 5", '"5"'),
    ("spec/command", ["a\0b"], "spec.command[0]", "a\\x00b", "without NUL"),
    ("spec/command", [5], "spec.command[0]", "the number 5", '"5"'),
    ("spec/command", [None], "spec.command[0]", "nothing", "a text"),
    ("spec/env", {"A": 1}, "spec.env.A", "the number 1", 'in quotes: "1"'),
    ("spec/env", {"A": True}, "spec.env.A", "true", 'in quotes: "true"'),
    ("spec/env", {"A": None}, "spec.env.A", "nothing", "a text"),
    ("spec/env", {"A": "x\0"}, "spec.env.A", "x\\x00", "without NUL"),
    ("spec/env", {"A=B": "1"}, "spec.env.'A=B'", "'A=B'", "without '='"),
    ("spec/env", {"": "1"}, "spec.env.''", "an empty text", "not empty"),
    ("spec/env", {"MOORING_RANK": "1"}, "spec.env.MOORING_RANK", "MOORING_RANK", "another name"),
    ("spec/files", ["../up"], "spec.files[0]", "../up", "without '..'"),
    ("spec/files", ["/etc/passwd"], "spec.files[0]", "/etc", "below the job file's folder"),
    ("spec/files", [""], "spec.files[0]", "an empty text", "a path"),
    ("spec/files", "train.py", "", "the text", "a list"),
    ("spec/workingDir", "", "", "an empty text", "not empty"),
    ("spec/roles", {}, "", "an empty mapping", "at least 1 entry"),
    ("spec/roles", ["worker"], "", "a list of 1", "a mapping"),
    ("spec/roles", {"Worker": {}}, "spec.roles.Worker", "'Worker'", "1 to 15 characters"),
    ("spec/roles", {"w" * 16: {}}, "spec.roles." + "w" * 16, "www", "1 to 15 characters"),
    ("spec/roles/worker", 3, "", "the number 3", "replicas"),
    ("spec/roles/worker/replicas", 0, "", "the number 0", "at least 1"),
    ("spec/roles/worker/replicas", -1, "", "the number -1", "at least 1"),
    ("spec/roles/worker/replicas", 10_001, "", "the number 10001", "at most 10000"),
    ("spec/roles/worker/replicas", 1.0, "", "the number 1.0", "a whole number"),
    ("spec/roles/worker/replicas", "2", "", "the text '2'", "a whole number"),
    ("spec/roles/worker/replicas", True, "", "true", "a whole number"),
    ("spec/roles/worker/replicas", 10**60, "", "a number", "at most 10000"),
    ("spec/roles/worker/replcas", 2, "", "unknown field 'replcas'", "did you mean 'replicas'?"),
    ("spec/roles/worker/node_selector", {}, "", "unknown field", "did you mean 'nodeSelector'?"),
    ("spec/roles/worker/processes", 0, "", "the number 0", "at least 1"),
    ("spec/roles/worker/restart", "always", "", "'always'", "one of: never, member, gang"),
    ("spec/roles/worker/resources/cpu", "two", "", "'two'", "a number of CPUs"),
    ("spec/roles/worker/resources/cpu", -1, "", "the number -1", "not negative"),
    ("spec/roles/worker/resources/memory", "4GB", "", "'4GB'", "4Gi"),
    ("spec/roles/worker/resources/gpu", 1.5, "", "the number 1.5", "a whole number of devices"),
    ("spec/roles/ps/gpuKind", "a100", "", "'a100'", "'gpu' in 'resources'"),
    ("spec/roles/worker/gpuMemory", "much", "", "'much'", "an amount of bytes"),
    ("spec/roles/worker/resources/gpu", 0.0005, "", "the number 0.0005", "in thousandths"),
    ("spec/roles/worker/resources/cpus", 1, "", "unknown field 'cpus'", "did you mean 'cpu'?"),
    ("spec/roles/worker/resources/cpu", "500m", "", "0.5 cpu", "pinning: exclusive"),
    ("spec/roles/ps/resources/cpu", _DELETE, "", "nothing", "pinning: exclusive"),
    ("spec/roles/worker/ports/main", 65_536, "", "65536", "at most 65535"),
    ("spec/roles/worker/ports/main", -1, "", "-1", "at least 0"),
    ("spec/roles/worker/ports/main", "80", "", "'80'", "a whole number"),
    ("spec/roles/worker/ports", {"a": 80, "b": 80}, "spec.roles.worker.ports.b", "80", "of 'a'"),
    ("spec/roles/worker/ports", {"A_b": 80}, "spec.roles.worker.ports.A_b", "'A_b'", "a name"),
    ("spec/roles/worker/tolerations/0/operator", "In", "", "'In'", "one of: Equal, Exists"),
    ("spec/roles/worker/tolerations/0/value", "x", "", "'x'", "no value"),
    ("spec/placement/tolerations/0/key", _DELETE, "", "no key", "operator: Exists"),
    ("spec/placement/preset", "colocated", "", "'colocated'", "did you mean 'colocate'?"),
    ("spec/placement/rules/0/roles", ["pss"], "spec.placement.rules[0].roles[0]", "'pss'", "'ps'?"),
    (
        "spec/placement/rules/0/with",
        ["wrker"],
        "spec.placement.rules[0].with[0]",
        "wrk",
        "'worker'",
    ),
    ("spec/placement/rules/0/with", [], "", "an empty list", "at least 1 entry"),
    ("spec/placement/rules/0/relation", "near", "", "'near'", "one of: apart, together"),
    ("spec/placement/rules/0/weight", 0, "", "the number 0", "at least 1"),
    ("spec/placement/rules/0/required", "yes", "", "the text 'yes'", "true or false"),
    ("spec/placement/rules", {"a": 1}, "", "a mapping of 1", "a list"),
    ("spec/pinning", "exclusiv", "", "'exclusiv'", "did you mean 'exclusive'?"),
    ("spec/threads", 0, "", "the number 0", "auto, or a whole number"),
    ("spec/threads", "many", "", "'many'", "auto, or a whole number"),
    ("spec/threads", True, "", "true", "auto, or a whole number"),
    ("spec/threads", [1], "", "a list of 1", "auto, or a whole number"),
    ("spec/gang", 1, "", "the number 1", "true or false"),
    ("spec/priority", "Nightly Run", "", "'Nightly Run'", "lower-case letters"),
    ("spec/priority", 1.5, "", "the number 1.5", "the name of a class"),
    ("spec/preemptible", "no", "", "the text 'no'", "true or false"),
    ("spec/expectedDuration", 0, "", "the number 0", "more than 0"),
    ("spec/expectedDuration", "2 hours", "", "'2 hours'", "1h30m"),
    ("spec/minAvailable", 0, "", "the number 0", "at least 1"),
    ("spec/minAvailable", 4, "", "the number 4", "at most 3, the members of the job"),
    ("spec/minAvailable", "2", "", "the text '2'", "a whole number"),
    ("spec/traffic", {}, "spec.traffic.bytesPerStep", "neither", "bytesPerStep, perServer"),
    ("spec/traffic", 5, "", "the number 5", "pattern, bytesPerStep, perServer"),
    ("spec/traffic/perServer", [1], "spec.traffic.bytesPerStep", "both", "one of"),
    ("spec/traffic", {"perServer": []}, "spec.traffic.perServer", "an empty list", "at least 1"),
    ("spec/traffic/pattern", "star", "", "'star'", "one of: parameter-server, ring"),
    ("spec/traffic/bytesPerStep", "4MB", "", "'4MB'", "4Gi"),
    ("spec/traffic/bytesPerStep", -1, "", "the number -1", "not negative"),
    ("spec/roles/worker/nodeName", "", "", "an empty text", "not empty"),
    ("spec/placement/nodeName", 3, "", "the number 3", "a text"),
    ("spec/placement/nodeAffinity", [], "", "an empty list", REQUIRED),
    (f"{TERM}/operator", "in", "", "'in'", "did you mean 'In'?"),
    (f"{TERM}/operator", "Exists", VALUES, "2 values", "no values with operator Exists"),
    (f"{TERM}/operator", "DoesNotExist", VALUES, "2 values", "no values"),
    (f"{TERM}/operator", "Gt", VALUES, "2 values", "one whole number in quotes"),
    (f"{TERM}/values", [], "", "0 values", "at least one value with operator In"),
    (f"{TERM}/values", [8], f"{VALUES}[0]", "the number 8", 'in quotes: "8"'),
    (f"{TERM}/key", _DELETE, "", "nothing", "The label's key"),
    (f"{PREFERRED}/weight", 0, "", "the number 0", "at least 1"),
    (f"{PREFERRED}/weight", 101, "", "the number 101", "at most 100"),
    (f"{PREFERRED}/weight", _DELETE, "", "nothing", "How much it counts"),
    (
        f"{PREFERRED}/preference/matchExpressions/0/values",
        ["eight"],
        "",
        "'eight'",
        "one whole number in quotes",
    ),
    (f"{PREFERRED}/preference/matchExpressions", [], "", "an empty list", "at least 1 entry"),
    ("spec/priority", 2**31, "", "the number 2147483648", "to 2147483647"),
    ("spec/pool", "Ads!", "", "'Ads!'", "lower-case letters"),
    ("spec/successPolicy/roles", ["wrker"], "spec.successPolicy.roles[0]", "wrker", "'worker'?"),
    ("spec/successPolicy/mode", "most", "", "'most'", "one of: all, any"),
    ("spec/failurePolicy/restart", "often", "", "'often'", "one of: never, member, gang"),
    ("spec/failurePolicy/maxRestarts", -1, "", "the number -1", "at least 0"),
    ("spec/failurePolicy/backoff/factor", 0.5, "", "the number 0.5", "at least 1"),
    ("spec/failurePolicy/backoff/factor", float("nan"), "", ".nan", "a finite number"),
    ("spec/failurePolicy/backoff/factor", float("inf"), "", ".inf", "a finite number"),
    ("spec/failurePolicy/backoff/max", "1ms", "", "0.001 s", "at least initial"),
    ("spec/timeLimit", "5 min", "", "'5 min'", "10m"),
    ("spec/timeLimit", 0, "", "the number 0", "more than 0"),
    ("spec/timeLimit", -3, "", "the number -3", "not negative"),
    ("spec/gracePeriod", float("inf"), "", ".inf", "a number of seconds"),
    ("spec/time_limit", "5m", "", "unknown field 'time_limit'", "did you mean 'timeLimit'?"),
    ("spec/zzz", None, "", "unknown field 'zzz'", "one of: framework"),
    ("spec/stepMetrics/pattern", "(", "", "'('", "a Python regular expression"),
    (
        "spec/stepMetrics/pattern",
        "(?P<speed>.)",
        "",
        "unknown group 'speed'",
        "step, examples, loss",
    ),
    ("spec/stepMetrics/pattern", _DELETE, "", "nothing", "a Python regular expression"),
    ("spec/stepMetrics/pattern", "(" * 500, "", "((((", "a Python regular expression"),
    ("spec/stepMetrics/pattern", "a{99999999999}", "", "too large", "a Python regular expression"),
    ("spec/stepMetrics/pattern", "x" * 1001, "", "longer than", "a Python regular expression"),
    ("spec/stepMetrics/pattern", "[a]" * 31, "", "more than 30", "a Python regular expression"),
    ("spec/stepMetrics/source", "sdk", "spec.stepMetrics.pattern", "a pattern", "source: regex"),
    ("spec/stepMetrics/source", "log", "", "'log'", "one of: auto, sdk, regex"),
    ("spec/stepMetrics/totalSteps", 0, "", "the number 0", "at least 1"),
]


def test_the_full_job_is_valid() -> None:
    parse_job(yaml.safe_dump(full()), "job.yaml")


@pytest.mark.parametrize(("where", "value", "path", "found", "accepted"), WRONG_VALUES)
def test_a_wrong_value_is_named(
    where: str, value: Any, path: str, found: str, accepted: str
) -> None:
    expected = path or re.sub(r"\.(\d+)", r"[\1]", where.replace("/", "."))
    (problem,) = [one for one in problems_of(changed(where, value)) if one.path == expected]
    assert found in problem.found
    assert accepted in problem.accepted
    assert problem.line is not None or len(expected.split(".")) == 1


def test_too_many_members_in_all() -> None:
    roles = {name: {"replicas": 6000, "resources": {"cpu": 1}} for name in ("worker", "ps")}
    (problem,) = problems_of(changed("spec/roles", roles))
    assert (problem.path, problem.found) == ("spec.roles", "12000 members")


def test_all_problems_are_reported_at_once_with_their_lines() -> None:
    text = (
        SHORTEST.replace("name: demo", "nam: demo").replace("replicas: 2", "replicas: 0")
        + "  gnag: true\n  timeLimit: soon\n"
    )
    assert [(one.path, one.line) for one in problems_of(text)] == [
        ("metadata.name", 3),
        ("metadata.nam", 3),
        ("spec.roles.worker.replicas", 8),
        ("spec.gnag", 9),
        ("spec.timeLimit", 10),
    ]


def test_the_list_of_problems_is_bounded() -> None:
    text = SHORTEST + "".join(f"  field{index}: 1\n" for index in range(5000))
    assert len(problems_of(text)) == 51


BAD_TEXTS = [
    ("", "nothing", "one YAML document"),
    ("# only a comment\n", "nothing", "one YAML document"),
    ("a: [1, 2", "bad YAML", "valid YAML"),
    ("a: b: c", "bad YAML", "valid YAML"),
    ("\tx: 1", "bad YAML", "valid YAML"),
    ("a: \x01", "bad YAML", "valid YAML"),
    ("a: '\ud800'", "a lone surrogate", "Unicode text"),
    ("a: 1\n---\nb: 2\n", "a second YAML document", "one document"),
    ("a: *b", "without its anchor", "a defined anchor"),
    ("a: &a [*a]", "inside itself", "no recursion"),
    ("&a {b: *a}", "inside itself", "no recursion"),
    ("[" * 101 + "]" * 101, "100 levels", "at most 100"),
    ("[" * 100_000, "100 levels", "at most 100"),
    ("{a: " * 100_000, "100 levels", "at most 100"),
    ("- " * 100_000, "100 levels", "at most 100"),
    ("- a\n" * 20_001, "more than 20000 values", "at most 20000"),
    ("x: " + "y" * 1024 * 1024, "more than 1 MiB", "at most 1 MiB"),
]


@pytest.mark.parametrize(("text", "found", "accepted"), BAD_TEXTS)
def test_text_that_cannot_be_read(text: str, found: str, accepted: str) -> None:
    (problem,) = problems_of(text)
    assert problem.path == "file"
    assert found in problem.found
    assert accepted in problem.accepted


def test_a_billion_laughs_is_refused() -> None:
    levels = ["a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    (problem,) = problems_of("\n".join(levels))
    assert "aliases expanded" in problem.found


def test_nesting_by_aliases_is_refused() -> None:
    levels = ["a0: &a0 [x]"]
    levels += [f"a{n}: &a{n} {'[' * 60}*a{n - 1}{']' * 60}" for n in range(1, 20)]
    (problem,) = problems_of("\n".join(levels))
    assert "levels of nesting" in problem.found


@pytest.mark.parametrize("text", ["3", "text", "[]", "true", "2001-01-01", "!!binary aGk=", "{}"])
def test_a_document_that_is_no_job(text: str) -> None:
    assert problems_of(text)


@pytest.mark.parametrize(
    ("line", "path", "found"),
    [
        ("  gang: true\n  gang: false", "spec.gang", "a second time"),
        ("  1: x", "spec.1", "the key 1, not a text"),
        ("  on: x", "spec.on", "the key on, not a text"),
        ("  ? [a]\n  : x", "spec.?", "a sequence as a key"),
        ("  image: !!python/object/apply:os.system [ls]", "spec.image", "the tag"),
        ("  image: !!python/name:os.system x", "spec.image", "the tag"),
        ("  image: !!binary aGk=", "spec.image", "the tag"),
        ("  image: !mine x", "spec.image", "the tag !mine"),
        ("  env: !!set {}", "spec.env", "the tag"),
        ("  priority: " + "9" * 5000, "spec.priority", "a number of 5000 characters"),
        ("  priority: 0x" + "f" * 5000, "spec.priority", "a number of 5002 characters"),
        ("  priority: !!int soon", "spec.priority", "'soon' as int"),
        ("  gang: !!bool maybe", "spec.gang", "'maybe' as bool"),
        ("  priority: !!float x", "spec.priority", "'x' as float"),
        ("  <<: 3", "spec.<<", "no mapping"),
        ("  image: 2020-01-01\n  gang: 2020-01-01", "spec.gang", "2020-01-01"),
        ('  image: "a\\0b"', "spec.image", "a\\x00b"),
    ],
)
def test_yaml_that_is_no_plain_data(line: str, path: str, found: str) -> None:
    (problem,) = problems_of(SHORTEST + line + "\n")
    assert problem.path == path
    assert found in problem.found
    assert problem.line is not None and problem.line >= 9


@pytest.mark.parametrize(
    ("override", "path", "found"),
    [
        ("roles.worker.replcas=4", "spec.roles.worker.replcas", "unknown field 'replcas'"),
        ("spec.roles.worker.replicas=0", "spec.roles.worker.replicas", "the number 0"),
        ("metadata.name=A B", "metadata.name", "'A B'"),
        ("roles.worker.command.0=3", "spec.roles.worker.command", "a mapping"),
        ("command[7]=x", "spec.command", "no entry '7' in a list"),
        ("framework.name=x", "spec.framework", "the text 'indexed'"),
        ("roles.ps.resources.cpu=abc", "spec.roles.ps.resources.cpu", "'abc'"),
        ("roles.Bad.replicas=1", "spec.roles.Bad", "'Bad'"),
        ("replicas", "", "'replicas'"),
        ("=3", "", "'=3'"),
        ("a..b=3", "", "'a..b=3'"),
        ("", "", "''"),
        ("spec=3", "", "the whole of 'spec'"),
        ("gang=[1", "", "bad YAML"),
        ("gang=&a [*a]", "", "inside itself"),
        ("gang={a: 1, a: 2}", "", "a second time"),
        ("pool=\ud800", "", "a lone surrogate"),
    ],
)
def test_a_bad_override_is_named(override: str, path: str, found: str) -> None:
    (problem,) = problems_of(SHORTEST, override)
    shown = override.replace("\ud800", "\\ud800")
    assert problem.path == (f"{path} (--set {shown})" if path else f"--set {shown}")
    assert found in problem.found


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    binary, large, empty = tmp_path / "binary", tmp_path / "large", tmp_path / "empty"
    binary.write_bytes(b"apiVersion: mooring.dev/v1\nkind: \xff\xfe\n")
    large.write_bytes(b"#" * (1024 * 1024 + 1))
    empty.touch()
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    for path, found in [
        (tmp_path / "missing.yaml", "no such file"),
        (tmp_path, "a folder"),
        (pipe, "not a regular file"),
        (Path("/dev/zero"), "not a regular file"),
        (binary, "not UTF-8"),
        (large, "more than 1 MiB"),
        (empty, "nothing"),
        (loop, "symbolic links"),
        (empty / "below", "not a directory"),
        (Path("a\0b"), "null"),
        (Path("x" * 5000), "name too long"),
    ]:
        for load in (load_job, load_cluster):
            with pytest.raises(BadInput) as raised:
                load(path)
            assert found in raised.value.problems[0].found, path


def test_a_file_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(SHORTEST)
    path.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)  # root may read everything
    try:
        with pytest.raises(BadInput, match="no permission"):
            load_job(path)
    finally:
        os.seteuid(user)
