"""The metadata of a whole manifest: what the job is called, and to whom it is handed."""

from __future__ import annotations

from mooring.importers.draft import KUBERNETES, JobDraft
from mooring.importers.tracked import Field

_KUEUE_QUEUE = "kueue.x-k8s.io/queue-name"
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_API_SERVERS = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


def read_object_metadata(metadata: Field, draft: JobDraft, rename: str | None = None) -> str:
    """The name, labels and annotations of the whole job. Returns its name in the manifest."""
    name = metadata["name"].text() or ""
    generated = metadata["generateName"].text()
    if rename is not None:
        metadata["name"].drop(f"--name {rename}")
        metadata["generateName"].drop(f"--name {rename}")
        draft.put(("metadata", "name"), rename)
    elif name:
        draft.carry(("metadata", "name"), metadata["name"])
        metadata["generateName"].drop("there is a name")
    elif generated:
        draft.carry(("metadata", "name"), metadata["generateName"], generated.rstrip("-"))
    else:
        draft.ledger.missing((*metadata.path, "name"), "nothing", "a name, here or with --name")
        draft.put(("metadata", "name"), "unnamed")
    draft.carry((*KUBERNETES, "namespace"), metadata["namespace"])
    for key, value in metadata["labels"].fields():
        if key == _KUEUE_QUEUE:
            draft.carry((*KUBERNETES, "queue"), value)
            draft.put((*KUBERNETES, "scheduler"), "kueue")
        else:
            draft.carry(("metadata", "labels", key), value)
    for key, value in metadata["annotations"].fields():
        if key == _LAST_APPLIED:
            value.drop("kubectl's own copy of the manifest")
        else:
            draft.carry((*KUBERNETES, "annotations", key), value)
    for key in _API_SERVERS:
        metadata[key].drop("the API server writes it")
    metadata["ownerReferences"].drop("the imported job belongs to nobody")
    metadata["finalizers"].drop("they belong to the other operator")
    return name or (generated or "").rstrip("-") or "unnamed"
