"""Errors of the Kubernetes API, one class per reason.

ApiError                     carries the Status object: code, reason, details
├── BadRequest               400
├── Unauthorized             401
├── Forbidden                403
├── NotFound                 404
├── MethodNotAllowed         405
├── AlreadyExists            409
├── Conflict                 409  concurrent write, or another manager owns the field
├── Gone                     410  the resourceVersion has expired
├── RequestEntityTooLarge    413  the body, or what a patch would make of it
├── UnsupportedMediaType     415
├── Invalid                  422
├── TooManyRequests          429  an eviction would violate a PodDisruptionBudget
├── InternalError            500
├── Unavailable              503  no response; a write may have succeeded
└── Timeout                  504  the resourceVersion is not yet reached
"""

from collections.abc import Sequence
from typing import Any, ClassVar

from dovetail.errors import DovetailError


class ApiError(DovetailError):
    """An error response of the API server."""

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
            self.details["causes"] = [dict(cause) for cause in causes]
        if retry_after is not None:
            self.details["retryAfterSeconds"] = retry_after

    def status(self) -> dict[str, Any]:
        """Return the Status object in wire format."""
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
    """The request is malformed."""

    code, reason = 400, "BadRequest"


class Unauthorized(ApiError):
    """The token or certificate is missing, invalid or expired."""

    code, reason = 401, "Unauthorized"


class Forbidden(ApiError):
    """The request is valid but not allowed."""

    code, reason = 403, "Forbidden"


class NotFound(ApiError):
    """The object or its namespace does not exist."""

    code, reason = 404, "NotFound"


class MethodNotAllowed(ApiError):
    """The resource does not support the verb or subresource."""

    code, reason = 405, "MethodNotAllowed"


class AlreadyExists(ApiError):
    """An object of this name exists."""

    code, reason = 409, "AlreadyExists"


class Conflict(ApiError):
    """A concurrent write changed the object, or another manager owns the field."""

    code, reason = 409, "Conflict"


class Gone(ApiError):
    """The resourceVersion has expired; list again."""

    code, reason = 410, "Expired"


class RequestEntityTooLarge(ApiError):
    """The request, or the result of a patch, is larger than the limit."""

    code, reason = 413, "RequestEntityTooLarge"


class UnsupportedMediaType(ApiError):
    """The resource does not support this type of patch."""

    code, reason = 415, "UnsupportedMediaType"


class Invalid(ApiError):
    """The object violates the validation rules of its kind."""

    code, reason = 422, "Invalid"


class TooManyRequests(ApiError):
    """The request is rejected for now; details contain the reason and retryAfterSeconds."""

    code, reason = 429, "TooManyRequests"


class InternalError(ApiError):
    """The API server failed to handle the request."""


class Unavailable(ApiError):
    """The API server is unreachable or overloaded; a write may have succeeded."""

    code, reason = 503, "ServiceUnavailable"


class Timeout(ApiError):
    """The API server has not reached the requested resourceVersion."""

    code, reason = 504, "Timeout"
