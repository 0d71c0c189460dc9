"""Who we are to the API server: tokens that stay, change, or have to be asked for."""

import asyncio
import ssl
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, Protocol

import msgspec

from dovetail.errors import DovetailError
from dovetail.kube.tls import load_identity
from dovetail.ports.loop import Clock

_REREAD: Final = timedelta(minutes=1)
"""A mounted token is replaced long before it ends; client-go looks this often, too."""
_MARGIN: Final = timedelta(seconds=30)
_PLUGIN_PATIENCE: Final = 60.0
_SHOWN: Final = 300


class NoCredentials(DovetailError):
    """What should have said who we are did not."""


class Credentials(Protocol):
    """Says who we are."""

    async def token(self, *, refused: bool = False) -> str:
        """Return a bearer token; empty when a certificate says it all.

        ``refused``: the last one was not accepted, so look for a newer one.
        """


class FixedToken(msgspec.Struct, frozen=True):
    """A token from the kubeconfig itself."""

    value: str = ""

    async def token(self, *, refused: bool = False) -> str:
        return self.value


class TokenFile:
    """A token in a file that somebody else keeps fresh, as the kubelet does for pods."""

    def __init__(self, path: Path, *, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._known = ""
        self._read_at: datetime | None = None

    async def token(self, *, refused: bool = False) -> str:
        now = self._clock.now()
        if refused or self._read_at is None or now - self._read_at >= _REREAD:
            try:
                self._known = self._path.read_text().strip()
            except OSError as error:
                raise NoCredentials(f"{self._path} cannot be read: {error.strerror}") from error
            self._read_at = now
        return self._known


class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """A program that prints a token, such as ``aws eks get-token``, or a certificate."""

    command: str
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = {}
    """All of it, not only what is added."""
    api_version: str = "client.authentication.k8s.io/v1"
    hint: str = ""


class _Told(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The status of an ExecCredential."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class PluginToken:
    """A token or certificate asked of a program; asked again shortly before it ends."""

    def __init__(self, plugin: Plugin, *, clock: Clock, tls: ssl.SSLContext) -> None:
        """Have new connections made with ``tls`` show the certificate, if one is given."""
        self._plugin = plugin
        self._clock = clock
        self._tls = tls
        self._known: _Told | None = None
        self._asking = asyncio.Lock()

    async def token(self, *, refused: bool = False) -> str:
        before = self._known
        # One at a time: hundreds of requests may find the token too old at once.
        async with self._asking:
            known, renewed = self._known, self._known != before
            if known is None or self._is_old(known) or (refused and not renewed):
                known = _read(self._plugin, await _run(self._plugin))
                self._show(known)
                self._known = known
        return known.token

    def _is_old(self, known: _Told) -> bool:
        ends = known.expiration_timestamp
        return ends is not None and self._clock.now() >= ends - _MARGIN

    def _show(self, told: _Told) -> None:
        if not told.client_certificate_data:
            return
        try:
            load_identity(self._tls, told.client_certificate_data, told.client_key_data)
        except ssl.SSLError as error:
            why = error.reason or str(error)
            message = f"{self._plugin.command} printed a certificate that cannot be used ({why})"
            raise NoCredentials(message) from error


async def _run(plugin: Plugin) -> bytes:
    asked = {
        "apiVersion": plugin.api_version,
        "kind": "ExecCredential",
        "spec": {"interactive": False},
    }
    environment = {
        **plugin.environment,
        "KUBERNETES_EXEC_INFO": msgspec.json.encode(asked).decode(),
    }
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.arguments,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        hint = f"; {plugin.hint}" if plugin.hint else ""
        message = f"{plugin.command} cannot be run for a token: {error.strerror}{hint}"
        raise NoCredentials(message) from error
    try:
        out, complaint = await asyncio.wait_for(process.communicate(), _PLUGIN_PATIENCE)
    except TimeoutError as error:
        process.kill()
        await process.wait()
        message = f"{plugin.command} gave no token within {_PLUGIN_PATIENCE:g}s"
        raise NoCredentials(message) from error
    if process.returncode:
        said = " ".join(complaint.decode(errors="replace").split())[:_SHOWN]
        raise NoCredentials(f"{plugin.command} ended with {process.returncode}: {said}")
    return out


def _read(plugin: Plugin, printed: bytes) -> _Told:
    try:
        status: dict[str, Any] = msgspec.json.decode(printed)["status"]
        given = {name: value for name, value in status.items() if value is not None}
        told = msgspec.convert(given, _Told)
    except (
        msgspec.DecodeError,
        msgspec.ValidationError,
        AttributeError,
        KeyError,
        TypeError,
    ) as error:
        message = f"{plugin.command} printed no ExecCredential with a status"
        raise NoCredentials(message) from error
    if not (told.token or told.client_certificate_data):
        raise NoCredentials(f"{plugin.command} printed no token and no certificate")
    return told
