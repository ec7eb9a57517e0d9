"""A job becomes a gang: job and role settings merged, every copy of a role a member of its own.

All that is wrong with the roles of a job is found here in one pass, before anything is placed,
so that its author sees every problem at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from mooring.frameworks.base import Framework, RoleFacts
from mooring.frameworks.pod_volumes import problems_of, volumes_of
from mooring.frameworks.registry import find
from mooring.model.errors import BadInput, Problem
from mooring.model.labels import labels_of
from mooring.model.member import PIPELINE, Duty, Gang, Member, MemberId, Preset
from mooring.model.traffic import Pattern, Traffic
from mooring.model.volumes import Volume
from mooring.spec import Role, Strategy, SuccessPolicy, TrainingJob
from mooring.spec.affinity import wish_of
from mooring.spec.base import one_of
from mooring.spec.kubernetes import PodSpec

#: Who sends to whom, if the author of the job does not say.
_PATTERNS = {
    Strategy.PARAMETER_SERVER: Pattern.PARAMETER_SERVER,
    Strategy.ALL_REDUCE: Pattern.RING,
    Strategy.LAUNCHER: Pattern.RING,
}


def expand(job: TrainingJob, source: str = "job") -> Gang:
    """The members that `job` asks for. Raises BadInput, from `source`, with every problem."""
    framework = find(job.spec.framework, source)
    problems = list(_problems(job, framework))
    if problems:
        raise BadInput(source, [replace(each, line=job.line_of(each.path)) for each in problems])
    strategy = framework.strategy(job)
    roles = job.spec.roles
    facts = {role: _facts(framework, strategy, role) for role in roles}
    pods = {role: job.spec.kubernetes.of_role(each.kubernetes) for role, each in roles.items()}
    volumes = {role: volumes_of(pod) for role, pod in pods.items()}
    sdk_env = {role: framework.role_env(job, role) for role in roles}
    members = [
        _member(job, role, index, facts[role], pods[role], volumes[role], sdk_env[role])
        for role, settings in roles.items()
        for index in range(settings.replicas)
    ]
    placement = job.spec.placement
    return Gang(
        job=job.metadata.name,
        members=tuple(members),
        preset=placement.preset or _default_preset(members),
        preset_is_open=placement.preset is None,
        duties=tuple((role, of.duty) for role, of in facts.items() if of.duty is not Duty.TRAINS),
        rules=tuple(rule.to_model() for rule in placement.rules),
        all_or_nothing=job.spec.gang,
        traffic=_traffic(job, strategy),
        spreads=tuple(each.to_model() for each in placement.topology_spread),
    )


def success_policy(job: TrainingJob, source: str = "job") -> SuccessPolicy:
    """The job's own policy, or the default of its framework."""
    return job.spec.success_policy or find(job.spec.framework, source).success(job)


def _traffic(job: TrainingJob, strategy: Strategy) -> Traffic | None:
    declared = job.spec.traffic
    if declared is None:
        return None
    pattern = declared.pattern or _PATTERNS[strategy]
    per_server = declared.per_server or ()
    return Traffic(pattern, declared.bytes_per_step or sum(per_server), per_server)


def _default_preset(members: list[Member]) -> Preset:
    return Preset.PACK if any(member.resources.gpu_millis for member in members) else Preset.SPREAD


def _facts(framework: Framework, strategy: Strategy, role: str) -> RoleFacts:
    facts = framework.facts(strategy, role)
    assert facts is not None, f"{role} was not checked"
    return facts


def _member(
    job: TrainingJob,
    role: str,
    index: int,
    facts: RoleFacts,
    pod: PodSpec,
    volumes: tuple[Volume, ...],
    sdk_env: Mapping[str, str],
) -> Member:
    settings = job.spec.roles[role]
    placement = job.spec.placement
    return Member(
        id=MemberId(role, index),
        job=job.metadata.name,
        resources=settings.resources.to_model(),
        pinning=job.spec.pinning,
        processes=settings.processes,
        computes=facts.duty is not Duty.STARTS,
        argv=tuple(_command(job, settings, facts) or ()),
        env={**job.spec.env, **settings.env, **sdk_env},
        ports={**dict.fromkeys(facts.ports, 0), **settings.ports},
        node_selector={**placement.node_selector, **settings.node_selector},
        tolerations=tuple(
            each.to_model() for each in (*placement.tolerations, *settings.tolerations)
        ),
        restart=settings.restart or job.spec.failure_policy.restart,
        image=pod.image or job.spec.image or "",
        volumes=volumes,
        labels=labels_of({**job.metadata.labels, **pod.labels, **_pipeline(job)}),
        wish=replace(
            wish_of(
                placement.node_affinity,
                settings.node_affinity,
                settings.node_name or placement.node_name,
            ),
            gpu_kind=settings.gpu_kind or "",
            gpu_memory_bytes=settings.gpu_memory or 0,
        ),
    )


def _pipeline(job: TrainingJob) -> dict[str, str]:
    return {PIPELINE: job.spec.pipeline} if job.spec.pipeline else {}


def _command(job: TrainingJob, settings: Role, facts: RoleFacts) -> tuple[str, ...] | None:
    if settings.command is not None:
        return settings.command
    return job.spec.command if facts.needs_command else None


