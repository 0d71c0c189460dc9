"""The image of deploy/Dockerfile, built on a Debian base and run as in the chart.

`scripts/image` builds it with buildah. The tests take the part of the container runtime:
its root file system, read-only, with the user and environment of the chart and the files that
a kubelet mounts.
"""

import json
import os
import re
import subprocess
import sys
from base64 import b64decode
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from referencing import Registry, Resource

from tests.live.chart_pod import Kubelet, Pod, aws_environment, create_account, workload
from tests.live.cluster import wait_for
from tests.live.control_plane import ControlPlane
from tests.support.helm.charts import (
    CHART,
    CRDS,
    NAMESPACE,
    RELEASE,
    REQUIRED_VALUES,
    helm,
    merged,
    only,
    rendered,
)
from tests.support.moto.server import moto_aws

ROOT = Path(__file__).parents[2]
_CANNOT_BUILD = 3
"""Exit code of scripts/image on a host without the tools."""
_START = (
    'mount --bind "$0" "$0" && mount -t proc proc "$0/proc" && mount --bind /dev "$0/dev"'
    ' && mount -o remount,bind,ro "$0" && user=$1 && shift'
    ' && exec setpriv --no-new-privs chroot --userspec="$user" --groups="${user#*:}" "$0" "$@"'
)
"""Shell command that starts a program in a root file system: folder, user:group, program, arguments."""
_FACTS = """
import json, os
status = dict(line.split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
print(json.dumps({
    "user": [os.getuid(), os.getgid()],
    "read_only": bool(os.statvfs("/").f_flag & os.ST_RDONLY),
    "capabilities": int(status["CapEff"], 16),
    "privileges": status["NoNewPrivs"].strip(),
}))
"""


