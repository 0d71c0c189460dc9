"""Certificates from text: OpenSSL reads keys from files only."""

import ssl
from pathlib import Path
from tempfile import TemporaryDirectory


def load_identity(context: ssl.SSLContext, certificate: str, key: str) -> None:
    """Have new connections show a client certificate (PEM); raises ``ssl.SSLError``."""
    with TemporaryDirectory() as folder:
        both = Path(folder, "both.pem")
        both.touch(mode=0o600)
        both.write_text(f"{certificate}\n{key}\n")
        context.load_cert_chain(both)
