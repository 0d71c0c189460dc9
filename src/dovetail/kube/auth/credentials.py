"""Who we are to the API server: tokens and certificates that stay, or that others keep fresh."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Protocol

import msgspec

from dovetail.errors import DovetailError
from dovetail.ports.event_loop import Clock

_REREAD: Final = timedelta(minutes=1)
"""What is mounted is replaced long before it ends; client-go looks this often, too."""


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
                self._known = self._read()
            except NoCredentials:
                # Whoever writes it may be in the middle of it; what we have may still do.
                if not self._known:
                    raise
            self._read_at = now
        return self._known

    def _read(self) -> str:
        try:
            found = self._path.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is no text"
            raise NoCredentials(f"{self._path} cannot be read: {why}") from error
        if not found.isprintable() or not found:
            raise NoCredentials(f"{self._path} holds no token")
        return found


class KeptFresh:
    """Files (certificates) that somebody else keeps fresh, beside what gives the token."""

    def __init__(
        self,
        files: Sequence[Path],
        *,
        renew: Callable[[], None],
        clock: Clock,
        token: Credentials,
    ) -> None:
        """Have ``renew`` take up what is in ``files``, which were read just now."""
        self._files = files
        self._renew = renew
        self._clock = clock
        self._token = token
        self._taken_up = self._state()
        self._looked_at = clock.now()

    async def token(self, *, refused: bool = False) -> str:
        now = self._clock.now()
        if refused or now - self._looked_at >= _REREAD:
            self._looked_at = now
            self._look()
        return await self._token.token(refused=refused)

    def _look(self) -> None:
        state = self._state()
        if state == self._taken_up:
            return
        try:
            self._renew()
        except (DovetailError, OSError):
            return  # A certificate and its key are never replaced at once; next time they fit.
        self._taken_up = state

    def _state(self) -> list[tuple[int, int, int]]:
        return [_stamp(one) for one in self._files]


def _stamp(file: Path) -> tuple[int, int, int]:
    """Return what is another one when a file was replaced or written to."""
    try:
        about = file.stat()
    except OSError:
        return (0, 0, 0)
    return about.st_ino, about.st_mtime_ns, about.st_size
