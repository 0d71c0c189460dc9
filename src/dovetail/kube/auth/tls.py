"""TLS contexts: trusted certificate authorities and the client certificate."""

import ssl
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory


def create_tls_context(authority: str) -> ssl.SSLContext:
    """Return a context that trusts a CA bundle (PEM), or the system's; may raise SSLError."""
    # Bundles may contain comments in any language, which OpenSSL ignores.
    ascii_only = authority.encode("ascii", errors="replace").decode()
    return ssl.create_default_context(cadata=ascii_only or None)


def load_client_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Set the client certificate (PEM) of a context; raise ``ssl.SSLError``."""
    # OpenSSL reads keys from files only.
    with TemporaryDirectory() as folder:
        pem = Path(folder, "client.pem")
        pem.touch(mode=0o600)
        pem.write_text(f"{certificate}\n{key}\n")
        # Without an explicit password, OpenSSL would prompt on the terminal.
        context.load_cert_chain(pem, password="")


class ClientTls:
    """TLS context that can be reloaded when certificates rotate.

    Each change creates a new context. Connections are pooled by context, so a
    connection with an old certificate is not reused.
    """

    def __init__(self, create_context: Callable[[], ssl.SSLContext]) -> None:
        self._create_context = create_context
        self._certificate: tuple[str, str] | None = None
        self.context = create_context()

    def reload(self) -> None:
        """Read the trusted certificates again."""
        context = self._create_context()
        if self._certificate is not None:
            load_client_certificate(context, *self._certificate)
        self.context = context

    def set_certificate(self, certificate: str, key: str) -> None:
        """Use a client certificate; on ``ssl.SSLError`` keep the previous one."""
        context = self._create_context()
        load_client_certificate(context, certificate, key)
        self._certificate = (certificate, key)
        self.context = context
