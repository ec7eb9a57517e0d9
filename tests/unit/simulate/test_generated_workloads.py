"""Generated workloads have the shapes that they promise."""

from __future__ import annotations

import math
import statistics

from mooring.model.resources import Resources
from mooring.simulate.generate import Shape, generate
from mooring.simulate.workload import WorkloadJob

GIB = 1024**3
NODE = Resources(64_000, 256 * GIB, 8)
TOTAL = Resources(100 * 64_000, 100 * 256 * GIB, 800)


def made(seed: int = 1, jobs: int = 5000, shape: Shape | None = None) -> tuple[WorkloadJob, ...]:
    return generate(seed, jobs, TOTAL, NODE, shape or Shape()).jobs


def test_the_seed_decides_everything() -> None:
    assert made(3, 500) == made(3, 500)
    assert made(3, 500) != made(4, 500)


def test_there_are_as_many_jobs_as_asked_for_in_order_of_arrival() -> None:
    jobs = made(jobs=777)
    assert len(jobs) == 777
    assert len({job.name for job in jobs}) == 777
    arrivals = [job.arrival_s for job in jobs]
    assert arrivals == sorted(arrivals)


def test_the_shapes() -> None:
    jobs = made()
    logs = [math.log(job.duration_s) for job in jobs]
    assert 500 < math.exp(statistics.median(logs)) < 720
    assert 1.8 < statistics.stdev(logs) < 2.2
    workers = [job.roles[-1].replicas for job in jobs]
    assert set(workers) <= {1, 2, 4, 8, 16, 32, 64}
    assert workers.count(1) > workers.count(2) > workers.count(4) > workers.count(16)
    on_gpu = sum(job.demand.gpus > 0 for job in jobs) / len(jobs)
    assert 0.42 < on_gpu < 0.52


def test_the_load_is_that_of_the_scarcest_resource() -> None:
    jobs = made(shape=Shape(load=0.5))
    span_s = jobs[-1].arrival_s
    loads = [
        sum(job.duration_s * getattr(job.demand, kind) for job in jobs)
        / (span_s * getattr(TOTAL, kind))
        for kind in ("cpu_millis", "memory_bytes", "gpus")
    ]
    assert 0.4 < max(loads) < 0.6


def test_every_job_would_fit_on_the_empty_cluster() -> None:
    for job in made():
        assert job.demand.fits_in(TOTAL)
        assert all(role.resources.fits_in(NODE) for role in job.roles)


def test_more_arrive_by_day_than_by_night() -> None:
    jobs = made(jobs=20_000, shape=Shape(load=0.02, burst_share=0.0))
    by_day = sum(0.25 < job.arrival_s / 86_400 % 1 < 0.75 for job in jobs)
    days = jobs[-1].arrival_s / 86_400
    if days > 3:
        assert by_day > 0.6 * len(jobs)


def test_a_cluster_without_gpus_gets_no_gpu_jobs() -> None:
    node = Resources(4000, 8 * GIB)
    jobs = generate(1, 300, Resources(8000, 16 * GIB), node).jobs
    assert all(job.demand.gpus == 0 for job in jobs)
    assert all(job.demand.fits_in(Resources(8000, 16 * GIB)) for job in jobs)
