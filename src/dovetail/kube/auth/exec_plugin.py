"""Exec credential plugins, such as ``aws eks get-token``."""

import asyncio
import os
import signal
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

import msgspec

from dovetail.kube.auth.credentials import CredentialsError
from dovetail.kube.auth.tls import ClientTls
from dovetail.ports.event_loop import Clock

_EXPIRY_MARGIN: Final = timedelta(seconds=30)
"""A token is refreshed so long before it expires."""
_MAX_USED_FRACTION: Final = 0.8
"""Of the lifetime of a token that is shorter than the margin allows."""
_MIN_LIFETIME: Final = timedelta(seconds=1)
"""The plugin does not run for every request, whatever expiry it returns."""
_TIMEOUT: Final = 60.0
"""Seconds."""
_KILL_TIMEOUT: Final = 0.5
_MAX_STDERR: Final = 300
"""Characters in messages."""


class ExecPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of a plugin: ``user.exec`` of a kubeconfig."""

    command: str
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = {}
    """The whole environment, not only additions."""
    api_version: str = "client.authentication.k8s.io/v1"
    hint: str = ""
    cluster: Mapping[str, Any] | None = None
    """Cluster info for the plugin, with ``provideClusterInfo``."""


class _ExecCredentialStatus(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The status of an ExecCredential."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class ExecCredentials:
    """Token or client certificate from a plugin, refreshed before it expires."""

    def __init__(self, plugin: ExecPlugin, *, clock: Clock, client_tls: ClientTls) -> None:
        """``client_tls`` gets the certificate, if the plugin returns one."""
        self._plugin = plugin
        self._clock = clock
        self._identity = client_tls
        self._status: _ExecCredentialStatus | None = None
        self._refresh_at: datetime | None = None
        self._lock = asyncio.Lock()

    async def token(self, *, rejected: bool = False) -> str:
        before = self._status
        # One run at a time: hundreds of requests may find the token expired at once.
        async with self._lock:
            status, is_renewed = self._status, self._status is not before
            if status is None or self._is_expired() or (rejected and not is_renewed):
                status = _decode(self._plugin, await _run(self._plugin))
                self._use_certificate(status)
                self._status = status
                self._refresh_at = _refresh_at(status, now=self._clock.now())
        return status.token

    def _is_expired(self) -> bool:
        return self._refresh_at is not None and self._clock.now() >= self._refresh_at

    def _use_certificate(self, status: _ExecCredentialStatus) -> None:
        if not status.client_certificate_data:
            return
        try:
            self._identity.set_certificate(status.client_certificate_data, status.client_key_data)
        except ssl.SSLError as error:
            reason = error.reason or str(error)
            message = f"{self._plugin.command} printed a certificate that cannot be used ({reason})"
            raise CredentialsError(message) from error


def _refresh_at(status: _ExecCredentialStatus, *, now: datetime) -> datetime | None:
    expiry = status.expiration_timestamp
    if expiry is None:
        return None
    lifetime = expiry - now
    return now + max(_MIN_LIFETIME, lifetime - _EXPIRY_MARGIN, lifetime * _MAX_USED_FRACTION)


async def _run(plugin: ExecPlugin) -> bytes:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    exec_info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    environment = {**plugin.environment, "KUBERNETES_EXEC_INFO": msgspec.json.encode(exec_info).decode()}
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.arguments,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # A session of its own, so that its child processes can be killed too.
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        hint = f"; {plugin.hint}" if plugin.hint else ""
        reason = getattr(error, "strerror", None) or str(error)
        raise CredentialsError(f"{plugin.command} cannot be run for a token: {reason}{hint}") from error
    try:
        stdout, raw_stderr = await asyncio.wait_for(process.communicate(), _TIMEOUT)
    except TimeoutError as error:
        await _kill(process)
        message = f"{plugin.command} returned no token within {_TIMEOUT:g}s"
        raise CredentialsError(message) from error
    except asyncio.CancelledError:
        await _kill(process)
        raise
    if process.returncode:
        stderr = " ".join(raw_stderr.decode(errors="replace").split())[:_MAX_STDERR]
        stderr = stderr or "no error output"
        raise CredentialsError(f"{plugin.command} exited with {process.returncode}: {stderr}")
    return stdout


async def _kill(process: asyncio.subprocess.Process) -> None:
    """Kill a plugin and its child processes."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # A process that left the group may keep the pipes open forever.
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _KILL_TIMEOUT)


def _decode(plugin: ExecPlugin, printed: bytes) -> _ExecCredentialStatus:
    try:
        fields: dict[str, Any] = msgspec.json.decode(printed)["status"]
        present = {name: value for name, value in fields.items() if value is not None}
        status = msgspec.convert(present, _ExecCredentialStatus)
    except (msgspec.DecodeError, msgspec.ValidationError, AttributeError, KeyError, TypeError) as error:
        message = f"{plugin.command} printed no ExecCredential with a status"
        raise CredentialsError(message) from error
    token = status.token.strip()
    if not token.isprintable():
        raise CredentialsError(f"{plugin.command} printed an invalid token")
    if not (token or status.client_certificate_data):
        raise CredentialsError(f"{plugin.command} printed no token and no certificate")
    return msgspec.structs.replace(status, token=token)
