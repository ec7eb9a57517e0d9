"""Amounts: CPU time, memory and devices that are still free."""

from __future__ import annotations

from mooring.brain.board import Board
from mooring.brain.registry import filter_rule
from mooring.brain.room import Room
from mooring.brain.want import Want
from mooring.model.resources import format_cpu, format_memory

INSUFFICIENT = "insufficient"


@filter_rule("resources")
def resources(want: Want, room: Room, board: Board) -> tuple[str, ...]:
    reasons = []
    cpu_millis = room.cpu_millis if want.exclusive else room.shareable_millis
    if want.cpu_millis and want.cpu_millis > cpu_millis:
        reasons.append(f"{INSUFFICIENT} cpu (has {format_cpu(max(0, cpu_millis))} free)")
    if want.memory_bytes and want.memory_bytes > room.memory_bytes:
        free = format_memory(max(0, room.memory_bytes))
        reasons.append(f"{INSUFFICIENT} memory (has {free} free)")
    if want.gpus > room.gpu_count:
        reasons.append(f"{INSUFFICIENT} gpu (has {max(0, room.gpu_count)} free)")
    return tuple(reasons)
