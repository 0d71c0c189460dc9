"""A certificate for 127.0.0.1 that only this run has the key of.

Why TLS on loopback: kubectl keeps its token to itself unless the connection is
encrypted.
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

_FIRST: Final = datetime(2020, 1, 1, tzinfo=UTC)
_LAST: Final = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
"""It never expires, but nobody keeps its key."""
_NAME: Final = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "dovetail sandbox")])


class Certificate(msgspec.Struct, frozen=True):
    """A self-signed certificate and its key, both in PEM."""

    certificate: str
    key: str

    def context(self) -> ssl.SSLContext:
        """Return what a server needs to show the certificate."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        # OpenSSL reads keys from files only.
        with TemporaryDirectory() as folder:
            both = Path(folder, "both.pem")
            both.touch(mode=0o600)
            both.write_text(self.key + self.certificate)
            context.load_cert_chain(both)
        return context


def new_certificate(address: str = "127.0.0.1") -> Certificate:
    """Make a certificate for an address."""
    key = Ed25519PrivateKey.generate()
    names = [x509.IPAddress(ip_address(address)), x509.DNSName("localhost")]
    public = key.public_key()
    signed = (
        x509.CertificateBuilder()
        .subject_name(_NAME)
        .issuer_name(_NAME)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(_FIRST)
        .not_valid_after(_LAST)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_SIGNS_AND_CERTIFIES, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .sign(key, None)
    )
    pem = serialization.Encoding.PEM
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return Certificate(signed.public_bytes(pem).decode(), secret.decode())


_SIGNS_AND_CERTIFIES: Final = x509.KeyUsage(
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
