"""Amounts that are still free: CPU time, memory, devices, and any extended resource."""

from __future__ import annotations

from mooring.brain.board import Board
from mooring.brain.layout import Rows
from mooring.brain.registry import Objections, add_filter
from mooring.brain.want import Want
from mooring.model.resources import format_cpu, format_gpus, format_memory

INSUFFICIENT = "insufficient"
CPU = f"{INSUFFICIENT} cpu"
MEMORY = f"{INSUFFICIENT} memory"
GPU = f"{INSUFFICIENT} gpu"


def resources(want: Want, board: Board, rows: Rows) -> Objections:
    free = board.free
    found: Objections = {}
    if want.cpu_millis:
        left = free.cpu_millis[rows] if want.exclusive else board.shareable_millis(rows)
        found[CPU] = left < want.cpu_millis
    if want.memory_bytes:
        found[MEMORY] = free.memory_bytes[rows] < want.memory_bytes
    if want.gpus:
        found[GPU] = free.gpus[rows] < want.gpus
    for name, asked in want.asked.extended:
        found[f"{INSUFFICIENT} {name}"] = board.extended(name)[rows] < asked
    if want.gpu_share:
        found[GPU] = board.room_for_shares(want, rows) == 0
    return found


def why(want: Want, board: Board, index: int) -> tuple[str, ...]:
    row = slice(index, index + 1)
    reasons = []
    left = board.free.cpu_millis[row] if want.exclusive else board.shareable_millis(row)
    if want.cpu_millis and want.cpu_millis > left[0]:
        reasons.append(f"{CPU} (has {format_cpu(max(0, int(left[0])))} free)")
    memory_bytes = int(board.free.memory_bytes[index])
    if want.memory_bytes and want.memory_bytes > memory_bytes:
        reasons.append(f"{MEMORY} (has {format_memory(max(0, memory_bytes))} free)")
    gpus = int(board.free.gpus[index])
    if want.gpus and want.gpus > gpus:
        reasons.append(f"{GPU} (has {max(0, gpus)} free)")
    for name, asked in want.asked.extended:
        has = int(board.extended(name)[index])
        if asked > has:
            reasons.append(f"{INSUFFICIENT} {name} (has {max(0, has)} free)")
    if want.gpu_share and not board.room_for_shares(want, row)[0]:
        rest = format_gpus(board.layout.pool.largest_left.item(board.free.state.item(index)))
        reasons.append(f"{GPU} (has {rest} of a card free)")
    return tuple(reasons)


add_filter("resources", resources, why, counted=True)
