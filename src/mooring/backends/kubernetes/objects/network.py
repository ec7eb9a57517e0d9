"""Who may reach the pods of a job over the network: its own pods, and whoever asks for its figures.

Frameworks open ports that ask nobody who they are. Figures come through the API server, whose
address no selector names: it is a machine of the control plane, or an agent of its network. So the
port of the meeting, which lets nobody in without the job's token, is open to all unless addresses
are given.
"""

from __future__ import annotations

from collections.abc import Sequence

from mooring.backends.kubernetes.api.document import Json
from mooring.backends.kubernetes.objects import names
from mooring.backends.kubernetes.objects.pod_manifest import Owner


def network_policy_manifest(owner: Owner, askers: Sequence[str] = ()) -> dict[str, Json]:
    """`askers`: the address ranges of the API servers; none: any."""
    mine: dict[str, Json] = {"matchLabels": {names.JOB_UID: owner.uid}}
    figures: dict[str, Json] = {"ports": [{"port": names.MEETING_PORT, "protocol": "TCP"}]}
    if askers:
        figures["from"] = [{"ipBlock": {"cidr": asker}} for asker in askers]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {
            "name": names.token_secret_name(owner.name, owner.uid),
            "namespace": owner.namespace,
            "labels": {names.MANAGED_BY: names.MANAGER, names.JOB: owner.name},
            "ownerReferences": [owner.reference()],
        },
        "spec": {
            "podSelector": mine,
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": mine}]}, figures],
        },
    }
