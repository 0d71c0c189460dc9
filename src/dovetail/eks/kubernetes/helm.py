"""Helm: releases read from the cluster, and the helm program that installs them."""

import asyncio
import gzip
import json
import shutil
from base64 import b64decode
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Protocol

import msgspec
import yaml

from dovetail.eks.desired.charts import is_chart_directory
from dovetail.eks.kubernetes.api import ApiAccess, DynamicClient
from dovetail.eks.kubernetes.kubeconfig import kubeconfig_with_token
from dovetail.eks.plan.resource import OWNERSHIP_TAG
from dovetail.errors import DovetailError
from dovetail.ports.api_resources import SECRETS

_RELEASE_SELECTOR: Final = "owner=helm"
_DESCRIPTION_PREFIX: Final = "dovetail cluster "
_TIMEOUT: Final = "13m"
"""For pods to become ready. EKS accepts the token for 15 minutes, and no longer."""
_MAX_OUTPUT: Final = 600
"""Characters of helm's output in an error message; the last ones."""
_HELM_MISSING: Final = (
    "helm is not on the PATH, and is needed to install charts (version 3.14 or later); install it "
    "from helm.sh, or render the cluster and install the charts by other means "
    "(dovetail cluster render --format manifests)"
)


def missing_prerequisites(charts: Iterable[str]) -> list[str]:
    """Return what prevents the installation of charts, before any step starts."""
    problems = [] if shutil.which("helm") else [_HELM_MISSING]
    for chart in charts:
        if is_chart_directory(chart) and not Path(chart).is_dir():
            problems.append(f"there is no chart at {chart}: set its location in controller.chart")
    return problems


class HelmRelease(msgspec.Struct, frozen=True, kw_only=True):
    """A desired release."""

    name: str
    namespace: str
    chart: str
    """A directory, an oci:// address, or a name in ``repository``."""
    repository: str = ""
    version: str = ""
    values: Mapping[str, Any] = {}
    owner: str = ""
    """The cluster that owns it; recorded so that partial installations are found too."""


class InstalledRelease(msgspec.Struct, frozen=True, kw_only=True):
    """The newest revision of a release in the cluster."""

    name: str
    namespace: str
    chart: str
    version: str
    values: Mapping[str, Any]
    status: str
    owner: str
    """The cluster that owns it; empty if it was not installed by us."""
    manifest: str = ""
    """Its objects as helm rendered them: YAML documents."""


class Helm(Protocol):
    """Installs and uninstalls releases."""

    async def install(self, release: HelmRelease) -> None:
        """Install or upgrade a release, and wait until its pods are ready."""

    async def uninstall(self, name: str, namespace: str) -> None:
        """Uninstall a release; not found is success."""


async def list_installed_releases(api: DynamicClient) -> dict[tuple[str, str], InstalledRelease]:
    """Return the newest revision of every release, by namespace and name.

    Helm stores releases in Secrets: reading them takes one request, and no helm.
    """
    newest: dict[tuple[str, str], tuple[int, InstalledRelease]] = {}
    for secret in await api.client.list(SECRETS, labels=_RELEASE_SELECTOR):
        if secret.get("type") != "helm.sh/release.v1":
            continue
        raw = _decode_release(secret["data"]["release"])
        key = raw["namespace"], raw["name"]
        revision = int(raw.get("version", 0))
        if key not in newest or newest[key][0] < revision:
            newest[key] = revision, _installed_release(raw, secret["metadata"].get("labels") or {})
    return {key: release for key, (_, release) in newest.items()}


async def delete_pending_revisions(api: DynamicClient, name: str, namespace: str) -> None:
    """Delete revisions that an interrupted helm left pending.

    Helm refuses to change a release while one of its revisions is pending.
    """
    selector = f"{_RELEASE_SELECTOR},name={name}"
    for secret in await api.list_objects(SECRETS, labels=selector, namespace=namespace):
        metadata = secret["metadata"]
        if str(metadata["labels"].get("status", "")).startswith("pending-"):
            await api.delete(SECRETS, metadata["name"], namespace)


