"""Credentials for the API server: static tokens, token files, rotating certificates."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

import msgspec

from dovetail.errors import DovetailError
from dovetail.ports.event_loop import Clock

_RELOAD_INTERVAL: Final = timedelta(minutes=1)
"""Mounted tokens rotate long before they expire; client-go has the same interval."""


class CredentialsError(DovetailError):
    """No credentials could be obtained."""


class Credentials(Protocol):
    """Source of bearer tokens."""

    async def token(self, *, rejected: bool = False) -> str:
        """Return a bearer token; empty if a client certificate authenticates us.

        ``rejected``: the API server rejected the last one, so reload it.
        """


class StaticToken(msgspec.Struct, frozen=True):
    """A token from the kubeconfig itself."""

    value: str = ""

    async def token(self, *, rejected: bool = False) -> str:
        return self.value


class TokenFile:
    """A token in a file that rotates, such as the service account token of a pod."""

    def __init__(self, path: Path, *, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._cached = ""
        self._read_at: datetime | None = None

    async def token(self, *, rejected: bool = False) -> str:
        now = self._clock.now()
        if rejected or self._read_at is None or now - self._read_at >= _RELOAD_INTERVAL:
            try:
                self._cached = self._read()
            except CredentialsError:
                # The file may be half written; the previous token may still be valid.
                if not self._cached:
                    raise
            self._read_at = now
        return self._cached

    def _read(self) -> str:
        try:
            token = self._path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise CredentialsError(f"{self._path} cannot be read: {reason}") from error
        if not token.isprintable() or not token:
            raise CredentialsError(f"{self._path} contains no token")
        return token


class ReloadingCredentials:
    """Credentials whose certificate files rotate."""

    def __init__(
        self, files: Sequence[Path], *, reload: Callable[[], None], clock: Clock, token: Credentials
    ) -> None:
        """``reload`` reads ``files`` again; ``token`` provides the bearer token."""
        self._files = files
        self._reload = reload
        self._clock = clock
        self._token = token
        self._loaded_state = self._state()
        self._checked_at = clock.now()

    async def token(self, *, rejected: bool = False) -> str:
        now = self._clock.now()
        if rejected or now - self._checked_at >= _RELOAD_INTERVAL:
            self._checked_at = now
            self._reload_if_changed()
        return await self._token.token(rejected=rejected)

    def _reload_if_changed(self) -> None:
        state = self._state()
        if state == self._loaded_state:
            return
        try:
            self._reload()
        except (DovetailError, OSError):
            return  # Certificate and key are not replaced atomically; the next reload succeeds.
        self._loaded_state = state

    def _state(self) -> list[tuple[int, int, int]]:
        return [_file_state(file) for file in self._files]


def _file_state(file: Path) -> tuple[int, int, int]:
    """Return a value that changes when a file is replaced or written."""
    try:
        stat = file.stat()
    except OSError:
        return (0, 0, 0)
    return stat.st_ino, stat.st_mtime_ns, stat.st_size
