"""WSGI middleware in front of moto: call counts, scripted errors, latency, failures."""

import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from io import BytesIO
from threading import Lock
from typing import Any
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

import msgspec

from tests.support.moto.behaviour import Behaviour, FailureInjector

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]
BEHAVIOUR_PATH = "/behaviour"
EC2_API_VERSION = "2016-11-15"


class ScriptedError(msgspec.Struct, frozen=True, kw_only=True):
    """An error of the next calls of an operation."""

    operation: str
    """``CreateFleet``; or ``*`` for all."""
    code: str = "RequestLimitExceeded"
    message: str = "scripted"
    status: int = 503
    times: int = 1
    """Number of further calls that fail."""
    after_effect: bool = False
    """The request takes effect; only the response is an error."""
    hang_up: bool = False
    """The response cannot be read."""


class Middleware:
    """A WSGI application around moto's; thread-safe."""

    def __init__(self, inner: Wsgi) -> None:
        self._inner = inner
        self._lock = Lock()
        self._errors: list[tuple[ScriptedError, int]] = []
        self.calls: Counter[str] = Counter()
        """Operation → number of calls, with failed ones."""
        self.latency: dict[str, float] = {}
        """Operation → additional seconds."""
        self.is_forbidden: Callable[[str], bool] = lambda _: False
        """Return True if the caller lacks permission for an operation."""
        self.responses: dict[str, Callable[[bytes], tuple[str, bytes]]] = {}
        """Operations of services that moto lacks: body in, content type and body out."""
        self.rejections: dict[str, Callable[[bytes], ScriptedError | None]] = {}
        """Operations whose parameters AWS checks and moto does not: body in, error out."""
        self.authorizer: Callable[[dict[str, Any], bytes], str] = _allow_all
        """Return why the caller may not make a request; empty if it may."""
        self.failures = FailureInjector()

    def add_error(self, error: ScriptedError) -> None:
        """Fail the next calls of an operation."""
        with self._lock:
            self._errors.append((error, error.times))

    def reset(self) -> None:
        """Clear counts, errors, rejections, latencies and failures."""
        with self._lock:
            self._errors.clear()
            self.calls.clear()
            self.latency.clear()
            self.rejections.clear()
            self.failures = FailureInjector()
            self.authorizer = _allow_all
            self.is_forbidden = lambda _: False

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = BytesIO(body)
        if environ.get("PATH_INFO") == BEHAVIOUR_PATH:
            return self._control(environ, body, start)
        if str(environ.get("PATH_INFO")).startswith("/moto-api/"):
            return self._inner(environ, start)
        parameters = parse_qs(body.decode()) if _is_form(environ) else {}
        operation = _operation(environ, parameters)
        is_ec2 = parameters.get("Version") == [EC2_API_VERSION]
        denial = self.authorizer(environ, body)
        error = self._next_error(operation, denial, is_ec2=is_ec2) or self.rejections.get(
            operation, lambda _: None
        )(body)
        if wait := self.latency.get(operation):
            time.sleep(wait)  # noqa: TID251 - in a thread of the server
        failures = self.failures
        if error is None and failures.loses_request(operation):
            raise _close_connection(environ)
        error = error or self._throttle(operation, parameters, is_ec2=is_ec2)
        if error is not None and not error.after_effect:
            return _error_response(error, environ, start)
        is_lost = error is None and failures.loses_response(operation)
        respond = _ignore if is_lost or error is not None else start
        if operation in self.responses:
            kind, text = self.responses[operation](body)
            respond("200 OK", [("Content-Type", kind), ("Content-Length", str(len(text)))])
            response: Iterable[bytes] = [text]
        else:
            response = self._inner(environ, respond)
        if respond is start:
            return response
        b"".join(response)
        if error is None:
            raise _close_connection(environ)
        return _error_response(error, environ, start)

    def _throttle(
        self, operation: str, parameters: Mapping[str, list[str]], *, is_ec2: bool
    ) -> ScriptedError | None:
        throttled = self.failures.is_throttled(operation) or (
            is_ec2
            and self.failures.exceeds_rate(
                operation,
                is_unfiltered=not any(name.startswith(("Filter.", "MaxResults")) for name in parameters),
                instances=sum(name.startswith("InstanceId.") for name in parameters),
            )
        )
        if not throttled:
            return None
        code, status = ("RequestLimitExceeded", 503) if is_ec2 else ("ThrottlingException", 400)
        return ScriptedError(operation=operation, code=code, message="Rate exceeded", status=status)

    def _control(self, environ: dict[str, Any], body: bytes, start: Callable[..., Any]) -> Iterable[bytes]:
        """Set the behaviour (PUT), or return it with the counts of failures (GET)."""
        if environ.get("REQUEST_METHOD") == "PUT":
            try:
                behaviour = msgspec.json.decode(body, type=Behaviour)
            except msgspec.MsgspecError as error:
                start("400 Bad Request", [("Content-Type", "text/plain")])
                return [str(error).encode()]
            self.failures = FailureInjector(behaviour, self.failures.clock)
        text = msgspec.json.encode({"behaviour": self.failures.behaviour, "counts": self.failures.counts})
        start("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(text)))])
        return [text]

    def _next_error(self, operation: str, denial: str, *, is_ec2: bool) -> ScriptedError | None:
        with self._lock:
            self.calls[operation] += 1
            if denial or self.is_forbidden(operation):
                code = "UnauthorizedOperation" if is_ec2 else "AccessDenied"
                return ScriptedError(operation=operation, code=code, message=denial or "no", status=403)
            for index, (error, left) in enumerate(self._errors):
                if error.operation in (operation, "*"):
                    self._errors[index] = (error, left - 1)
                    if left == 1:
                        del self._errors[index]
                    return error
        return None


def _allow_all(*_: Any) -> str:
    return ""


def _ignore(*_: Any, **__: Any) -> None:
    """Take the status and headers of a response that is not sent."""


def _close_connection(environ: dict[str, Any]) -> ConnectionError:
    """Close the connection without a response; return what ends werkzeug's handler."""
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
    return ConnectionAbortedError("closed by the behaviour of the server")


def _is_form(environ: dict[str, Any]) -> bool:
    return str(environ.get("CONTENT_TYPE", "")).startswith("application/x-www-form-urlencoded")


def _operation(environ: dict[str, Any], parameters: Mapping[str, list[str]]) -> str:
    """Return the name of the operation; of REST services, method and path."""
    target = environ.get("HTTP_X_AMZ_TARGET", "")
    if target:
        return str(target).rpartition(".")[2]
    if _is_form(environ):
        return parameters.get("Action", [""])[0]
    return f"{environ.get('REQUEST_METHOD')} {environ.get('PATH_INFO')}"


def _error_response(error: ScriptedError, environ: dict[str, Any], start: Callable[..., Any]) -> list[bytes]:
    if error.hang_up:
        # The body is shorter than its length: the client reports a broken response.
        start("200 OK", [("Content-Type", "text/xml"), ("Content-Length", "100000")])
        return [b"<"]
    if not _is_form(environ):
        text = msgspec.json.encode({"__type": error.code, "message": error.message})
        kind = "application/x-amz-json-1.1"
    else:
        code, message = escape(error.code), escape(error.message)
        inner = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
        text = f"<Response><Errors>{inner}</Errors>{inner}</Response>".encode()
        kind = "text/xml"
    start(f"{error.status} Scripted", [("Content-Type", kind), ("Content-Length", str(len(text)))])
    return [text]
