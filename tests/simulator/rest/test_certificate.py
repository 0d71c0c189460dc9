"""The certificate: good for OpenSSL here, and for Go wherever kubectl is tested."""

import ssl

import pytest

from dovetail.simulator.rest.certificate import new_certificate


def shake_hands(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> str | None:
    """Let two sides meet in memory; returns the version they agree on."""
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
def test_every_certificate_is_good_for_loopback(name: str) -> None:
    for _ in range(20):
        certificate = new_certificate()
        strict = ssl.create_default_context(cadata=certificate.certificate)
        strict.verify_flags |= ssl.VERIFY_X509_STRICT

        assert shake_hands(certificate.context(), strict, name) == "TLSv1.3"


def test_a_certificate_is_good_for_nobody_else() -> None:
    certificate = new_certificate()
    client = ssl.create_default_context(cadata=certificate.certificate)

    with pytest.raises(ssl.SSLCertVerificationError, match="mismatch"):
        shake_hands(certificate.context(), client, "10.0.0.1")


def test_the_certificate_of_another_run_is_not_trusted() -> None:
    earlier, later = new_certificate(), new_certificate()
    client = ssl.create_default_context(cadata=earlier.certificate)

    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(later.context(), client, "127.0.0.1")
