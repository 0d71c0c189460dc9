"""Preflight checks: Kubernetes version, CRDs, and no running Karpenter."""

from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from dovetail.errors import DovetailError
from dovetail.kube.connection import Connection
from dovetail.kube.leaderelection.elector import IDENTITY_MARK
from dovetail.model.settings import FeatureGates
from dovetail.ports.api_resources import DEPLOYMENTS, LEASES
from dovetail.ports.kube_client import KubeClient
from dovetail.ports.kube_errors import Forbidden, NotFound, Unauthorized
from dovetail.ports.telemetry import Log
from dovetail.state.cluster.decoders import cached_resources

MIN_KUBERNETES_VERSION: Final = (1, 30)
"""First Kubernetes version with all features that we need."""
KARPENTER_LEASE: Final = "karpenter-leader-election"
_LEASE_EXPIRY: Final = timedelta(minutes=1)
"""A holder renews every few seconds; clocks of hosts differ by less than this."""


class PreflightError(DovetailError):
    """The cluster does not meet a precondition."""


async def kubernetes_version(connection: Connection) -> str:
    """Return the version of the API server (``1.33``); raise if it is unusable."""
    try:
        response = await connection.request("GET", "/version")
    except (Unauthorized, Forbidden) as error:
        raise PreflightError(f"{connection.server} rejects our credentials: {error}") from error
    except NotFound as error:
        raise PreflightError(f"{connection.server} is not a Kubernetes API server: {error}") from error
    major, minor = str(response.get("major", "")), str(response.get("minor", "")).rstrip("+")
    if not (major.isdigit() and minor.isdigit()):
        raise PreflightError(f"{connection.server} does not return its Kubernetes version")
    if (int(major), int(minor)) < MIN_KUBERNETES_VERSION:
        needed = ".".join(map(str, MIN_KUBERNETES_VERSION))
        raise PreflightError(f"Kubernetes {major}.{minor} is too old; {needed} or newer is needed")
    return f"{major}.{minor}"


async def check_crds(connection: Connection, gates: FeatureGates = FeatureGates()) -> None:  # noqa: B008 - frozen
    """Raise if a CustomResourceDefinition that we need is missing."""
    missing = []
    for resource in cached_resources(gates):
        if not resource.is_custom:
            continue
        try:
            response = await connection.request("GET", f"/apis/{resource.api_version}")
        except NotFound:
            missing.append(resource)
            continue
        if all(served.get("name") != resource.plural for served in response.get("resources") or ()):
            missing.append(resource)
    if missing:
        names = ", ".join(f"{resource.qualified_name} ({resource.version})" for resource in missing)
        raise PreflightError(
            f"the API server does not serve {names}; install the CustomResourceDefinitions first: "
            "dovetail crds | kubectl apply -f -"
        )


async def check_karpenter_absent(kube: KubeClient, *, now: datetime, log: Log) -> None:
    """Raise if Karpenter runs in the cluster: both would manage the same objects."""
    try:
        for lease in await kube.list(LEASES, fields=f"metadata.name={KARPENTER_LEASE}"):
            holder = _holder(lease, now)
            if holder:
                raise PreflightError(_conflict_message(f"{holder} holds the lease", lease))
        for deployment in await kube.list(DEPLOYMENTS, labels="app.kubernetes.io/name=karpenter"):
            if _is_karpenter(deployment) and (deployment.get("status") or {}).get("readyReplicas"):
                raise PreflightError(_conflict_message("Deployment", deployment))
    except Forbidden as error:
        log.info("cannot check whether karpenter runs in this cluster", error=str(error))


def _conflict_message(subject: str, obj: dict[str, Any]) -> str:
    meta = obj["metadata"]
    return (
        f"Karpenter runs in this cluster ({subject} {meta.get('namespace', '')}/{meta['name']}) and "
        "manages the same objects; scale it to zero first"
    )


def _holder(lease: dict[str, Any], now: datetime) -> str:
    """Return the holder of a lease; empty if the lease has expired."""
    spec = lease.get("spec") or {}
    try:
        renewed = msgspec.convert(spec.get("renewTime"), datetime)
    except msgspec.ValidationError:
        return ""
    holder = str(spec.get("holderIdentity") or "")
    if IDENTITY_MARK in holder:
        return ""  # A replica of ours: leader election decides.
    expiry = max(_LEASE_EXPIRY, timedelta(seconds=spec.get("leaseDurationSeconds") or 0))
    return holder if now - renewed < expiry else ""


def _is_karpenter(deployment: dict[str, Any]) -> bool:
    containers = deployment["spec"]["template"]["spec"].get("containers") or ()
    return any("karpenter/controller" in str(container.get("image")) for container in containers)
