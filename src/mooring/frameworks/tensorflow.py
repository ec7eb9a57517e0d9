"""TensorFlow: TF_CONFIG for parameter servers, and for all-reduce (MultiWorkerMirrored).

The evaluator is a task of the job but not of the cluster: TensorFlow's own resolvers expect it
to be missing from the cluster's dictionary.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import ClassVar

from mooring.frameworks.base import Framework, RoleFacts, inside_problems, launch
from mooring.model.engine import Engine
from mooring.model.errors import Problem
from mooring.model.identity import Identity
from mooring.model.launch import Launch
from mooring.model.member import Duty, Member
from mooring.spec import Strategy, SuccessPolicy, TrainingJob, VariablesSpec

_CHIEF = RoleFacts(max_replicas=1)
_LEADER = RoleFacts(duty=Duty.LEADS, max_replicas=1)
_WORKER = RoleFacts(required=True)
_SERVER = RoleFacts(ranked=False, duty=Duty.SERVES, required=True)
_EVALUATOR = RoleFacts(ranked=False, duty=Duty.EVALUATES, max_replicas=1)


class TensorFlow(Framework):
    name: ClassVar[str] = "tensorflow"
    summary: ClassVar[str] = "parameter servers (chief, worker, ps) or MultiWorkerMirrored"
    strategies: ClassVar[tuple[Strategy, ...]] = (Strategy.PARAMETER_SERVER, Strategy.ALL_REDUCE)
    owned_env: ClassVar[frozenset[str]] = frozenset({"TF_CONFIG"})

    engine: ClassVar[Engine | None] = Engine(
        module="tensorflow",
        package="tensorflow",
        implied_by=frozenset({"tf_keras", "keras", "tensorflow_datasets", "tensorflow_hub"}),
    )

    def roles(self, strategy: Strategy) -> Mapping[str, RoleFacts]:
        if strategy is Strategy.PARAMETER_SERVER:
            return {"chief": _LEADER, "worker": _WORKER, "ps": _SERVER, "evaluator": _EVALUATOR}
        return {"chief": _CHIEF, "worker": _WORKER, "evaluator": _EVALUATOR}

    def success(self, job: TrainingJob) -> SuccessPolicy:
        """The chief's end is the job's; workers and servers wait for ever for its next step."""
        if "chief" in job.spec.roles and self.strategy(job) is Strategy.PARAMETER_SERVER:
            return SuccessPolicy(roles=("chief",))
        return super().success(job)

    def role_env(self, job: TrainingJob, role: str) -> Mapping[str, str]:
        """The placement of variables, which `mooring.tensorflow.strategy()` carries out, and what
        `mooring.inside` does in the program that makes them."""
        wanted = job.spec.variables
        env: dict[str, str] = {}
        if wanted is not None:
            document: dict[str, object] = {"placement": wanted.placement.value}
            if wanted.max_shard_bytes is not None:
                document["maxShardBytes"] = wanted.max_shard_bytes
            env["MOORING_VARIABLES"] = json.dumps(document, separators=(",", ":"))
        if self.strategy(job) is Strategy.PARAMETER_SERVER and role == "chief":
            asked = wanted or VariablesSpec.all_defaults()
            inside = {"lookups": asked.lookups.value, "optimizer": asked.optimizer.value}
            env["MOORING_INSIDE"] = json.dumps(inside, separators=(",", ":"))
        return env

    def check(self, job: TrainingJob) -> list[Problem]:
        """Keras is changed in the chief's program: without one there is nothing to change."""
        return [] if "chief" in job.spec.roles else inside_problems(job, "a role 'chief'")

    def render(self, member: Member, identity: Identity, member_dir: str) -> Launch:
        cluster = {
            role: [peer.main_address for peer in peers]
            for role in ("chief", "worker", "ps")
            if (peers := identity.of_role(role))
        }
        task = {"type": member.id.role, "index": member.id.index}
        defaults = {"TF_CPP_MIN_LOG_LEVEL": "1"}
        if "ps" in cluster:
            # Without it a call to a server that is still starting blocks instead of failing.
            defaults["GRPC_FAIL_FAST"] = "use_caller"
        config = json.dumps({"cluster": cluster, "task": task})
        return launch(member, identity, defaults=defaults, env={"TF_CONFIG": config})
