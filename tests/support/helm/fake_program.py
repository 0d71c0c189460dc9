"""A fake helm program: stores releases, without the objects of charts."""

import gzip
import json
import ssl
import sys
from base64 import b64decode, b64encode
from http.client import HTTPSConnection
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml


def main(arguments: list[str]) -> int:
    """Run ``upgrade --install NAME CHART …`` or ``uninstall NAME …``."""
    options = dict(pairwise(arguments))
    config = json.loads(Path(options["--kubeconfig"]).read_text())
    namespace = options["--namespace"]
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    if arguments[0] == "uninstall":
        name = arguments[1]
        _request(config, "DELETE", f"{secrets}/{_secret(name)}")
        return 0
    name, chart = arguments[2], arguments[3]
    if not Path(chart).is_dir() and "--version" not in options:
        sys.stderr.write(f"Error: path {chart} not found\n")
        return 1
    revision = {
        "name": name,
        "namespace": namespace,
        "version": 1,
        "config": yaml.safe_load(Path(options["--values"]).read_text()),
        "manifest": f"---\n# Source: {name}\nkind: ServiceAccount\nmetadata:\n  name: {name}\n---\n",
        "info": {"status": "deployed", "description": options["--description"]},
        "chart": {
            "metadata": {"name": chart.rpartition("/")[2], "version": options.get("--version", "0.1.0")}
        },
    }
    text = b64encode(b64encode(gzip.compress(json.dumps(revision).encode()))).decode()
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": _secret(name), "labels": {"owner": "helm"}},
        "type": "helm.sh/release.v1",
        "data": {"release": text},
    }
    _request(config, "POST", "/api/v1/namespaces", {"metadata": {"name": namespace}})
    _request(config, "DELETE", f"{secrets}/{_secret(name)}")
    return 0 if _request(config, "POST", secrets, secret) < 300 else 1


def _request(config: dict[str, Any], method: str, path: str, body: Any = None) -> int:
    cluster = config["clusters"][0]["cluster"]
    authority = b64decode(cluster["certificate-authority-data"]).decode()
    connection = HTTPSConnection(
        cluster["server"].removeprefix("https://"), context=ssl.create_default_context(cadata=authority)
    )
    token = config["users"][0]["user"]["token"]
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    connection.request(method, path, json.dumps(body) if body else None, headers)
    status = connection.getresponse().status
    connection.close()
    return status


def _secret(release: str) -> str:
    return f"sh.helm.release.v1.{release}.v1"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
