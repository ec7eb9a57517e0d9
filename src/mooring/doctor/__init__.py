"""Why is it slow: facts of a run or a machine to findings, each with evidence and a remedy."""

from mooring.doctor.diagnosing import diagnose_cluster, diagnose_node, diagnose_run
from mooring.doctor.finding import Confidence, Diagnosis, Figure, Finding, Gain, Remedy

__all__ = [
    "Confidence",
    "Diagnosis",
    "Figure",
    "Finding",
    "Gain",
    "Remedy",
    "diagnose_cluster",
    "diagnose_node",
    "diagnose_run",
]
