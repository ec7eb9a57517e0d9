"""Runs as files, without processes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from mooring.record import RunRecord, create_run
from mooring.record.private import write_whole

MEMBER = {
    "member": "worker-0",
    "role": "worker",
    "index": 0,
    "node": "here",
    "cpus": [0, 1],
    "exclusive": True,
    "cells": [0],
    "gpus": [],
    "gpu_share_millis": 0,
    "resources": {"cpu_millis": 2000},
    "nodes": [{"node": "here", "refused": [], "scores": {"fit": 1.0}}],
}


def made_run(
    job: str, created_s: float, *, members: int = 1, phase: str = "Succeeded"
) -> RunRecord:
    """A run whose job's file, plan and events are there; its members have printed and stepped."""
    run = create_run(job, directory=None, virtual_nodes=0, source="", version="0")
    run = RunRecord(replace(run.info, created_s=created_s), run.root)
    write_whole(run.root / "run.json", json.dumps(run.info.__dict__))
    job_file = {
        "apiVersion": "mooring.dev/v1",
        "kind": "TrainingJob",
        "metadata": {"name": job},
        "spec": {
            "framework": "indexed",
            "command": ["python", "-c", "pass"],
            "roles": {"worker": {"replicas": members}},
        },
    }
    write_whole(run.job_file, json.dumps(job_file))
    names = [f"worker-{index}" for index in range(members)]
    plan = [{**MEMBER, "member": name, "index": index} for index, name in enumerate(names)]
    write_whole(run.plan_file, json.dumps({"job": job, "preset": "spread", "members": plan}))
    write_lines(
        run.events_file,
        {"t": created_s, "kind": "phase", "phase": "Starting", "epoch": 0},
        {"t": created_s + 1, "kind": "phase", "phase": phase, "reason": "so", "epoch": 0},
    )
    for name in names:
        log = "".join(f"2026-01-01T00:00:{n:02}Z out 0 line {n}\n" for n in range(20))
        run.log_file(name).write_text(log)
        steps = [
            {"t": created_s + n, "kind": "step", "step": n, "total": 20, "loss": 1.0 / n}
            for n in range(1, 11)
        ]
        write_lines(run.sample_file(name), {"t": created_s, "kind": "running", "pids": [1]}, *steps)
    return run


def write_lines(path: Path, *lines: dict[str, object]) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in lines)