class HelmCli:
    """Runs ``helm`` from the PATH, with a kubeconfig file that exists for one call."""

    def __init__(self, api_access: ApiAccess, *, command: str | None = None, wait: bool = True) -> None:
        self._api_access = api_access
        self._command = command
        self._wait = wait

    async def install(self, release: HelmRelease) -> None:
        source = ["--repo", release.repository] if release.repository else []
        source += ["--version", release.version] if release.version else []
        wait = ["--wait", "--timeout", _TIMEOUT] if self._wait else []
        owner: list[str] = []
        if release.owner:
            # Helm overwrites the description of a failed installation, but keeps its labels.
            owner = ["--description", f"{_DESCRIPTION_PREFIX}{release.owner}"]
            owner += ["--labels", f"{OWNERSHIP_TAG}={release.owner}"]
        arguments = [
            *("upgrade", "--install", release.name, release.chart),
            *("--namespace", release.namespace, *source, *wait, *owner),
        ]
        await self._run(arguments, values=release.values)

    async def uninstall(self, name: str, namespace: str) -> None:
        wait = ["--wait"] if self._wait else []
        await self._run(["uninstall", name, "--namespace", namespace, "--ignore-not-found", *wait])

    async def _run(self, arguments: list[str], *, values: Mapping[str, Any] | None = None) -> None:
        command = self._command or shutil.which("helm")
        if command is None:
            raise DovetailError(_HELM_MISSING)
        endpoint = await self._api_access.endpoint()
        if endpoint is None:
            raise DovetailError("there is no cluster to install charts in")
        # Helm cannot renew the token, so it gets a new one with the full lifetime.
        token = await self._api_access.credentials.token(rejected=True)
        kubeconfig = kubeconfig_with_token(endpoint, token)
        with TemporaryDirectory() as directory:
            kubeconfig_file = Path(directory, "kubeconfig")
            kubeconfig_file.touch(mode=0o600)
            kubeconfig_file.write_text(json.dumps(kubeconfig))
            files = ["--kubeconfig", str(kubeconfig_file)]
            if values is not None:
                values_file = Path(directory, "values.yaml")
                values_file.write_text(yaml.safe_dump(dict(values)))
                files += ["--values", str(values_file)]
            await _run_process([command, *arguments, *files])


async def _run_process(arguments: list[str]) -> None:
    process = await asyncio.create_subprocess_exec(
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        # A terminal sends Ctrl-C to its whole process group; running steps must finish.
        start_new_session=True,
    )
    try:
        output, _ = await process.communicate()
    except asyncio.CancelledError:
        process.terminate()
        await process.wait()
        raise
    if process.returncode:
        text = " ".join(output.decode(errors="replace").split())[-_MAX_OUTPUT:]
        command = " ".join(arguments[1:4])
        raise DovetailError(f"helm {command} failed with exit code {process.returncode}: {text}")


def _decode_release(data: str) -> dict[str, Any]:
    # Base64 twice: once by Kubernetes, once by Helm.
    compressed = b64decode(b64decode(data))
    release: dict[str, Any] = json.loads(gzip.decompress(compressed))
    return release


def _installed_release(raw: Mapping[str, Any], labels: Mapping[str, str]) -> InstalledRelease:
    chart = (raw.get("chart") or {}).get("metadata") or {}
    info = raw.get("info") or {}
    return InstalledRelease(
        name=raw["name"],
        namespace=raw["namespace"],
        chart=chart.get("name", ""),
        version=chart.get("version", ""),
        values=raw.get("config") or {},
        status=info.get("status", ""),
        owner=labels.get(OWNERSHIP_TAG) or _owner_in(str(info.get("description", ""))),
        manifest=raw.get("manifest") or "",
    )


def _owner_in(description: str) -> str:
    if description.startswith(_DESCRIPTION_PREFIX):
        return description.removeprefix(_DESCRIPTION_PREFIX)
    return ""
