"""The hosts that charts come from, on loopback: under their own names, by way of a proxy.

helm is told of the proxy and of an authority to trust by the environment, as in any
company behind one. So the files under test name the very addresses that users have.
"""

import hashlib
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock, Thread
from typing import Any
from urllib.parse import urlsplit

import yaml

from dovetail.eks.desired.charts import Chart
from tests.live.certificates import Authority
from tests.live.eks.charts import name_of, packaged

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.cncf.helm.config.v1+json"
_LAYER = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
Held = tuple[str, bytes]
"""A content type, and what has it."""


class Internet:
    """Repositories and registries, and the way to them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = Authority()
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._lock = Lock()
        self.asked: list[str] = []
        """Addresses that somebody fetched."""
        self.pages: dict[str, Held] = {}
        (folder / "trusted.crt").write_text(self._authority.certificate)
        charts = packaged(folder)
        for chart, archive in charts:
            if chart.repository is None:
                self._register(chart, archive)
        self._index([one for one in charts if one[0].repository is not None])

    def environment(self, port: int) -> dict[str, str]:
        """Return what a program has to know to be here."""
        return {
            "HTTPS_PROXY": f"http://127.0.0.1:{port}",
            "NO_PROXY": "127.0.0.1,localhost",
            "SSL_CERT_FILE": str(self._folder / "trusted.crt"),
        }

    def context(self, host: str) -> ssl.SSLContext:
        """Return what proves to clients that this is the host they wanted."""
        with self._lock:
            if host not in self._contexts:
                signed = self._authority.for_host(host)
                both = self._folder / f"{host}.pem"
                both.touch(mode=0o600)
                both.write_text(signed.certificate + signed.key)
                self._contexts[host] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                self._contexts[host].load_cert_chain(both)
            return self._contexts[host]

    def _index(self, charts: list[tuple[Chart, Path]]) -> None:
        for chart, archive in charts:
            data = archive.read_bytes()
            entry = {
                "apiVersion": "v2",
                "name": chart.chart,
                "version": chart.version,
                "urls": [f"{chart.repository}/{archive.name}"],
                "digest": hashlib.sha256(data).hexdigest(),
            }
            whole = {"apiVersion": "v1", "entries": {chart.chart: [entry]}}
            self.pages[f"{chart.repository}/index.yaml"] = "text/yaml", _yaml(whole)
            self.pages[f"{chart.repository}/{archive.name}"] = "application/gzip", data

    def _register(self, chart: Chart, archive: Path) -> None:
        data = archive.read_bytes()
        about = json.dumps({"name": name_of(chart), "version": chart.version}).encode()
        manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": _MANIFEST,
                "config": _described(_CONFIG, about),
                "layers": [_described(_LAYER, data)],
            }
        ).encode()
        parts = urlsplit(chart.chart)
        root = f"https://{parts.netloc}/v2{parts.path}"
        for tag in (chart.version, _digest(manifest)):
            self.pages[f"{root}/manifests/{tag}"] = _MANIFEST, manifest
        for blob in (about, data):
            self.pages[f"{root}/blobs/{_digest(blob)}"] = "application/octet-stream", blob


@contextmanager
def an_internet(folder: Path) -> Iterator[tuple[Internet, dict[str, str]]]:
    """Have one for a while, and the environment that leads to it."""
    internet = Internet(folder)

    class Handler(_Proxy):
        world = internet

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield internet, internet.environment(server.server_port)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Proxy(BaseHTTPRequestHandler):
    """Answers for every host itself, in place of the one that it was to connect to."""

    protocol_version = "HTTP/1.1"
    world: Internet
    _host = ""

    def do_CONNECT(self) -> None:
        self._host = self.path.partition(":")[0]
        self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        self.connection = self.world.context(self._host).wrap_socket(
            self.connection, server_side=True
        )
        self.rfile = self.connection.makefile("rb", -1)
        self.wfile = self.connection.makefile("wb", 0)  # type: ignore[assignment]
        self.close_connection = False

    def finish(self) -> None:
        super().finish()
        self.connection.close()

    def do_GET(self) -> None:
        address = f"https://{self._host}{self.path}"
        self.world.asked.append(address)
        kind, data = self.world.pages.get(address, ("", b""))
        self.send_response(200 if kind else 404)
        for name, value in self._head(kind, data).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _head(self, kind: str, data: bytes) -> Mapping[str, str]:
        told = {"Content-Length": str(len(data)), "Docker-Content-Digest": _digest(data)}
        return {**told, "Content-Type": kind} if kind else {"Content-Length": "0"}

    def log_message(self, *_: Any) -> None:
        """Tests tell what matters."""


def _described(kind: str, data: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": _digest(data), "size": len(data)}


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _yaml(value: Any) -> bytes:
    return yaml.safe_dump(value).encode()
