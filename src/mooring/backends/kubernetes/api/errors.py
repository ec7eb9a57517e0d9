"""What an API server answers when it does not do what it was asked, told apart by kind.

A write whose answer never came (`Unreachable`) may have been applied: who wrote looks again.
"""

from __future__ import annotations

from mooring.backends.kubernetes.api.document import Json, number, text
from mooring.model.errors import MooringError


class KubeError(MooringError):
    """Anything that went wrong between us and the API server."""


class NoAccess(KubeError):
    """There is no usable kubeconfig or service account."""


class Unreachable(KubeError):
    """No answer: nobody knows whether the call had an effect."""


class ApiError(KubeError):
    """The server answered, and refused."""

    def __init__(self, status: int, reason: str, message: str, call: str) -> None:
        self.status, self.reason, self.message, self.call = status, reason, message, call
        super().__init__(f"{call}: {message or reason or status}")


class NotFound(ApiError):
    """There is no such object (404)."""


class Conflict(ApiError):
    """The object has changed since it was read, or a precondition does not hold (409)."""


class AlreadyExists(ApiError):
    """An object of that name is there (409)."""


class Expired(ApiError):
    """The list or watch is too old to go on from (410)."""


class Forbidden(ApiError):
    """The credentials do not allow it (401, 403)."""


class Invalid(ApiError):
    """The object does not pass the server's checks (400, 422)."""


class Overloaded(ApiError):
    """The server wants us to come back later (429)."""

    def __init__(
        self, status: int, reason: str, message: str, call: str, retry_after_s: float
    ) -> None:
        super().__init__(status, reason, message, call)
        self.retry_after_s = retry_after_s


_BY_STATUS: dict[int, type[ApiError]] = {
    400: Invalid,
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    422: Invalid,
}


def api_error(status: int, answer: Json, call: str, retry_after_s: float = 1.0) -> ApiError:
    """The error for a Status object (or whatever a proxy answered in its place)."""
    reason, message = text(answer, "reason"), text(answer, "message")
    code = number(answer, "code") or status
    if code == 409 and reason == "AlreadyExists":
        return AlreadyExists(code, reason, message, call)
    if code == 429:
        return Overloaded(code, reason, message, call, retry_after_s)
    return _BY_STATUS.get(code, ApiError)(code, reason, message, call)
