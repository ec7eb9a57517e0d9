"""Security contexts: whom the processes run as is carried over; Mooring's pods conform to the
`restricted` Pod Security Standard anyway, so that what demands that is met, and what goes beyond it
is refused.
"""

from __future__ import annotations

from mooring.importers.draft import JobDraft
from mooring.importers.tracked import Field

_MET = "Mooring's pods always have it"
_BEYOND = "nothing beyond the restricted Pod Security Standard"
_WHO = ("runAsUser", "runAsGroup", "fsGroup", "supplementalGroups")
#: field -> the value that the standard demands.
_DEMANDED = {
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "privileged": False,
    "seccompProfile": {"type": "RuntimeDefault"},
    "procMount": "Default",
}


def read_security(context: Field, draft: JobDraft, role: str) -> None:
    """The context of a pod or of its container, which has the last word."""
    for name in _WHO:
        draft.carry(draft.role(role, "kubernetes", "securityContext", name), context[name])
    for name, demanded in _DEMANDED.items():
        if context[name].value == demanded:
            context[name].drop(_MET)
        else:
            context[name].refuse(_BEYOND)
    capabilities = context["capabilities"]
    capabilities["drop"].drop(_MET)
    capabilities["add"].refuse(_BEYOND)
    if not context["readOnlyRootFilesystem"].flag():
        context["readOnlyRootFilesystem"].drop("it is off anyway")
    context["fsGroupChangePolicy"].drop("how fast volumes are handed over, not to whom")
