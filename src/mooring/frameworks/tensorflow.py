"""TensorFlow: TF_CONFIG for parameter servers, and for all-reduce (MultiWorkerMirrored).

The evaluator is a task of the job but not of the cluster: TensorFlow's own resolvers expect it
to be missing from the cluster's dictionary.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import ClassVar

from mooring.frameworks.base import Framework, RoleFacts, launch
from mooring.model.identity import Identity
from mooring.model.launch import Launch
from mooring.model.member import Member
from mooring.spec import Strategy, SuccessPolicy, TrainingJob

_CHIEF = RoleFacts(max_replicas=1)
_WORKER = RoleFacts(required=True)
_SERVER = RoleFacts(ranked=False, server=True, required=True)
_EVALUATOR = RoleFacts(ranked=False, max_replicas=1)


class TensorFlow(Framework):
    name: ClassVar[str] = "tensorflow"
    summary: ClassVar[str] = "parameter servers (chief, worker, ps) or MultiWorkerMirrored"
    strategies: ClassVar[tuple[Strategy, ...]] = (Strategy.PARAMETER_SERVER, Strategy.ALL_REDUCE)
    owned_env: ClassVar[frozenset[str]] = frozenset({"TF_CONFIG"})

    def roles(self, strategy: Strategy) -> Mapping[str, RoleFacts]:
        if strategy is Strategy.PARAMETER_SERVER:
            return {"chief": _CHIEF, "worker": _WORKER, "ps": _SERVER, "evaluator": _EVALUATOR}
        return {"chief": _CHIEF, "worker": _WORKER, "evaluator": _EVALUATOR}

    def success(self, job: TrainingJob) -> SuccessPolicy:
        """The chief's end is the job's; workers and servers wait for ever for its next step."""
        if "chief" in job.spec.roles and self.strategy(job) is Strategy.PARAMETER_SERVER:
            return SuccessPolicy(roles=("chief",))
        return super().success(job)

    def job_env(self, job: TrainingJob) -> Mapping[str, str]:
        """The placement of variables, which `mooring.tensorflow.strategy()` carries out."""
        wanted = job.spec.variables
        if wanted is None:
            return {}
        document: dict[str, object] = {"placement": wanted.placement.value}
        if wanted.max_shard_bytes is not None:
            document["maxShardBytes"] = wanted.max_shard_bytes
        return {"MOORING_VARIABLES": json.dumps(document, separators=(",", ":"))}

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
