"""Every check, registered by being imported; the order is that of the pages and of ties."""

from mooring.doctor.findings import (  # noqa: F401
    cpu_threads,
    cpu_throttled,
    node_clock,
    node_memory,
    node_pinning,
    node_shm,
    node_threads,
    ps_hot,
)
