"""A metrics API (metrics.k8s.io) in front of which an API server can be put."""

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dovetail.host.clock import SystemClock
from tests.live.certificates import Authority
from tests.live.cluster import Cluster, wait_for

_GROUP, _VERSION = "metrics.k8s.io", "v1beta1"
Usage = Callable[[str], dict[str, str]]
"""Namespace → CPU of each of its running pods, by name of the pod."""


@contextmanager
def serve_metrics(cluster: Cluster, folder: Path, usage: Usage) -> Iterator[None]:
    """Serve the CPU of pods through the API server, as metrics-server does.

    The API server reaches it by a Service of type ExternalName: there is no network for
    addresses of Services.
    """
    server = _start_server(folder, usage)
    name = {"name": "metrics", "namespace": "kube-system"}
    service = {"type": "ExternalName", "externalName": "localhost"}
    spec = {
        "group": _GROUP,
        "version": _VERSION,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
        "insecureSkipTLSVerify": True,
        "service": {**name, "port": server.server_port},
    }
    api = {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"}
    cluster.apply(
        {"apiVersion": "v1", "kind": "Service", "metadata": name, "spec": service},
        {**api, "metadata": {"name": f"{_VERSION}.{_GROUP}"}, "spec": spec},
    )
    try:
        wait_for("the metrics API is available", lambda: _is_available(cluster))
        yield
    finally:
        cluster.try_kubectl("delete", "apiservice", f"{_VERSION}.{_GROUP}")
        server.shutdown()
        server.server_close()


def _is_available(cluster: Cluster) -> bool:
    conditions = cluster.read("apiservice", f"{_VERSION}.{_GROUP}").get("status", {}).get("conditions", ())
    return any(condition["type"] == "Available" and condition["status"] == "True" for condition in conditions)


def _start_server(folder: Path, usage: Usage) -> ThreadingHTTPServer:
    signed = Authority().for_server()
    certificate, key = folder / "metrics.crt", folder / "metrics.key"
    certificate.write_text(signed.certificate)
    key.touch(mode=0o600)
    key.write_text(signed.key)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(usage))
    server.daemon_threads = True
    server.socket = tls.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def _handler(usage: Usage) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = json.dumps(_answer(urlsplit(self.path).path, usage)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    return Handler


def _answer(path: str, usage: Usage) -> dict[str, Any]:
    parts = path.strip("/").split("/")
    if "namespaces" not in parts:
        pods = {"name": "pods", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]}
        return {
            "apiVersion": "v1",
            "kind": "APIResourceList",
            "groupVersion": f"{_GROUP}/{_VERSION}",
            "resources": [{**pods, "singularName": ""}],
        }
    namespace = parts[parts.index("namespaces") + 1]
    now = SystemClock().now().isoformat(timespec="seconds").replace("+00:00", "Z")
    return {
        "apiVersion": f"{_GROUP}/{_VERSION}",
        "kind": "PodMetricsList",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": pod, "namespace": namespace},
                "timestamp": now,
                "window": "1s",
                "containers": [{"name": "main", "usage": {"cpu": cpu, "memory": "100Mi"}}],
            }
            for pod, cpu in usage(namespace).items()
        ],
    }
