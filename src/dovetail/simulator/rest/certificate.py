"""Self-signed certificate for 127.0.0.1, with a new key in every run.

TLS is needed on loopback too: kubectl does not send its token over an unencrypted
connection.
"""

import ssl
from datetime import UTC, datetime
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import msgspec
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_NOT_BEFORE: Final = datetime(2020, 1, 1, tzinfo=UTC)
_NOT_AFTER: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""It never expires, but its key is never stored."""
_NAME: Final = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dovetail sandbox")])


class Certificate(msgspec.Struct, frozen=True):
    """Self-signed certificate and its key, both in PEM."""

    certificate: str
    key: str

    def context(self) -> ssl.SSLContext:
        """Return the TLS context of a server with this certificate."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        # OpenSSL reads keys from files only.
        with TemporaryDirectory() as folder:
            file = Path(folder, "chain.pem")
            file.touch(mode=0o600)
            file.write_text(self.key + self.certificate)
            context.load_cert_chain(file)
        return context


def create_certificate(address: str = "127.0.0.1") -> Certificate:
    """Create a certificate for an IP address and localhost."""
    key = Ed25519PrivateKey.generate()
    names = [x509.IPAddress(ip_address(address)), x509.DNSName("localhost")]
    public = key.public_key()
    signed = (
        x509.CertificateBuilder()
        .subject_name(_NAME)
        .issuer_name(_NAME)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_NOT_BEFORE)
        .not_valid_after(_NOT_AFTER)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_KEY_USAGE, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, None)
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Certificate(signed.public_bytes(pem).decode(), secret.decode())


_KEY_USAGE: Final = x509.KeyUsage(
    digital_signature=True,
    key_cert_sign=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)
