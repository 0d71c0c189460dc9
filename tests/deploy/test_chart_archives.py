"""`make charts`: charts as archives, pushed to an OCI registry and pulled from it."""

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError

import pytest
import yaml

from tests.live.cluster import wait_for
from tests.live.control_plane import free_ports
from tests.support.debian_package import debian_program
from tests.support.helm.binary import helm_binary
from tests.support.helm.charts import CHART, CRDS, helm

ROOT = Path(__file__).parents[2]
CHART_LAYER = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"

pytestmark = pytest.mark.slow


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """Run an OCI registry on loopback; yield its host and port."""
    program = debian_program("docker-registry", package="docker-registry")
    (port,) = free_ports(1)
    address = f"127.0.0.1:{port}"
    settings = {
        "version": 0.1,
        "log": {"level": "error", "accesslog": {"disabled": True}},
        "storage": {"filesystem": {"rootdirectory": str(folder / "storage")}},
        "http": {"addr": address},
    }
    (folder / "registry.yaml").write_text(yaml.safe_dump(settings))

    def responds() -> bool:
        try:
            return bool(urllib.request.urlopen(f"http://{address}/v2/", timeout=5).status == 200)
        except URLError:
            return False

    with (folder / "registry.log").open("wb") as log:
        process = subprocess.Popen([program, "serve", folder / "registry.yaml"], stdout=log, stderr=log)
    try:
        wait_for("the registry responds", responds, seconds=30)
        yield address
    finally:
        process.terminate()
        process.wait(timeout=20)


def test_charts_are_pushed_to_an_oci_registry_and_pulled_unchanged(tmp_path: Path) -> None:
    with registry(tmp_path) as address:
        make = ["make", "--silent", "charts", f"HELM={helm_binary()}", f"REGISTRY=oci://{address}/charts"]
        options = [f"CHARTS={tmp_path / 'charts'}", "HELM_PUSH=--plain-http"]
        done = subprocess.run([*make, *options], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        manifest = _manifest(address, "charts/dovetail", "0.1.0")
        for chart in (CHART, CRDS):
            reference = f"oci://{address}/charts/{chart.name}"
            helm("pull", reference, "--plain-http", "--version", "0.1.0", "--destination", tmp_path)

    for chart in (CHART, CRDS):
        name = f"{chart.name}-0.1.0.tgz"
        assert (tmp_path / name).read_bytes() == (tmp_path / "charts" / name).read_bytes()
    assert [layer["mediaType"] for layer in manifest["layers"]] == [CHART_LAYER]
    pulled = helm("show", "values", tmp_path / "dovetail-0.1.0.tgz")
    assert pulled.strip() == (CHART / "values.yaml").read_text().strip()


def _manifest(address: str, repository: str, tag: str) -> dict[str, list[dict[str, str]]]:
    request = urllib.request.Request(
        f"http://{address}/v2/{repository}/manifests/{tag}",
        headers={"Accept": "application/vnd.oci.image.manifest.v1+json"},
    )
    with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310 - loopback
        manifest: dict[str, list[dict[str, str]]] = json.load(response)
    return manifest
