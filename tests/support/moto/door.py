"""What stands before moto: it counts calls, makes them fail by script, and makes them wait."""

import time
from collections import Counter
from collections.abc import Callable, Iterable
from io import BytesIO
from threading import Lock
from typing import Any
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

import msgspec

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A failure by script."""

    operation: str
    """``CreateFleet``; or ``*`` for all."""
    code: str = "RequestLimitExceeded"
    message: str = "scripted"
    status: int = 503
    times: int = 1
    """How many calls fail from now on; very many: until ``plenty``."""
    after_effect: bool = False
    """What was asked for is done, and only the answer is an error."""
    hang_up: bool = False
    """There is no answer that anybody could read."""


class Door:
    """A WSGI application around moto's; both may be used by many threads."""

    def __init__(self, inner: Wsgi) -> None:
        self._inner = inner
        self._lock = Lock()
        self._faults: list[tuple[Fault, int]] = []
        self.calls: Counter[str] = Counter()
        """Operation → how often it was called, those that failed included."""
        self.latency: dict[str, float] = {}
        """Operation → seconds that it takes longer."""
        self.forbids: Callable[[str], bool] = lambda _: False
        """Tells of an operation whether whoever calls lacks the permission for it."""
        self.answering: dict[str, Callable[[bytes], tuple[str, bytes]]] = {}
        """Operations of services that moto lacks: body in, content type and body out."""

    def script(self, fault: Fault) -> None:
        """Have calls fail."""
        with self._lock:
            self._faults.append((fault, fault.times))

    def reset(self) -> None:
        """Forget all that was counted and scripted."""
        with self._lock:
            self._faults.clear()
            self.calls.clear()
            self.latency.clear()
            self.forbids = lambda _: False

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = BytesIO(body)
        operation = _operation(environ, body)
        fault = self._struck(operation)
        if wait := self.latency.get(operation):
            time.sleep(wait)  # noqa: TID251 - in a thread of the server
        if fault is not None and not fault.after_effect:
            return _failed(fault, environ, start)
        if operation in self.answering:
            kind, text = self.answering[operation](body)
            start("200 OK", [("Content-Type", kind), ("Content-Length", str(len(text)))])
            return [text]
        if fault is None:
            return self._inner(environ, start)
        b"".join(self._inner(environ, lambda *_, **__: None))
        return _failed(fault, environ, start)

    def _struck(self, operation: str) -> Fault | None:
        with self._lock:
            self.calls[operation] += 1
            if self.forbids(operation):
                return Fault(operation=operation, code="AccessDenied", message="no", status=403)
            for place, (fault, left) in enumerate(self._faults):
                if fault.operation in (operation, "*"):
                    self._faults[place] = (fault, left - 1)
                    if left == 1:
                        del self._faults[place]
                    return fault
        return None


def _operation(environ: dict[str, Any], body: bytes) -> str:
    target = environ.get("HTTP_X_AMZ_TARGET", "")
    if target:
        return str(target).rpartition(".")[2]
    if environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded"):
        return parse_qs(body.decode()).get("Action", [""])[0]
    return f"{environ.get('REQUEST_METHOD')} {environ.get('PATH_INFO')}"


def _failed(fault: Fault, environ: dict[str, Any], start: Callable[..., Any]) -> list[bytes]:
    if fault.hang_up:
        # A length that is not kept: the client notices that the rest is missing.
        start("200 OK", [("Content-Type", "text/xml"), ("Content-Length", "100000")])
        return [b"<"]
    if not environ.get("CONTENT_TYPE", "").startswith("application/x-www-form-urlencoded"):
        text = msgspec.json.encode({"__type": fault.code, "message": fault.message})
        kind = "application/x-amz-json-1.1"
    else:
        code, message = escape(fault.code), escape(fault.message)
        inner = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
        text = f"<Response><Errors>{inner}</Errors>{inner}</Response>".encode()
        kind = "text/xml"
    start(
        f"{fault.status} Scripted",
        [("Content-Type", kind), ("Content-Length", str(len(text)))],
    )
    return [text]
