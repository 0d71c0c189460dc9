"""Programs that say who we are, such as ``aws eks get-token``."""

import asyncio
import os
import signal
import ssl
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Annotated, Any, Final

import msgspec

from dovetail.kube.auth.credentials import NoCredentials
from dovetail.kube.auth.tls import Identity
from dovetail.ports.event_loop import Clock

_MARGIN: Final = timedelta(seconds=30)
"""Before its end a token is replaced; one that does not last as long, after most of its time."""
_MOST: Final = 0.8
_LEAST: Final = timedelta(seconds=1)
"""A program is not run for every request, whatever it says about its token."""
_PATIENCE: Final = 60.0
_LAST_BREATH: Final = 0.5
_SHOWN: Final = 300


class Plugin(msgspec.Struct, frozen=True, kw_only=True):
    """A program that prints a token or a certificate."""

    command: str
    arguments: Sequence[str] = ()
    environment: Mapping[str, str] = {}
    """All of it, not only what is added."""
    api_version: str = "client.authentication.k8s.io/v1"
    hint: str = ""
    cluster: Mapping[str, Any] | None = None
    """What it is told of the cluster, where it wants to be (``provideClusterInfo``)."""


class _Told(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The status of an ExecCredential."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class PluginToken:
    """A token or certificate asked of a program; asked again shortly before it ends."""

    def __init__(self, plugin: Plugin, *, clock: Clock, identity: Identity) -> None:
        """Have ``identity`` show the certificate, if one is given."""
        self._plugin = plugin
        self._clock = clock
        self._identity = identity
        self._known: _Told | None = None
        self._old_at: datetime | None = None
        self._asking = asyncio.Lock()

    async def token(self, *, refused: bool = False) -> str:
        before = self._known
        # One at a time: hundreds of requests may find the token too old at once.
        async with self._asking:
            known, renewed = self._known, self._known is not before
            if known is None or self._is_old() or (refused and not renewed):
                known = _read(self._plugin, await _run(self._plugin))
                self._show(known)
                self._known = known
                self._old_at = _old_at(known, now=self._clock.now())
        return known.token

    def _is_old(self) -> bool:
        return self._old_at is not None and self._clock.now() >= self._old_at

    def _show(self, told: _Told) -> None:
        if not told.client_certificate_data:
            return
        try:
            self._identity.show(told.client_certificate_data, told.client_key_data)
        except ssl.SSLError as error:
            why = error.reason or str(error)
            message = f"{self._plugin.command} printed a certificate that cannot be used ({why})"
            raise NoCredentials(message) from error


def _old_at(told: _Told, *, now: datetime) -> datetime | None:
    ends = told.expiration_timestamp
    if ends is None:
        return None
    lasts = ends - now
    return now + max(_LEAST, lasts - _MARGIN, lasts * _MOST)


async def _run(plugin: Plugin) -> bytes:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    asked = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
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
            # With all that it starts it can then be ended.
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        hint = f"; {plugin.hint}" if plugin.hint else ""
        why = getattr(error, "strerror", None) or str(error)
        raise NoCredentials(f"{plugin.command} cannot be run for a token: {why}{hint}") from error
    try:
        out, complaint = await asyncio.wait_for(process.communicate(), _PATIENCE)
    except TimeoutError as error:
        await _end(process)
        message = f"{plugin.command} gave no token within {_PATIENCE:g}s"
        raise NoCredentials(message) from error
    except asyncio.CancelledError:
        await _end(process)
        raise
    if process.returncode:
        said = " ".join(complaint.decode(errors="replace").split())[:_SHOWN]
        said = said or "it does not say why"
        raise NoCredentials(f"{plugin.command} ended with {process.returncode}: {said}")
    return out


async def _end(process: asyncio.subprocess.Process) -> None:
    """Leave nothing behind of a program that is no longer waited for."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # What has left its group may hold on to the output for ever.
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _LAST_BREATH)


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
    token = told.token.strip()
    if not token.isprintable():
        raise NoCredentials(f"{plugin.command} printed a token that is none")
    if not (token or told.client_certificate_data):
        raise NoCredentials(f"{plugin.command} printed no token and no certificate")
    return msgspec.structs.replace(told, token=token)
