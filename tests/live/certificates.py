"""Certificates of a control plane: a certificate authority and what it signs."""

from dataclasses import dataclass, field
from datetime import timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dovetail.host.clock import SystemClock

_PEM = serialization.Encoding.PEM


@dataclass(frozen=True)
class Signed:
    """A certificate and its key in PEM."""

    certificate: str
    key: str


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def private_pem(key: ec.EllipticCurvePrivateKey) -> str:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(_PEM, form, serialization.NoEncryption()).decode()


def public_pem(key: ec.EllipticCurvePrivateKey) -> str:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(_PEM, form).decode()


@dataclass(frozen=True)
class Authority:
    """Certificate authority for the API server and its clients."""

    _key: ec.EllipticCurvePrivateKey = field(default_factory=new_key)

    @property
    def certificate(self) -> str:
        """The CA certificate in PEM."""
        allowed = x509.KeyUsage(True, False, False, False, False, True, True, False, False)
        builder = self._builder(_NAME, self._key.public_key())
        builder = builder.add_extension(allowed, critical=True)
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        signed = builder.add_extension(constraints, critical=True).sign(self._key, hashes.SHA256())
        return signed.public_bytes(_PEM).decode()

    def for_server(self, address: str = "127.0.0.1") -> Signed:
        names = [x509.IPAddress(ip_address(address)), x509.DNSName("localhost")]
        return self._sign(
            _named("kube-apiserver"),
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]),
            x509.SubjectAlternativeName(names),
        )

    def for_host(self, name: str) -> Signed:
        """Return a serving certificate for a host name."""
        use = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
        return self._sign(_named(name), use, x509.SubjectAlternativeName([x509.DNSName(name)]))

    def for_user(self, name: str, *groups: str) -> Signed:
        """Return a client certificate; Kubernetes takes user and groups from the subject."""
        use = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        return self._sign(_named(name, *groups), use)

    def _sign(self, subject: x509.Name, *extensions: x509.ExtensionType) -> Signed:
        key = new_key()
        builder = self._builder(subject, key.public_key())
        for extension in extensions:
            builder = builder.add_extension(extension, critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        return Signed(signed.public_bytes(_PEM).decode(), private_pem(key))

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = SystemClock().now()
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(_NAME)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(days=7))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(issuer, critical=False)
        )


def _named(name: str, *groups: str) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, name)])


_NAME = _named("dovetail live tests")
