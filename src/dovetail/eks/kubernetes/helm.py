"""Helm: releases as it leaves them in the cluster, and the program that makes them."""

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

from dovetail.eks.kubernetes.api import KubeApi, KubeDoor
from dovetail.eks.kubernetes.kubeconfig import kubeconfig_with_token
from dovetail.eks.plan.resource import OWNER_TAG
from dovetail.errors import DovetailError
from dovetail.ports.api_resources import SECRETS

_OWNED: Final = "owner=helm"
_NOTE: Final = "dovetail cluster "
_PATIENCE: Final = "13m"
"""How long pods have to become ready: EKS takes a token for a quarter of an hour, no longer."""
_SAID: Final = 600
"""Characters of what helm says that are shown."""
_MISSING: Final = (
    "helm is not on the PATH, and charts are installed with it (version 3.14 or later); install it "
    "from helm.sh, or render the cluster and install the charts by other means "
    "(dovetail cluster render --format manifests)"
)


def lacking(charts: Iterable[str]) -> list[str]:
    """Say what stands in the way of installing charts, before anything is begun."""
    found = [] if shutil.which("helm") else [_MISSING]
    for chart in charts:
        # With a slash and no scheme it is a directory; else a name in a repository.
        if "/" in chart and "://" not in chart and not Path(chart).is_dir():
            found.append(f"there is no chart at {chart}: say where it is in controller.chart")
    return found


class Release(msgspec.Struct, frozen=True, kw_only=True):
    """A release as it is wanted."""

    name: str
    namespace: str
    chart: str
    """A directory, an oci:// address, or a name in ``repository``."""
    repository: str = ""
    version: str = ""
    values: Mapping[str, Any] = {}
    owner: str = ""
    """The cluster that it is made for: how we know it for ours, also half installed."""


class Installed(msgspec.Struct, frozen=True, kw_only=True):
    """The newest revision of a release in a cluster."""

    name: str
    namespace: str
    chart: str
    version: str
    values: Mapping[str, Any]
    status: str
    owner: str
    """The cluster that it was made for; empty if by others."""


class Helm(Protocol):
    """Makes and removes releases."""

    async def install(self, release: Release) -> None:
        """Install or upgrade; come back when its pods are ready."""

    async def uninstall(self, name: str, namespace: str) -> None:
        """Remove a release; being gone already is success."""


async def installed(api: KubeApi) -> dict[tuple[str, str], Installed]:
    """Return the newest revision of every release, by namespace and name.

    Helm keeps them in Secrets; reading those takes one request, and no helm.
    """
    newest: dict[tuple[str, str], tuple[int, Installed]] = {}
    for secret in await api.kube.list(SECRETS, labels=_OWNED):
        if secret.get("type") != "helm.sh/release.v1":
            continue
        raw = _decoded(secret["data"]["release"])
        key = raw["namespace"], raw["name"]
        revision = int(raw.get("version", 0))
        if key not in newest or newest[key][0] < revision:
            newest[key] = revision, _installed(raw, secret["metadata"].get("labels") or {})
    return {key: found for key, (_, found) in newest.items()}


async def forget_unfinished(api: KubeApi, name: str, namespace: str) -> None:
    """Have helm forget what it began and never ended, because somebody pulled the plug.

    As long as it takes itself for busy with a release, it refuses to touch it.
    """
    for secret in await api.all_of(SECRETS, labels=f"{_OWNED},name={name}", namespace=namespace):
        meta = secret["metadata"]
        if str(meta["labels"].get("status", "")).startswith("pending-"):
            await api.delete(SECRETS, meta["name"], namespace)


class HelmProgram:
    """The ``helm`` on the PATH, told of the cluster by a file that lives for one call."""

    def __init__(self, door: KubeDoor, *, command: str | None = None, wait: bool = True) -> None:
        self._door = door
        self._command = command
        self._wait = wait

    async def install(self, release: Release) -> None:
        source = ["--repo", release.repository] if release.repository else []
        source += ["--version", release.version] if release.version else []
        patience = ["--wait", "--timeout", _PATIENCE] if self._wait else []
        mark = ["--description", f"{_NOTE}{release.owner}"] if release.owner else []
        # What helm did not finish has a description of helm's own, and keeps its labels.
        mark += ["--labels", f"{OWNER_TAG}={release.owner}"] if release.owner else []
        arguments = [
            *("upgrade", "--install", release.name, release.chart),
            *("--namespace", release.namespace, *source, *patience, *mark),
        ]
        await self._run(arguments, values=release.values)

    async def uninstall(self, name: str, namespace: str) -> None:
        patience = ["--wait"] if self._wait else []
        await self._run(
            ["uninstall", name, "--namespace", namespace, "--ignore-not-found", *patience]
        )

    async def _run(self, arguments: list[str], *, values: Mapping[str, Any] | None = None) -> None:
        command = self._command or shutil.which("helm")
        if command is None:
            raise DovetailError(_MISSING)
        where = await self._door.where()
        if where is None:
            raise DovetailError("there is no cluster to install charts in")
        # Helm cannot renew it, so it gets one that nobody has used yet.
        token = await self._door.credentials.token(refused=True)
        config = kubeconfig_with_token(where.endpoint, where.authority, token)
        with TemporaryDirectory() as folder:
            private = Path(folder, "kubeconfig")
            private.touch(mode=0o600)
            private.write_text(json.dumps(config))
            given = ["--kubeconfig", str(private)]
            if values is not None:
                file = Path(folder, "values.yaml")
                file.write_text(yaml.safe_dump(dict(values)))
                given += ["--values", str(file)]
            await _finished([command, *arguments, *given])


async def _finished(line: list[str]) -> None:
    process = await asyncio.create_subprocess_exec(
        *line,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        # A terminal sends Ctrl-C to all that it runs; what is under way shall end well.
        start_new_session=True,
    )
    try:
        out, _ = await process.communicate()
    except asyncio.CancelledError:
        process.terminate()
        await process.wait()
        raise
    if process.returncode:
        said = " ".join(out.decode(errors="replace").split())[-_SAID:]
        what = " ".join(line[1:4])
        raise DovetailError(f"helm {what} ended with {process.returncode}: {said}")


def _decoded(data: str) -> dict[str, Any]:
    # Base64 twice: once by Kubernetes, once by Helm.
    packed = b64decode(b64decode(data))
    whole: dict[str, Any] = json.loads(gzip.decompress(packed))
    return whole


def _installed(raw: Mapping[str, Any], labels: Mapping[str, str]) -> Installed:
    chart = (raw.get("chart") or {}).get("metadata") or {}
    info = raw.get("info") or {}
    return Installed(
        name=raw["name"],
        namespace=raw["namespace"],
        chart=chart.get("name", ""),
        version=chart.get("version", ""),
        values=raw.get("config") or {},
        status=info.get("status", ""),
        owner=labels.get(OWNER_TAG) or _noted(str(info.get("description", ""))),
    )


def _noted(description: str) -> str:
    return description.removeprefix(_NOTE) if description.startswith(_NOTE) else ""
