"""What the API server answers instead, as the errors that controllers know."""

from typing import Any, Final

import msgspec

from dovetail.ports import kube_errors
from dovetail.ports.kube_errors import ApiError

_KINDS: Final[tuple[type[ApiError], ...]] = (
    kube_errors.BadRequest,
    kube_errors.Unauthorized,
    kube_errors.Forbidden,
    kube_errors.NotFound,
    kube_errors.MethodNotAllowed,
    kube_errors.AlreadyExists,
    kube_errors.Conflict,
    kube_errors.Gone,
    kube_errors.UnsupportedMediaType,
    kube_errors.Invalid,
    kube_errors.TooManyRequests,
    kube_errors.InternalError,
    kube_errors.Unavailable,
    kube_errors.Timeout,
)
_BY_REASON: Final[dict[str, type[ApiError]]] = {
    **{one.reason: one for one in _KINDS},
    "Gone": kube_errors.Gone,
}
_BY_CODE: Final[dict[int, type[ApiError]]] = {one.code: one for one in _KINDS}
_SHOWN: Final = 300


def refusal(code: int, body: bytes, *, retry_after: str = "") -> ApiError:
    """Return an answer of 400 and more as an error.

    Not every one comes from the API server itself: a proxy in between may
    answer in HTML, and then the code alone has to say what is meant.
    """
    try:
        status = msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, msgspec.ValidationError):
        text = " ".join(body.decode(errors="replace").split())[:_SHOWN]
        status = {"message": f"the API server answered {code}: {text}"}
    error = refused({**status, "code": status.get("code") or code})
    if retry_after.isdecimal():
        error.details.setdefault("retryAfterSeconds", int(retry_after))
    return error


def refused(status: dict[str, Any]) -> ApiError:
    """Return a Status object as the error it tells of."""
    code = status.get("code")
    kind = _BY_REASON.get(str(status.get("reason")))
    if kind is None or kind.code != code:
        # Some reasons have more than one code; what is then to be done depends on the code.
        kind = _BY_CODE.get(code, kind) if isinstance(code, int) else kind
    if kind is None:
        kind = kube_errors.BadRequest if isinstance(code, int) and code < 500 else ApiError
    error = kind(str(status.get("message") or f"the API server answered {code}"))
    details = status.get("details")
    if isinstance(details, dict):
        error.details.update(details)
    return error