def _problems(job: TrainingJob, framework: Framework) -> Iterator[Problem]:
    strategy = framework.strategy(job)
    if strategy not in framework.strategies:
        yield Problem(
            "spec.strategy",
            f"{strategy.value!r} with framework {framework.name}",
            one_of(strategy.value, [known.value for known in framework.strategies]),
        )
        return
    if not job.spec.gang and strategy is not Strategy.INDEXED:
        yield Problem(
            "spec.gang",
            f"false with strategy {strategy.value}, whose members wait for each other",
            "true, or strategy indexed",
        )
    named = framework.roles(strategy)
    for role, settings in job.spec.roles.items():
        facts = framework.facts(strategy, role)
        if facts is None:
            yield Problem(
                f"spec.roles.{role}",
                f"a role that {framework.name} with strategy {strategy.value} does not have",
                one_of(role, named),
            )
        else:
            yield from _role_problems(job, role, settings, facts)
            yield from _env_problems(framework, f"spec.roles.{role}.env", settings.env)
    for role, facts in named.items():
        if facts.required and role not in job.spec.roles:
            yield Problem(
                f"spec.roles.{role}",
                f"no role {role!r} (there is {', '.join(job.spec.roles)})",
                f"a role {role!r}, which {framework.name} needs with strategy {strategy.value}"
                + _other_strategies(framework, strategy),
            )
    yield from _env_problems(framework, "spec.env", job.spec.env)
    yield from _traffic_problems(job, framework, strategy)
    yield from _elastic_problems(job, framework, strategy)
    if job.spec.variables is not None and not _servers(job, framework, strategy):
        found = f"a section, with strategy {strategy.value}"
        yield Problem("spec.variables", found, "nothing: no role of the job serves parameters")
    yield from problems_of(job.spec.kubernetes, "spec.kubernetes")
    yield from framework.check(job)


def _servers(job: TrainingJob, framework: Framework, strategy: Strategy) -> dict[str, Role]:
    return {
        role: settings
        for role, settings in job.spec.roles.items()
        if (facts := framework.facts(strategy, role)) is not None and facts.duty is Duty.SERVES
    }


def _traffic_problems(
    job: TrainingJob, framework: Framework, strategy: Strategy
) -> Iterator[Problem]:
    declared = job.spec.traffic
    if declared is None:
        return
    pattern = declared.pattern or _PATTERNS.get(strategy)
    patterns = [each.value for each in Pattern]
    servers = _servers(job, framework, strategy)
    count = sum(settings.replicas for settings in servers.values())
    if pattern is None:
        yield Problem(
            "spec.traffic.pattern",
            f"nothing, and strategy {strategy.value} implies none",
            one_of(None, patterns),
        )
    elif pattern is Pattern.PARAMETER_SERVER and not servers:
        yield Problem(
            "spec.traffic.pattern",
            f"{pattern.value!r}, but no role of the job serves parameters",
            Pattern.RING.value,
        )
    elif declared.per_server is not None and pattern is Pattern.RING:
        yield Problem("spec.traffic.perServer", "a list, with a ring", "bytesPerStep instead")
    elif declared.per_server is not None and len(declared.per_server) != count:
        yield Problem(
            "spec.traffic.perServer",
            f"{len(declared.per_server)} amounts",
            f"{count}, one for each member of {' and '.join(servers)}",
        )


def _elastic_problems(
    job: TrainingJob, framework: Framework, strategy: Strategy
) -> Iterator[Problem]:
    """Parameters live on the servers: their number is fixed, that of the others may vary."""
    wanted = job.spec.min_available
    if wanted is None:
        return
    if not job.spec.gang:
        yield Problem(
            "spec.minAvailable",
            f"{wanted} beside 'gang: false'",
            "one of the two: with 'gang: false' members start one by one anyway",
        )
    servers = _servers(job, framework, strategy)
    count = sum(settings.replicas for settings in servers.values())
    least = count + len(job.spec.roles) - len(servers)
    if wanted < least:
        others = [role for role in job.spec.roles if role not in servers]
        kept = [f"all {count} of {' and '.join(servers)}"] if servers else []
        kept += [f"one {role}" for role in others]
        yield Problem(
            "spec.minAvailable",
            str(wanted),
            f"at least {least}: {', '.join(kept)} are always there",
        )


def _other_strategies(framework: Framework, strategy: Strategy) -> str:
    others = [known.value for known in framework.strategies if known != strategy]
    return f", or strategy {' or '.join(others)}" if others else ""


def _role_problems(
    job: TrainingJob, role: str, settings: Role, facts: RoleFacts
) -> Iterator[Problem]:
    path = f"spec.roles.{role}"
    yield from problems_of(settings.kubernetes, f"{path}.kubernetes")
    if facts.max_replicas is not None and settings.replicas > facts.max_replicas:
        yield Problem(f"{path}.replicas", str(settings.replicas), f"at most {facts.max_replicas}")
    if settings.processes > 1 and not facts.multi_process:
        yield Problem(
            f"{path}.processes",
            str(settings.processes),
            f"1: a member of role {role} runs one process (use replicas for more)",
        )
    if facts.needs_command and not _command(job, settings, facts):
        yield Problem(
            f"{path}.command", "no command", "a list such as [python, train.py], here or in spec"
        )


def _env_problems(framework: Framework, path: str, env: Mapping[str, str]) -> Iterator[Problem]:
    for variable in env:
        if framework.owns(variable):
            yield Problem(
                f"{path}.{variable}",
                f"{variable}, which Mooring sets from the member's identity",
                "any other variable",
            )
