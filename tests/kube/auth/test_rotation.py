"""Certificates that are replaced while a process runs."""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from cryptography.hazmat.primitives import serialization

from dovetail.errors import InvalidInputError
from dovetail.kube.auth.kubeconfig import RestConfig, load_rest_config
from dovetail.kube.preflight import kubernetes_version
from dovetail.ports.kube_errors import Unauthorized, Unavailable
from dovetail.simulator.rest.certificate import Certificate, create_certificate
from tests.kube.api_server import connected
from tests.kube.auth.test_kubeconfig import Clock
from tests.live.certificates import Authority

HOST = "127.0.0.1"


class Proxy:
    """Server that accepts the current client certificate only."""

    def __init__(self, own: Certificate, authority: Authority) -> None:
        self._own = own
        self._authority = authority
        self.lets_in = "old"
        self.seen: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        shown = request.transport.get_extra_info("peercert") or {}
        names = dict(pair for entry in shown.get("subject", ()) for pair in entry)
        who = names.get("commonName", "")
        self.seen.append(who)
        if who != self.lets_in:
            return web.json_response({"kind": "Status", "code": 401}, status=401)
        return web.json_response({"major": "1", "minor": "33"})

    @asynccontextmanager
    async def open(self, port: int = 0) -> AsyncIterator[int]:
        app = web.Application()
        app.router.add_get("/version", self.answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        context = self._own.context()
        context.load_verify_locations(cadata=self._authority.certificate)
        context.verify_mode = ssl.CERT_OPTIONAL
        await web.TCPSite(runner, HOST, port, ssl_context=context).start()
        try:
            yield runner.addresses[0][1]
        finally:
            await runner.cleanup()


class Files:
    """A kubeconfig that names files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = Clock()

    def hold(self, name: str, content: str) -> None:
        """Replace a file as those do who keep them fresh: never half of it."""
        new = self.folder / f"{name}.new"
        new.write_text(content)
        os.replace(new, self.folder / name)

    def access(self, port: int) -> RestConfig:
        cluster = {"server": f"https://{HOST}:{port}", "certificate-authority": "ca.crt"}
        user = {"client-certificate": "me.crt", "client-key": "me.key"}
        whole = {
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "clusters": [{"name": "x", "cluster": cluster}],
            "users": [{"name": "x", "user": user}],
        }
        file = self.folder / "config"
        file.write_text(yaml.safe_dump(whole))
        return load_rest_config(str(file), environ={}, clock=self.clock)


def test_a_rotated_certificate_is_used_once_the_old_one_is_rejected(tmp_path: Path) -> None:
    own, authority, files = create_certificate(HOST), Authority(), Files(tmp_path)
    proxy = Proxy(own, authority)
    old, new = authority.for_user("old"), authority.for_user("new")
    files.hold("ca.crt", own.certificate)
    files.hold("me.crt", old.certificate)
    files.hold("me.key", old.key)

    async def story() -> None:
        async with proxy.open() as port, connected(files.access(port)) as connection:
            await kubernetes_version(connection)
            proxy.lets_in = "new"
            files.hold("me.crt", new.certificate)
            with pytest.raises(Unauthorized):
                # The key does not fit yet.
                await connection.request("GET", "/version")
            files.hold("me.key", new.key)

            await kubernetes_version(connection)
            await kubernetes_version(connection)

    asyncio.run(story())

    assert proxy.seen == ["old", "old", "old", "new", "new"]


def test_a_rotated_certificate_is_loaded_before_the_old_one_is_rejected(tmp_path: Path) -> None:
    own, authority, files = create_certificate(HOST), Authority(), Files(tmp_path)
    proxy = Proxy(own, authority)
    old, new = authority.for_user("old"), authority.for_user("new")
    files.hold("ca.crt", own.certificate)
    files.hold("me.crt", old.certificate)
    files.hold("me.key", old.key)

    async def story() -> None:
        async with proxy.open() as port, connected(files.access(port)) as connection:
            await kubernetes_version(connection)
            proxy.lets_in = "new"
            files.hold("me.crt", new.certificate)
            files.hold("me.key", new.key)
            files.clock.moment += timedelta(minutes=1)

            await kubernetes_version(connection)

    asyncio.run(story())

    assert proxy.seen == ["old", "new"]


def test_a_rotated_ca_file_is_trusted_within_a_minute(tmp_path: Path) -> None:
    first, second, files = create_certificate(HOST), create_certificate(HOST), Files(tmp_path)
    authority = Authority()
    me = authority.for_user("old")
    files.hold("ca.crt", first.certificate)
    files.hold("me.crt", me.certificate)
    files.hold("me.key", me.key)

    async def story() -> str:
        async with Proxy(first, authority).open() as port:
            access = files.access(port)
            async with connected(access) as connection:
                await kubernetes_version(connection)
        async with Proxy(second, authority).open(port):
            async with connected(access) as connection:
                with pytest.raises(Unavailable, match="certificate is not trusted"):
                    await kubernetes_version(connection)
                files.hold("ca.crt", second.certificate)
                files.clock.moment += timedelta(minutes=1)
                return await kubernetes_version(connection)

    assert asyncio.run(story()) == "1.33"


def test_an_encrypted_key_is_an_error_without_a_prompt(tmp_path: Path) -> None:
    files, locked = Files(tmp_path), Authority().for_user("old")
    files.hold("ca.crt", create_certificate(HOST).certificate)
    files.hold("me.crt", locked.certificate)
    files.hold("me.key", encrypted(locked.key))

    with pytest.raises(InvalidInputError, match="client-certificate"):
        files.access(1)


def encrypted(key: str) -> str:
    plain = serialization.load_pem_private_key(key.encode(), password=None)
    return plain.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    ).decode()
