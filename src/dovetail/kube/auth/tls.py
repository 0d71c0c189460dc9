"""Certificates: whom we trust, and the one that we show."""

import ssl
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory


def trusting(authority: str) -> ssl.SSLContext:
    """Return a context that trusts an authority (PEM), or the system's own; may raise SSLError."""
    # People keep notes between certificates, in any language; OpenSSL passes over them.
    plain = authority.encode("ascii", errors="replace").decode()
    return ssl.create_default_context(cadata=plain or None)


def load_identity(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Have new connections show a client certificate (PEM); raises ``ssl.SSLError``."""
    # OpenSSL reads keys from files only.
    with TemporaryDirectory() as folder:
        both = Path(folder, "both.pem")
        both.touch(mode=0o600)
        both.write_text(f"{certificate}\n{key}\n")
        # Without a password of our own, OpenSSL would ask whoever sits at the terminal.
        context.load_cert_chain(both, password="")


class Identity:
    """What connections are made with while certificates come and go.

    Each change makes a context of its own. Connections are kept by context, so none that
    was made with the last one is used again.
    """

    def __init__(self, trust: Callable[[], ssl.SSLContext]) -> None:
        self._trust = trust
        self._shown: tuple[str, str] | None = None
        self.context = trust()

    def renew(self) -> None:
        """Take up what is trusted by now."""
        context = self._trust()
        if self._shown is not None:
            load_identity(context, *self._shown)
        self.context = context

    def show(self, certificate: str, key: str) -> None:
        """Show this certificate from now on; raises ``ssl.SSLError`` and goes on as before."""
        context = self._trust()
        load_identity(context, certificate, key)
        self._shown = (certificate, key)
        self.context = context
