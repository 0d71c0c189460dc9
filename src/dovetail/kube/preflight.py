"""Whether a cluster is one that we can work in, found out before anything is done."""

from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from dovetail.errors import DovetailError
from dovetail.kube.connection import Connection
from dovetail.kube.leaderelection.elector import OURS
from dovetail.model.settings import Gates
from dovetail.ports.api_resources import DEPLOYMENTS, LEASES
from dovetail.ports.kube_client import Kube
from dovetail.ports.kube_errors import Forbidden, NotFound, Unauthorized
from dovetail.ports.telemetry import Log
from dovetail.state.cluster.decoders import mirrored

OLDEST: Final = (1, 30)
"""The first Kubernetes that has all that we rely on."""
LEASE: Final = "karpenter-leader-election"
_ALIVE: Final = timedelta(minutes=1)
"""A holder renews every few seconds; clocks of machines differ by less than this."""


class Unsuitable(DovetailError):
    """Something about the cluster has to be changed first."""


async def kubernetes_version(connection: Connection) -> str:
    """Return the API server's version (``1.33``); raises what is wrong with it or with us."""
    try:
        told = await connection.ask("GET", "/version")
    except (Unauthorized, Forbidden) as error:
        raise Unsuitable(f"{connection.server} does not accept our credentials: {error}") from error
    except NotFound as error:
        raise Unsuitable(f"{connection.server} is no API server of Kubernetes: {error}") from error
    major, minor = str(told.get("major", "")), str(told.get("minor", "")).rstrip("+")
    if not (major.isdigit() and minor.isdigit()):
        raise Unsuitable(f"{connection.server} does not say which Kubernetes it is")
    if (int(major), int(minor)) < OLDEST:
        needed = ".".join(map(str, OLDEST))
        raise Unsuitable(f"Kubernetes {major}.{minor} is too old; {needed} or newer is needed")
    return f"{major}.{minor}"


async def check_kinds(connection: Connection, gates: Gates = Gates()) -> None:  # noqa: B008 - frozen
    """Raise unless NodePools and the like are known to the API server, as far as we need them."""
    missing = []
    for one in mirrored(gates):
        if not one.custom:
            continue
        try:
            told = await connection.ask("GET", f"/apis/{one.api_version}")
        except NotFound:
            missing.append(one)
            continue
        if all(served.get("name") != one.plural for served in told.get("resources") or ()):
            missing.append(one)
    if missing:
        names = ", ".join(f"{one.qualified} ({one.version})" for one in missing)
        raise Unsuitable(
            f"the API server does not know {names}; install the CustomResourceDefinitions first: "
            "dovetail crds | kubectl apply -f -"
        )


async def check_alone(kube: Kube, *, now: datetime, log: Log) -> None:
    """Raise when Karpenter runs in the cluster: two of a kind would undo each other's work."""
    try:
        for lease in await kube.list(LEASES, fields=f"metadata.name={LEASE}"):
            holder = _holder(lease, now)
            if holder:
                raise Unsuitable(_rival(f"{holder} holds the lease", lease))
        for one in await kube.list(DEPLOYMENTS, labels="app.kubernetes.io/name=karpenter"):
            if _is_karpenter(one) and (one.get("status") or {}).get("readyReplicas"):
                raise Unsuitable(_rival("Deployment", one))
    except Forbidden as error:
        log.info("cannot tell whether karpenter runs in this cluster", error=str(error))


def _rival(what: str, obj: dict[str, Any]) -> str:
    meta = obj["metadata"]
    return (
        f"Karpenter runs in this cluster ({what} {meta.get('namespace', '')}/{meta['name']}) and "
        "would work against us; scale it to zero first"
    )


def _holder(lease: dict[str, Any], now: datetime) -> str:
    """Return who holds a lease, unless it has been silent for too long to be alive."""
    spec = lease.get("spec") or {}
    try:
        renewed = msgspec.convert(spec.get("renewTime"), datetime)
    except msgspec.ValidationError:
        return ""
    holder = str(spec.get("holderIdentity") or "")
    if OURS in holder:
        return ""  # A replica of ours; which of us works is decided by the lease itself.
    held = max(_ALIVE, timedelta(seconds=spec.get("leaseDurationSeconds") or 0))
    return holder if now - renewed < held else ""


def _is_karpenter(deployment: dict[str, Any]) -> bool:
    containers = deployment["spec"]["template"]["spec"].get("containers") or ()
    return any("karpenter/controller" in str(one.get("image")) for one in containers)
