"""What Mooring's objects are called on a cluster, and the marks by which it knows its own.

A pod has its member's host name, so the API server itself lets at most one attempt of a member
exist at a time, whoever tries to make a second one.
"""

from __future__ import annotations

from mooring.model.member import Member

DOMAIN = "mooring.dev"
JOB = f"{DOMAIN}/job"
JOB_UID = f"{DOMAIN}/job-uid"
ROLE = f"{DOMAIN}/role"
INDEX = f"{DOMAIN}/index"
EPOCH = f"{DOMAIN}/epoch"
ATTEMPT = f"{DOMAIN}/attempt"
MANAGED_BY = "app.kubernetes.io/managed-by"
MANAGER = "mooring"
OURS = f"{MANAGED_BY}={MANAGER}"

CPUS = f"{DOMAIN}/cpus"
CELLS = f"{DOMAIN}/cells"
GPUS = f"{DOMAIN}/gpus"
#: On a TrainingJob: the config map with the files that were sent along.
FILES = f"{DOMAIN}/files"

CONTAINER = "member"
INIT_CONTAINER = "mooring"
VOLUME = "mooring"
SHM_VOLUME = "mooring-shm"
FILES_VOLUME = "mooring-files"
HOME = "/mooring"
LAUNCHER = f"{HOME}/launcher.pyz"
FILES_HOME = "/mooring-files"
#: Where the first member's launcher waits for the others and answers questions about the job.
MEETING_PORT = 5499
FIRST_PORT = 5500
#: The variables under which the job's token is found: by the launcher, which takes it out of the
#: environment, and by callers of rank agents, which are programs of the job.
TOKEN_ENV = "MOORING_JOB_TOKEN"
AGENT_TOKEN_ENV = "MOORING_RANK_TOKEN"


def service_name(job: str) -> str:
    return job


def token_secret_name(job: str, uid: str) -> str:
    """With a part of the uid: that of an earlier job of the same name has another token."""
    return f"{job}-{uid.partition('-')[0]}"


def host_of(member: Member, namespace: str) -> str:
    """The DNS name under which peers find the member; the search path adds the cluster's domain."""
    return f"{member.hostname}.{service_name(member.job)}.{namespace}.svc"
