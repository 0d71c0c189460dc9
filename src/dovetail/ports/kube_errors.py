"""What the API server answers instead of doing something.

ApiError                     has the Kubernetes Status object: code, reason, details
├── BadRequest               400
├── Unauthorized             401
├── Forbidden                403
├── NotFound                 404
├── MethodNotAllowed         405
├── AlreadyExists            409
├── Conflict                 409  someone else wrote in between, or owns the field
├── Gone                     410  the resourceVersion is no longer remembered
├── UnsupportedMediaType     415
├── Invalid                  422
├── TooManyRequests          429  an eviction would break a budget
├── InternalError            500
├── Unavailable              503  no answer, or none that tells whether it was done
└── Timeout                  504  the resourceVersion is not reached yet
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from dovetail.errors import DovetailError


class ApiError(DovetailError):
    """A refusal that carries what Kubernetes would send."""

    code: ClassVar[int] = 500
    reason: ClassVar[str] = "InternalError"

    def __init__(
        self,
        message: str,
        *,
        kind: str = "",
        name: str = "",
        causes: Sequence[dict[str, str]] = (),
        retry_after: int | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.details: dict[str, Any] = {}
        if name:
            self.details["name"] = name
        if kind:
            self.details["kind"] = kind
        if causes:
            self.details["causes"] = [dict(one) for one in causes]
        if retry_after is not None:
            self.details["retryAfterSeconds"] = retry_after

    def status(self) -> dict[str, Any]:
        """Return the Status object of the wire format."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "reason": self.reason,
            "details": self.details,
            "code": self.code,
        }


class BadRequest(ApiError):
    """The request makes no sense."""

    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    """The token or certificate is missing, wrong or too old."""

    code, reason = 401, "Unauthorized"


class Forbidden(ApiError):
    """The request makes sense but is not allowed now."""

    code, reason = 403, "Forbidden"


class NotFound(ApiError):
    """There is no such object, or no such namespace."""

    code, reason = 404, "NotFound"


class MethodNotAllowed(ApiError):
    """The resource has no such verb or subresource."""

    code, reason = 405, "MethodNotAllowed"


class AlreadyExists(ApiError):
    """The name is taken."""

    code, reason = 409, "AlreadyExists"


class Conflict(ApiError):
    """Someone else wrote in between, or owns the field."""

    code, reason = 409, "Conflict"


class Gone(ApiError):
    """The resourceVersion is no longer remembered; list again."""

    code, reason = 410, "Expired"


class UnsupportedMediaType(ApiError):
    """The resource does not take this kind of patch."""

    code, reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    """The object breaks a rule of its kind."""

    code, reason = 422, "Invalid"


class TooManyRequests(ApiError):
    """Not now; the details say why and when to ask again."""

    code, reason = 429, "TooManyRequests"


class InternalError(ApiError):
    """Kubernetes itself gives up here."""


class Unavailable(ApiError):
    """The server cannot be reached, or not now; a write may have been done all the same."""

    code, reason = 503, "ServiceUnavailable"


class Timeout(ApiError):
    """The server has not come as far as the resourceVersion asked for."""

    code, reason = 504, "Timeout"
