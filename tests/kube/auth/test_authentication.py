"""Less common ways to an API server: a plugin's certificate, a proxy in between."""

import asyncio
import json
import ssl
import sys
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from dovetail.errors import InvalidInputError
from dovetail.host.clock import SystemClock
from dovetail.kube.auth.credentials import CredentialsError
from dovetail.kube.auth.kubeconfig import RestConfig, load_rest_config
from dovetail.kube.preflight import kubernetes_version
from dovetail.simulator.rest.certificate import Certificate, create_certificate
from tests.kube.api_server import connected
from tests.live.certificates import Authority

HOST = "127.0.0.1"


def access_of(tmp_path: Path, user: dict[str, Any], **cluster: Any) -> RestConfig:
    whole = {
        "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        "clusters": [{"name": "x", "cluster": cluster}],
        "users": [{"name": "x", "user": user}],
    }
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump(whole))
    return load_rest_config(str(file), environ={"PATH": "/usr/bin"}, clock=SystemClock())


@asynccontextmanager
async def a_server(own: Certificate, *, trusts: str = "") -> AsyncIterator[int]:
    """Serve the version to clients with a trusted certificate."""

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"major": "1", "minor": "33"})

    app = web.Application()
    app.router.add_get("/version", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    context = own.context()
    if trusts:
        context.load_verify_locations(cadata=trusts)
        context.verify_mode = ssl.CERT_REQUIRED
    await web.TCPSite(runner, HOST, 0, ssl_context=context).start()
    try:
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


def prints(tmp_path: Path, **status: str) -> dict[str, Any]:
    script = tmp_path / "plugin.py"
    script.write_text(f"print({json.dumps(json.dumps({'status': status}))})")
    return {"command": sys.executable, "args": [str(script)]}


def test_a_plugin_may_return_a_certificate(tmp_path: Path) -> None:
    server, authority = create_certificate(HOST), Authority()
    client = authority.for_user("me")
    plugin = prints(tmp_path, clientCertificateData=client.certificate, clientKeyData=client.key)

    async def run() -> str:
        async with a_server(server, trusts=authority.certificate) as port:
            its_own = b64encode(server.certificate.encode()).decode()
            access = access_of(
                tmp_path,
                {"exec": plugin},
                **{"server": f"https://{HOST}:{port}", "certificate-authority-data": its_own},
            )
            async with connected(access) as connection:
                return await kubernetes_version(connection)

    assert asyncio.run(run()) == "1.33"


def test_an_invalid_plugin_certificate_is_named(tmp_path: Path) -> None:
    plugin = prints(tmp_path, clientCertificateData="no PEM", clientKeyData="nor this")
    access = access_of(tmp_path, {"exec": plugin}, server="https://example.test")

    with pytest.raises(CredentialsError, match="certificate that cannot be used"):
        asyncio.run(access.credentials.token())


class Proxy:
    """Connects to wherever it is asked to, and remembers that."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def serve(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        head = await near.readuntil(b"\r\n\r\n")
        method, target, *_ = head.decode().split()
        self.asked.append(f"{method} {target}")
        host, _, port = target.rpartition(":")
        far, forth = await asyncio.open_connection(host, int(port))
        back.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(_pass(near, forth), _pass(far, back))


async def _pass(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(4096):
            sink.write(data)
            await sink.drain()
    except ConnectionError:
        pass
    sink.close()


def test_the_proxy_of_the_kubeconfig_is_used(tmp_path: Path) -> None:
    own, proxy = create_certificate(HOST), Proxy()

    async def run() -> tuple[str, int]:
        listener = await asyncio.start_server(proxy.serve, HOST, 0)
        by = listener.sockets[0].getsockname()[1]
        async with a_server(own) as port:
            authority = b64encode(own.certificate.encode()).decode()
            access = access_of(
                tmp_path,
                {"token": "any"},
                **{
                    "server": f"https://{HOST}:{port}",
                    "certificate-authority-data": authority,
                    "proxy-url": f"http://{HOST}:{by}",
                },
            )
            async with connected(access) as connection:
                version = await kubernetes_version(connection)
            await asyncio.sleep(0.05)
        listener.close()
        await asyncio.sleep(0.05)
        return version, port

    version, port = asyncio.run(run())

    assert version == "1.33"
    assert proxy.asked == [f"CONNECT {HOST}:{port}"]


def test_an_unsupported_proxy_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"proxy-url.*socks5"):
        access_of(tmp_path, {}, **{"server": "https://example.test", "proxy-url": "socks5://example"})


@pytest.mark.parametrize("field", ["username", "password", "auth-provider"])
def test_removed_authentication_methods_are_rejected(tmp_path: Path, field: str) -> None:
    with pytest.raises(InvalidInputError, match=f"user.{field}: is not supported by Kubernetes any more"):
        access_of(tmp_path, {field: "x"}, server="https://example.test")
