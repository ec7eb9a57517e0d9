"""Launchers' looks and what else is known of members to the account of a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mooring.account import Account
from mooring.account.summing import account_of
from mooring.account.weighing import MemberSeen
from mooring.doctor.facts import MemberFacts, NicFacts
from mooring.model.member import Duty

#: No part of their time is a step's.
_ASIDE = frozenset({Duty.EVALUATES, Duty.STARTS})


def read_account(
    members: Sequence[MemberFacts],
    duties: Mapping[str, Duty],
    steps_per_s: float | None,
    cards: Iterable[NicFacts] = (),
    one_machine: bool = True,
) -> Account:
    """`steps_per_s`: the run's, for members that report none themselves."""
    limits = {card.node: card.limit_mbps for card in cards}
    of_members = [(member, duties.get(member.role, Duty.TRAINS)) for member in members]
    return account_of(
        [
            _seen(member, duty, steps_per_s, limits)
            for member, duty in of_members
            if duty not in _ASIDE
        ],
        one_machine,
    )


def _seen(
    member: MemberFacts,
    duty: Duty,
    steps_per_s: float | None,
    limits: Mapping[str, int | None],
) -> MemberSeen:
    rate = member.steps_per_s or steps_per_s
    limit = limits.get(member.node)
    use = member.use
    wanted_s = 0.0 if use is None else use.cpu_s + (use.wait_s or 0.0)
    return MemberSeen(
        name=member.name,
        role=member.role,
        node=member.node,
        ranks=member.looks,
        serves=duty is Duty.SERVES,
        leads=duty is Duty.LEADS,
        limit_mbps=None if limit is None else float(limit),
        step_s=None if not rate else 1 / rate,
        cpus=None if use is None else use.cpus,
        ready_ratio=0.0 if use is None or not wanted_s else (use.wait_s or 0.0) / wanted_s,
        has_device=any(card.memory_used_bytes for card in member.gpus),
    )
