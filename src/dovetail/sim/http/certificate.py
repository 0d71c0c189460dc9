"""A certificate for 127.0.0.1 that only this run has the key of.

Why TLS on loopback: kubectl keeps its token to itself unless the connection is
encrypted. Why by hand: one signature is not worth a cryptography library.
"""

import ssl
from base64 import encodebytes
from hashlib import sha1, sha512
from ipaddress import ip_address
from pathlib import Path
from secrets import token_bytes
from tempfile import TemporaryDirectory
from typing import Final

import msgspec

_FIELD: Final = 2**255 - 19
_ORDER: Final = 2**252 + 27742317777372353535851937790883648493
_CURVE: Final = -121665 * pow(121666, -1, _FIELD) % _FIELD

_Point = tuple[int, int, int, int]
"""X, Y, Z and T with x = X/Z, y = Y/Z, x·y = T/Z."""

_BASE_Y: Final = 4 * pow(5, -1, _FIELD) % _FIELD
_BASE_X: Final = 15112221349535400772501151409588531511454012693041857206046113283949847762202
_BASE: Final[_Point] = (_BASE_X, _BASE_Y, 1, _BASE_X * _BASE_Y % _FIELD)
_ZERO: Final[_Point] = (0, 1, 1, 0)


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
    """Make a certificate for an address; it never expires, but nobody keeps its key."""
    seed = token_bytes(32)
    public = _public_key(seed)
    content = _to_be_signed(public, address)
    signed = _sequence(content, _ED25519, _bits(_sign(seed, content)))
    key = _sequence(_number(0), _ED25519, _tagged(0x04, _tagged(0x04, seed)))
    return Certificate(_pem("CERTIFICATE", signed), _pem("PRIVATE KEY", key))


# Ed25519, after RFC 8032. Not hardened against those who measure time: it signs once.


def _add(one: _Point, other: _Point) -> _Point:
    x, y, z, t = one
    x2, y2, z2, t2 = other
    a, b = (y - x) * (y2 - x2) % _FIELD, (y + x) * (y2 + x2) % _FIELD
    c, d = 2 * t * t2 * _CURVE % _FIELD, 2 * z * z2 % _FIELD
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _FIELD, g * h % _FIELD, f * g % _FIELD, e * h % _FIELD


def _times(factor: int, point: _Point) -> _Point:
    total = _ZERO
    while factor:
        if factor & 1:
            total = _add(total, point)
        point = _add(point, point)
        factor >>= 1
    return total


def _packed(point: _Point) -> bytes:
    x, y, z, _ = point
    inverse = pow(z, -1, _FIELD)
    return (y * inverse % _FIELD | (x * inverse % _FIELD & 1) << 255).to_bytes(32, "little")


def _expanded(seed: bytes) -> tuple[int, bytes]:
    digest = sha512(seed).digest()
    secret = int.from_bytes(digest[:32], "little")
    return secret & (1 << 254) - 8 | 1 << 254, digest[32:]


def _public_key(seed: bytes) -> bytes:
    return _packed(_times(_expanded(seed)[0], _BASE))


def _hashed(*parts: bytes) -> int:
    return int.from_bytes(sha512(b"".join(parts)).digest(), "little") % _ORDER


def _sign(seed: bytes, message: bytes) -> bytes:
    secret, prefix = _expanded(seed)
    nonce = _hashed(prefix, message)
    commitment = _packed(_times(nonce, _BASE))
    challenge = _hashed(commitment, _public_key(seed), message)
    return commitment + ((nonce + challenge * secret) % _ORDER).to_bytes(32, "little")


# DER and X.509, as far as one certificate needs them.


def _tagged(tag: int, *content: bytes) -> bytes:
    body = b"".join(content)
    if len(body) < 0x80:
        return bytes((tag, len(body))) + body
    size = len(body).to_bytes((len(body).bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(size))) + size + body


def _sequence(*content: bytes) -> bytes:
    return _tagged(0x30, *content)


def _number(value: int) -> bytes:
    return _tagged(0x02, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _bits(value: bytes, unused: int = 0) -> bytes:
    return _tagged(0x03, bytes((unused,)), value)


def _identifier(encoded: str) -> bytes:
    return _tagged(0x06, bytes.fromhex(encoded))


def _extension(identifier: str, value: bytes, *, critical: bool = False) -> bytes:
    flag = _tagged(0x01, b"\xff") if critical else b""
    return _sequence(_identifier(identifier), flag, _tagged(0x04, value))


_ED25519: Final = _sequence(_identifier("2b6570"))
_COMMON_NAME: Final = "550403"
_SUBJECT_KEY: Final = "551d0e"
_KEY_USAGE: Final = "551d0f"
_OTHER_NAMES: Final = "551d11"
_CONSTRAINTS: Final = "551d13"
_EXTENDED_USAGE: Final = "551d25"
_SERVER: Final = "2b06010505070301"
_SIGNS_AND_CERTIFIES: Final = b"\x84"


def _to_be_signed(public: bytes, address: str) -> bytes:
    name = _sequence(
        _tagged(0x31, _sequence(_identifier(_COMMON_NAME), _tagged(0x0C, b"dovetail sandbox")))
    )
    always = _sequence(_tagged(0x17, b"200101000000Z"), _tagged(0x18, b"99991231235959Z"))
    names = _sequence(_tagged(0x87, ip_address(address).packed), _tagged(0x82, b"localhost"))
    extensions = _sequence(
        _extension(_CONSTRAINTS, _sequence(_tagged(0x01, b"\xff")), critical=True),
        _extension(_KEY_USAGE, _bits(_SIGNS_AND_CERTIFIES, unused=2), critical=True),
        _extension(_EXTENDED_USAGE, _sequence(_identifier(_SERVER))),
        _extension(_SUBJECT_KEY, _tagged(0x04, sha1(public, usedforsecurity=False).digest())),
        _extension(_OTHER_NAMES, names),
    )
    return _sequence(
        _tagged(0xA0, _number(2)),
        _number(int.from_bytes(token_bytes(8), "big")),
        _ED25519,
        name,
        always,
        name,
        _sequence(_ED25519, _bits(public)),
        _tagged(0xA3, extensions),
    )


def _pem(kind: str, content: bytes) -> str:
    return f"-----BEGIN {kind}-----\n{encodebytes(content).decode()}-----END {kind}-----\n"
