"""A cluster in virtual time: the queue and the placement that run for real, on jobs that do not.

Above the brain and the backends, below the command line. Nothing here decides where or when a job
runs; it moves the clock, carries the brain's decisions out and keeps the figures.
"""

from __future__ import annotations

from mooring.simulate.workload import RoleShape, Workload, WorkloadJob, WorkloadPool

__all__ = ["RoleShape", "Workload", "WorkloadJob", "WorkloadPool"]
