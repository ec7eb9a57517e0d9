"""What a valid job file means: defaults, short forms, overrides, and being written back."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from sample_jobs import SHORTEST, full

from mooring.model.cluster import Toleration
from mooring.model.member import Pinning, Relation, Restart, Rule
from mooring.model.resources import Resources
from mooring.spec import (
    FailurePolicy,
    JobSpec,
    Metadata,
    Role,
    StepMetrics,
    Strategy,
    SuccessMode,
    TrainingJob,
    load_job,
    parse_job,
)


def test_the_shortest_job_has_the_documented_defaults() -> None:
    assert len(SHORTEST.splitlines()) < 12
    spec = parse_job(SHORTEST, "job.yaml").spec
    assert spec.strategy is None
    assert spec.pinning is Pinning.SHARED
    assert spec.threads == "auto"
    assert spec.gang is True
    assert spec.success_policy is None
    assert spec.failure_policy == FailurePolicy()
    assert spec.failure_policy.restart is Restart.NEVER
    assert spec.failure_policy.max_restarts == 3
    assert (spec.time_limit_s, spec.start_timeout_s, spec.grace_period_s) == (None, 300, 10)
    assert spec.step_metrics == StepMetrics()
    assert spec.roles == {"worker": Role(replicas=2)}
    assert spec.roles["worker"].resources.to_model() == Resources()


def test_every_field_arrives() -> None:
    spec = parse_job(yaml.safe_dump(full()), "job.yaml").spec
    assert spec.strategy is Strategy.PARAMETER_SERVER
    assert spec.command == ("python", "train.py", "--steps", "100")
    assert spec.roles["worker"].resources.to_model() == Resources(2000, 4 * 1024**3, 1)
    assert spec.roles["worker"].tolerations[0].to_model() == Toleration("gpu", "Exists")
    assert spec.placement.rules[0].to_model() == Rule(
        Relation.APART, ("ps",), ("worker",), required=True, weight=10
    )
    assert spec.success_policy is not None
    assert spec.success_policy.mode is SuccessMode.ANY
    assert spec.failure_policy.backoff.initial_s == 0.25
    assert spec.time_limit_s == 5400


def test_a_rule_is_about_its_own_roles_unless_it_says_with_whom() -> None:
    text = SHORTEST + "  placement: {rules: [{relation: apart, roles: [worker]}]}\n"
    rule = parse_job(text, "job.yaml").spec.placement.rules[0].to_model()
    assert rule == Rule(Relation.APART, ("worker",), ("worker",), required=False, weight=50)


def test_a_field_without_a_value_has_its_default() -> None:
    text = SHORTEST + "    ps:\n  env:\n  placement:\n  timeLimit:\n"
    spec = parse_job(text, "job.yaml").spec
    assert spec.roles["ps"] == Role()
    assert spec.env == {}
    assert spec.time_limit_s is None


def test_anchors_and_merge_keys_work_within_bounds() -> None:
    text = (
        SHORTEST
        + "    ps: &ps {replicas: 3, env: {A: '1'}}\n    chief: {<<: *ps, replicas: 1}\n"
        + "    evaluator: *ps\n"
    )
    roles = parse_job(text, "job.yaml").spec.roles
    assert roles["chief"] == Role(replicas=1, env={"A": "1"})
    assert roles["evaluator"] == roles["ps"]


def test_old_yaml_does_not_surprise() -> None:
    text = SHORTEST + "  image: 1:30\n  env: {DAY: 2020-01-01, TIME: 12:30:45, EXP: 1e3}\n"
    spec = parse_job(text, "job.yaml").spec
    assert spec.image == "1:30"
    assert spec.env == {"DAY": "2020-01-01", "TIME": "12:30:45", "EXP": "1e3"}


def test_a_byte_order_mark_and_crlf_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + SHORTEST.replace("\n", "\r\n").encode())
    assert load_job(path) == parse_job(SHORTEST, "job.yaml")


@pytest.mark.parametrize(
    ("override", "look", "value"),
    [
        ("roles.worker.replicas=4", lambda job: job.spec.roles["worker"].replicas, 4),
        ("spec.roles.worker.replicas=4", lambda job: job.spec.roles["worker"].replicas, 4),
        ("metadata.name=other", lambda job: job.metadata.name, "other"),
        ("roles.ps.replicas=2", lambda job: job.spec.roles["ps"], Role(replicas=2)),
        ("env.STEPS=100", lambda job: job.spec.env, {"STEPS": "100"}),
        ("env.ON=true", lambda job: job.spec.env, {"ON": "true"}),
        ("env.EQ=a=b", lambda job: job.spec.env, {"EQ": "a=b"}),
        ("command[1]=5", lambda job: job.spec.command, ("python", "5")),
        ("command.0=bash", lambda job: job.spec.command, ("bash", "train.py")),
        ("command=[a, b]", lambda job: job.spec.command, ("a", "b")),
        ("timeLimit=", lambda job: job.spec.time_limit_s, None),
        ("gang=false", lambda job: job.spec.gang, False),
        (
            'placement.nodeSelector."a.b/c"=1',
            lambda job: job.spec.placement.node_selector,
            {"a.b/c": "1"},
        ),
    ],
)
def test_overrides_are_put_in(override: str, look: Any, value: Any) -> None:
    assert look(parse_job(SHORTEST, "job.yaml", [override])) == value


def test_later_overrides_win() -> None:
    overrides = ["roles.worker.replicas=4", "roles.worker.replicas=5"]
    assert parse_job(SHORTEST, "job.yaml", overrides).spec.roles["worker"].replicas == 5


@pytest.mark.parametrize("defaults", [False, True])
@pytest.mark.parametrize("text", [SHORTEST, yaml.safe_dump(full())])
def test_a_job_survives_being_written(text: str, defaults: bool) -> None:
    job = parse_job(text, "job.yaml")
    assert parse_job(job.to_yaml(defaults=defaults), "again") == job


words = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
filled = words.filter(str.strip)


@settings(max_examples=300, deadline=None)
@given(
    command=st.lists(words, min_size=1, max_size=4),
    env=st.dictionaries(
        words.filter(lambda name: name and "=" not in name and not name.startswith("MOORING_")),
        words,
        max_size=3,
    ),
    labels=st.dictionaries(filled, words, max_size=3),
    limit_s=st.floats(min_value=0.001, max_value=1e6),
    cpu_millis=st.integers(0, 10**6),
    memory_bytes=st.integers(0, 2**62),
)
def test_any_job_made_in_python_survives_being_written(
    command: list[str],
    env: dict[str, str],
    labels: dict[str, str],
    limit_s: float,
    cpu_millis: int,
    memory_bytes: int,
) -> None:
    resources = {"cpu": f"{cpu_millis}m", "memory": memory_bytes}
    job = TrainingJob(
        metadata=Metadata(name="demo", labels=labels),
        spec=JobSpec(
            framework="indexed",
            command=tuple(command),
            env=env,
            time_limit_s=limit_s,
            roles={"worker": Role.model_validate({"resources": resources})},
        ),
    )
    assert parse_job(job.to_yaml(), "again") == job


def test_models_are_frozen_and_leave_their_input_alone() -> None:
    data = full()
    before = copy.deepcopy(data)
    job = TrainingJob.model_validate(data)
    assert data == before
    with pytest.raises(ValueError, match="frozen"):
        job.spec.gang = True  # type: ignore[misc]
