"""Chart repositories and OCI registries on loopback, reached through a proxy.

Environment variables give helm the proxy and its CA, so that the files under test
use the real addresses.
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
Page = tuple[str, bytes]
"""Content type and body."""


class ChartRegistries:
    """Chart repositories and OCI registries of third-party charts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = Authority()
        self._contexts: dict[str, ssl.SSLContext] = {}
        self._lock = Lock()
        self.pages: dict[str, Page] = {}
        (folder / "trusted.crt").write_text(self._authority.certificate)
        charts = packaged(folder)
        for chart, archive in charts:
            if chart.repository is None:
                self._add_to_registry(chart, archive)
        self._add_to_repositories([entry for entry in charts if entry[0].repository is not None])

    def environment(self, port: int) -> dict[str, str]:
        """Return the environment variables that route helm through the proxy."""
        return {
            "HTTPS_PROXY": f"http://127.0.0.1:{port}",
            "NO_PROXY": "127.0.0.1,localhost",
            "SSL_CERT_FILE": str(self._folder / "trusted.crt"),
        }

    def context(self, host: str) -> ssl.SSLContext:
        """Return a TLS context with a certificate for a host."""
        with self._lock:
            if host not in self._contexts:
                signed = self._authority.for_host(host)
                path = self._folder / f"{host}.pem"
                path.touch(mode=0o600)
                path.write_text(signed.certificate + signed.key)
                self._contexts[host] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                self._contexts[host].load_cert_chain(path)
            return self._contexts[host]

    def _add_to_repositories(self, charts: list[tuple[Chart, Path]]) -> None:
        for chart, archive in charts:
            data = archive.read_bytes()
            entry = {
                "apiVersion": "v2",
                "name": chart.chart,
                "version": chart.version,
                "urls": [f"{chart.repository}/{archive.name}"],
                "digest": hashlib.sha256(data).hexdigest(),
            }
            index = {"apiVersion": "v1", "entries": {chart.chart: [entry]}}
            self.pages[f"{chart.repository}/index.yaml"] = "text/yaml", _yaml(index)
            self.pages[f"{chart.repository}/{archive.name}"] = "application/gzip", data

    def _add_to_registry(self, chart: Chart, archive: Path) -> None:
        data = archive.read_bytes()
        config = json.dumps({"name": name_of(chart), "version": chart.version}).encode()
        manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": _MANIFEST,
                "config": _descriptor(_CONFIG, config),
                "layers": [_descriptor(_LAYER, data)],
            }
        ).encode()
        parts = urlsplit(chart.chart)
        root = f"https://{parts.netloc}/v2{parts.path}"
        for tag in (chart.version, _digest(manifest)):
            self.pages[f"{root}/manifests/{tag}"] = _MANIFEST, manifest
        for blob in (config, data):
            self.pages[f"{root}/blobs/{_digest(blob)}"] = "application/octet-stream", blob


@contextmanager
def serve_chart_registries(folder: Path) -> Iterator[dict[str, str]]:
    """Serve charts for the duration of the block; yield the environment for helm."""
    charts = ChartRegistries(folder)

    class Handler(_Proxy):
        registries = charts

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield charts.environment(server.server_port)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Proxy(BaseHTTPRequestHandler):
    """HTTPS proxy that serves every host itself instead of connecting to it."""

    protocol_version = "HTTP/1.1"
    registries: ChartRegistries
    _host = ""

    def do_CONNECT(self) -> None:
        self._host = self.path.partition(":")[0]
        self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        self.connection = self.registries.context(self._host).wrap_socket(self.connection, server_side=True)
        self.rfile = self.connection.makefile("rb", -1)
        self.wfile = self.connection.makefile("wb", 0)  # type: ignore[assignment]
        self.close_connection = False

    def finish(self) -> None:
        super().finish()
        self.connection.close()

    def do_GET(self) -> None:
        address = f"https://{self._host}{self.path}"
        kind, data = self.registries.pages.get(address, ("", b""))
        self.send_response(200 if kind else 404)
        for name, value in self._response_headers(kind, data).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _response_headers(self, kind: str, data: bytes) -> Mapping[str, str]:
        headers = {"Content-Length": str(len(data)), "Docker-Content-Digest": _digest(data)}
        return {**headers, "Content-Type": kind} if kind else {"Content-Length": "0"}

    def log_message(self, *_: Any) -> None:
        """Log nothing."""


def _descriptor(kind: str, data: bytes) -> dict[str, Any]:
    return {"mediaType": kind, "digest": _digest(data), "size": len(data)}


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _yaml(value: Any) -> bytes:
    return yaml.safe_dump(value).encode()
