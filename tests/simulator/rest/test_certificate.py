"""The certificate, verified by OpenSSL; the tests with kubectl verify it by Go."""

import ssl

import pytest

from dovetail.simulator.rest.certificate import create_certificate


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> str | None:
    """Perform a TLS handshake in memory and return the negotiated version."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    serving = server.wrap_bio(to_server, to_client, server_side=True)
    calling = client.wrap_bio(to_client, to_server, server_hostname=name)
    waiting = [calling, serving]
    for _ in range(10):
        for side in list(waiting):
            try:
                side.do_handshake()
                waiting.remove(side)
            except ssl.SSLWantReadError:
                continue
    return calling.version() if not waiting else None


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
def test_every_certificate_is_valid_for_loopback(name: str) -> None:
    for _ in range(20):
        certificate = create_certificate()
        strict = ssl.create_default_context(cadata=certificate.certificate)
        strict.verify_flags |= ssl.VERIFY_X509_STRICT

        assert shake_hands(certificate.context(), strict, name) == "TLSv1.3"


def test_a_certificate_is_invalid_for_other_addresses() -> None:
    certificate = create_certificate()
    client = ssl.create_default_context(cadata=certificate.certificate)

    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        shake_hands(certificate.context(), client, "10.0.0.1")


def test_the_certificate_of_another_run_is_not_trusted() -> None:
    earlier, later = create_certificate(), create_certificate()
    client = ssl.create_default_context(cadata=earlier.certificate)

    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(later.context(), client, "127.0.0.1")
