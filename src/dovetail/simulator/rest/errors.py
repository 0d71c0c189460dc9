"""Refusals that only exist over HTTP, beside those of ``ports.kube_errors``."""

from dovetail.ports.kube_errors import ApiError


class NotAcceptable(ApiError):
    """The caller takes no form of answer that there is."""

    code, reason = 406, "NotAcceptable"


class TooLarge(ApiError):
    """The body is larger than any object may be."""

    code, reason = 413, "RequestEntityTooLarge"
