"""Decodes error responses of the API server as ``ports.kube_errors``."""

from typing import Any, Final

import msgspec

from dovetail.ports import kube_errors
from dovetail.ports.kube_errors import ApiError

_ERROR_TYPES: Final[tuple[type[ApiError], ...]] = (
    kube_errors.BadRequest,
    kube_errors.Unauthorized,
    kube_errors.Forbidden,
    kube_errors.NotFound,
    kube_errors.MethodNotAllowed,
    kube_errors.AlreadyExists,
    kube_errors.Conflict,
    kube_errors.Gone,
    kube_errors.RequestEntityTooLarge,
    kube_errors.UnsupportedMediaType,
    kube_errors.Invalid,
    kube_errors.TooManyRequests,
    kube_errors.InternalError,
    kube_errors.Unavailable,
    kube_errors.Timeout,
)
_BY_REASON: Final[dict[str, type[ApiError]]] = {
    **{error_type.reason: error_type for error_type in _ERROR_TYPES},
    "Gone": kube_errors.Gone,
}
_BY_CODE: Final[dict[int, type[ApiError]]] = {error_type.code: error_type for error_type in _ERROR_TYPES}
_MAX_BODY: Final = 300
_MAX_DIGITS: Final = 9
"""Of Retry-After; a longer number is not a time."""


def decode_error_response(code: int, body: bytes, *, retry_after: str = "") -> ApiError:
    """Return the error of a response with status 400 or above.

    A proxy in between may respond in HTML; then the status code decides.
    """
    try:
        status = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        text = " ".join(body.decode(errors="replace").split())[:_MAX_BODY]
        status = {"message": f"the API server answered {code}: {text}"}
    error = decode_status({**status, "code": status.get("code") or code})
    if retry_after.isdecimal() and len(retry_after) <= _MAX_DIGITS:
        error.details.setdefault("retryAfterSeconds", int(retry_after))
    return error


def decode_status(status: dict[str, Any]) -> ApiError:
    """Return the error of a Status object."""
    code = status.get("code")
    error_type = _BY_REASON.get(str(status.get("reason")))
    if error_type is None or error_type.code != code:
        # Some reasons have several codes; the code decides how callers react.
        error_type = _BY_CODE.get(code, error_type) if isinstance(code, int) else error_type
    if error_type is None:
        error_type = kube_errors.BadRequest if isinstance(code, int) and code < 500 else ApiError
    error = error_type(str(status.get("message") or f"the API server answered {code}"))
    details = status.get("details")
    if isinstance(details, dict):
        error.details.update(details)
    return error
