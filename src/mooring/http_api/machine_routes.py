"""The machine: its nodes, its pools, and where a job would go."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from mooring import frameworks
from mooring.backends.local.queue.admission import Round
from mooring.brain.queue import DEFAULT_POOL, PoolSpec
from mooring.http_api.answering import Route, answer, read_body, read_query
from mooring.http_api.job_routes import SERVICE
from mooring.http_api.machine_models import (
    Amount,
    NodeLine,
    NodeList,
    PlanAnswer,
    PlanRequest,
    PoolLine,
    PoolList,
)
from mooring.http_api.models import Verdict
from mooring.http_api.paging import Page, answer_list, part_of
from mooring.http_api.reading import READERS
from mooring.http_api.run_models import PlannedMember
from mooring.model.cluster import Node, format_cpus
from mooring.model.member import Gang
from mooring.model.plan import NodeVerdict, Refusal
from mooring.model.resources import Resources
from mooring.record.plan_file import plan_document
from mooring.spec.load import check_job


async def _pools(request: web.Request) -> web.Response:
    service, asked = request.app[SERVICE], read_query(request, Page)
    state = service.round().state
    pools = state.pools or (PoolSpec(DEFAULT_POOL, cap=None),)
    held = {pool.name: Resources() for pool in pools}
    running, waiting = dict.fromkeys(held, 0), dict.fromkeys(held, 0)
    for each in state.running:
        asked_for = {member.id: member.resources for member in each.gang.members}
        placed = (asked_for[one.member] for one in each.plan.placements)
        held[each.pool] = sum(placed, held.get(each.pool, Resources()))
        running[each.pool] = running.get(each.pool, 0) + 1
    for one in state.waiting:
        waiting[one.pool] = waiting.get(one.pool, 0) + 1
    lines = [
        PoolLine(
            name=pool.name,
            guaranteed=Amount.of(pool.guaranteed),
            cap=None if pool.cap is None else Amount.of(pool.cap),
            weight=pool.weight,
            held=Amount.of(held[pool.name]),
            running=running[pool.name],
            waiting=waiting[pool.name],
        )
        for pool in pools
    ]
    begin, end, after = part_of(asked, len(lines))
    return answer_list(PoolList(pools=tuple(lines[begin:end]), next=after), "pools", asked.fields)


async def _nodes(request: web.Request) -> web.Response:
    service, asked = request.app[SERVICE], read_query(request, Page)
    cluster = service.round().cluster
    jobs: dict[str, set[str]] = {}
    for job, (_, plan) in cluster.held.items():
        for placement in plan.placements:
            jobs.setdefault(placement.slot.node, set()).add(job)
    begin, end, after = part_of(asked, len(cluster.nodes))
    lines = [
        _node_line(node, service.round(), sorted(jobs.get(node.name, ())))
        for node in cluster.nodes[begin:end]
    ]
    return answer_list(NodeList(nodes=tuple(lines), next=after), "nodes", asked.fields)


def _node_line(node: Node, round_: Round, jobs: list[str]) -> NodeLine:
    use = round_.cluster.use(node.name)
    return NodeLine(
        name=node.name,
        capacity=Amount.of(node.capacity),
        held=Amount.of(use.resources),
        cpus=format_cpus({cpu.id for cpu in node.cpus}),
        held_cpus=format_cpus(use.cpus),
        gpus=len(node.gpus),
        nic_mbps=node.nic_mbps,
        jobs=tuple(jobs),
    )


async def _plan(request: web.Request) -> web.Response:
    asked = await read_body(request, PlanRequest)
    job = check_job(asked.job, asked.source)
    gang = frameworks.expand(job, asked.source)
    round_ = request.app[SERVICE].round()
    return answer(await request.app[READERS].read(_planned, gang, round_))


def _planned(gang: Gang, round_: Round) -> PlanAnswer:
    placed = round_.cluster.place(gang)
    if isinstance(placed, Refusal):
        return PlanAnswer(
            job=gang.job,
            members=(),
            waiting=(),
            refused=placed.sentence,
            nodes=tuple(map(_verdict, round_.cluster.explain(gang, placed.member))),
            notes=(),
        )
    document: dict[str, Any] = plan_document(gang, placed)
    return PlanAnswer(
        job=gang.job,
        members=tuple(PlannedMember.model_validate(each) for each in document["members"]),
        waiting=tuple(member.name for member in placed.waiting),
        refused=None,
        nodes=(),
        notes=placed.notes,
    )


def _verdict(one: NodeVerdict) -> Verdict:
    return Verdict(node=one.node, refused=one.reasons, scores=dict(one.scores))


ROUTES = (
    Route("GET", "/pools", _pools, "Pools, and who holds what.", PoolList, Page, listed="pools"),
    Route("GET", "/nodes", _nodes, "Nodes, and who holds what.", NodeList, Page, listed="nodes"),
    Route(
        "POST",
        "/plans",
        _plan,
        "Where a job would go now. Starts nothing.",
        PlanAnswer,
        body=PlanRequest,
    ),
)
