"""What the API server answers instead, as the errors that controllers know."""

from typing import Any, Final

import msgspec

from dovetail.ports import kubeerrors
from dovetail.ports.kubeerrors import ApiError

_KINDS: Final[tuple[type[ApiError], ...]] = (
    kubeerrors.BadRequest,
    kubeerrors.Unauthorized,
    kubeerrors.Forbidden,
    kubeerrors.NotFound,
    kubeerrors.MethodNotAllowed,
    kubeerrors.AlreadyExists,
    kubeerrors.Conflict,
    kubeerrors.Gone,
    kubeerrors.UnsupportedMediaType,
    kubeerrors.Invalid,
    kubeerrors.TooManyRequests,
    kubeerrors.InternalError,
    kubeerrors.Unavailable,
    kubeerrors.Timeout,
)
_BY_REASON: Final[dict[str, type[ApiError]]] = {
    **{one.reason: one for one in _KINDS},
    "Gone": kubeerrors.Gone,
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
        kind = kubeerrors.BadRequest if isinstance(code, int) and code < 500 else ApiError
    error = kind(str(status.get("message") or f"the API server answered {code}"))
    details = status.get("details")
    if isinstance(details, dict):
        error.details.update(details)
    return error