class Image:
    """An unpacked image."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "rootfs"
        self.config: dict[str, Any] = json.loads((folder / "config.json").read_text())

    def program(self, *program: str) -> list[str]:
        """Return a command that runs a program of the image as the chart's user."""
        (container,) = only(rendered(), "Deployment")["spec"]["template"]["spec"]["containers"]
        security = container["securityContext"]
        user = f"{security['runAsUser']}:{security['runAsGroup']}"
        start = ["unshare", "--mount", "--propagation", "private", "sh", "-c", _START]
        return [*start, str(self.root), user, *program]

    def run(self, *program: str) -> str:
        done = subprocess.run(
            self.program(*program), capture_output=True, text=True, check=False, env=self.environment
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    @property
    def environment(self) -> dict[str, str]:
        """Return the image's variables, with the PATH for the programs that start it."""
        return dict(entry.split("=", 1) for entry in self.config["Env"]) | {"PATH": os.environ["PATH"]}

    def files(self) -> Iterator[Path]:
        yield from (path for path in self.root.rglob("*") if path.is_file() and not path.is_symlink())


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    folder = tmp_path_factory.mktemp("image")
    done = subprocess.run(
        [ROOT / "scripts" / "image", folder],
        env={**os.environ, "PYTHON": getattr(sys, "_base_executable", sys.executable)},
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode == _CANNOT_BUILD:
        pytest.skip(f"the image was not built: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    return Image(folder)


@pytest.fixture
def pod(image: Image, control_plane: ControlPlane) -> Iterator[Pod]:
    """The controller in the image, with the chart's service account as the kubelet mounts it."""
    options = ("--kubeconfig", control_plane.kubeconfig, "--namespace", NAMESPACE)
    helm("install", "dovetail-crd", CRDS, *options)
    helm("install", RELEASE, CHART, *options, values=merged(REQUIRED_VALUES, {"replicas": 0}))
    _mount_service_account(image, control_plane)
    host, port = control_plane.url.removeprefix("https://").split(":")
    api_server = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
    with moto_aws() as moto:
        create_account(moto)
        environment = image.environment | api_server | aws_environment(moto)
        pod = Pod(image.program(*image.config["Entrypoint"]), environment)
        yield pod
        pod.stop()
        # Shown if a test failed.
        print(*pod.lines, sep="\n")  # noqa: T201


def _mount_service_account(image: Image, cluster: ControlPlane) -> None:
    folder = image.root / "var" / "run" / "secrets" / "kubernetes.io" / "serviceaccount"
    folder.mkdir(parents=True)
    token = cluster.kubectl("create", "token", RELEASE, "-n", NAMESPACE, "--duration=8h")
    files = {"token": token.strip(), "ca.crt": b64decode(cluster.authority).decode(), "namespace": NAMESPACE}
    group = only(rendered(), "Deployment")["spec"]["template"]["spec"]["securityContext"]["fsGroup"]
    for name, text in files.items():
        path = folder / name
        path.write_text(text)
        path.chmod(0o640)
        os.chown(path, 0, group)


def test_it_has_no_shell_no_package_manager_and_no_program_but_python_and_dovetail(image: Image) -> None:
    programs = {
        path.relative_to(image.root).as_posix()
        for path in image.files()
        if os.access(path, os.X_OK) and path.parent.name in ("bin", "sbin")
    }

    assert {Path(name).name for name in programs} == {"dovetail", "python3.11"}
    assert not {path.name for path in image.files()} & {"sh", "bash", "busybox", "dpkg", "apt"}
    assert not [path for path in image.root.rglob("*") if path.name in ("pip", "ensurepip")]


def test_it_runs_as_the_charts_user_who_owns_and_may_write_nothing(image: Image) -> None:
    facts = json.loads(image.run("/opt/dovetail/bin/python", "-c", _FACTS))

    assert image.config["User"] == "65532:65532"
    assert facts == {"user": [65532, 65532], "read_only": True, "capabilities": 0, "privileges": "1"}
    assert not [path for path in image.files() if path.stat().st_uid != 0 or path.stat().st_mode & 0o022]


def test_its_python_has_the_compiled_kernel_and_certificate_authorities(image: Image) -> None:
    code = (
        "import ssl; from dovetail.core.scheduling.fleet import _kernel;"
        "print(len(ssl.create_default_context().get_ca_certs()))"
    )

    assert int(image.run("/opt/dovetail/bin/python", "-c", code)) >= 0
    listed = [path for path in (image.root / "etc" / "ssl" / "certs").glob("*.0") if path.is_file()]
    assert len(listed) > 50


def test_its_bill_of_materials_lists_every_pinned_package_and_library(image: Image) -> None:
    document = json.loads((image.root / "usr/share/sbom/dovetail.cdx.json").read_text())
    components = {component["purl"]: component for component in document["components"]}

    pinned = re.findall(
        r"^([a-z0-9.-]+)==(\S+)(.*)", (ROOT / "requirements" / "run.txt").read_text(), re.MULTILINE
    )
    expected = {f"pkg:pypi/{name}@{version}" for name, version, marker in pinned if ";" not in marker}
    assert expected <= components.keys()
    assert all(components[purl]["hashes"] for purl in expected)
    assert {"libc6", "libssl3", "ca-certificates"} <= {
        component["name"] for component in document["components"]
    }
    assert document["metadata"]["component"]["name"] == "dovetail"
    _cyclonedx_validator().validate(document)


def _cyclonedx_validator() -> jsonschema.Draft7Validator:
    schemas = {
        file.name: json.loads(file.read_text())
        for file in resources.files("cyclonedx.schema._res").iterdir()
        if file.name.endswith(".schema.json")
    }
    known = [
        (schema["$id"], Resource.from_contents(schema)) for schema in schemas.values() if "$id" in schema
    ]
    registry = Registry().with_resources(known)
    return jsonschema.Draft7Validator(schemas["bom-1.5.SNAPSHOT.schema.json"], registry=registry)


def test_it_launches_a_node_on_a_control_plane_and_stops_on_sigterm(
    control_plane: ControlPlane, pod: Pod
) -> None:
    kubelet = Kubelet(control_plane)

    def pod_has_a_node() -> bool:
        kubelet.join()
        return all(
            each["spec"].get("nodeName")
            for each in control_plane.read("pods", "-l", "app=web") or [{"spec": {}}]
        )

    wait_for("the controller is ready", pod.is_ready, seconds=120)
    control_plane.apply(*workload())
    wait_for("the pod has a node", pod_has_a_node, seconds=120)

    assert pod.stop() == 0
    lines = [json.dumps(line).lower() for line in pod.lines]
    assert not [line for line in lines if re.search("forbidden|permission denied|read-only", line)]
    lease = control_plane.read("lease", "karpenter-leader-election", "-n", NAMESPACE)
    assert lease["spec"]["holderIdentity"] == ""
