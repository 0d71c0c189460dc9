"""A cluster in which we cannot work is said to be one, in one sentence, before anything is done."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest

from dovetail.kube.client import HttpKubeClient
from dovetail.kube.connection import Connection
from dovetail.kube.preflight import PreflightError, check_crds, check_karpenter_absent, kubernetes_version
from dovetail.ports.api_resources import DEPLOYMENTS, LEASES
from dovetail.ports.kube_client import Object
from dovetail.simulator.apiserver.options import PatchType
from tests.kube.api_server import Served, connected, served
from tests.kube.scripted_server import Answer, Script, a_status, played
from tests.simulator.rest.rest_server import NOON
from tests.support.telemetry import RecordedLog


def asked(*answers: Answer, what: Callable[[Connection], Awaitable[Any]]) -> Any:
    async def run() -> Any:
        async with played(Script(*answers)) as access, connected(access) as connection:
            return await what(connection)

    return asyncio.run(run())


def served_to(what: Callable[[HttpKubeClient, Served], Awaitable[None]]) -> None:
    async def run() -> None:
        async with served() as server, connected(server.access) as connection:
            await what(HttpKubeClient(connection), server)

    asyncio.run(run())


@pytest.mark.parametrize(("minor", "version"), [("30", "1.30"), ("33+", "1.33")])
def test_a_recent_kubernetes_version_passes(minor: str, version: str) -> None:
    answer = (200, {"major": "1", "minor": minor})

    assert asked(answer, what=kubernetes_version) == version


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ((200, {"major": "1", "minor": "29"}), r"Kubernetes 1\.29 is too old; 1\.30 or newer"),
        ((200, {"hello": "world"}), "does not return its Kubernetes version"),
        (a_status(401, "Unauthorized"), "rejects our credentials"),
        ((404, "nothing here"), r"http://127\S+ is not a Kubernetes API server: .*404"),
    ],
)
def test_an_unsuitable_server_is_named(answer: Answer, text: str) -> None:
    with pytest.raises(PreflightError, match=text):
        asked(answer, what=kubernetes_version)


def test_missing_crds_are_all_named() -> None:
    pools_only = (200, {"resources": [{"name": "nodepools"}]})
    missing = (404, "404 page not found")

    with pytest.raises(PreflightError) as refused:
        asked(pools_only, pools_only, missing, what=check_crds)

    message = str(refused.value)
    assert "nodeclaims.karpenter.sh (v1), ec2nodeclasses.karpenter.k8s.aws (v1)" in message
    assert "nodepools" not in message


def test_the_simulated_server_passes_preflight() -> None:
    async def work(kube: HttpKubeClient, server: Served) -> None:
        async with connected(server.access) as connection:
            assert await kubernetes_version(connection)
            await check_crds(connection)
        await check_karpenter_absent(kube, now=NOON, log=RecordedLog())

    served_to(work)


@pytest.mark.parametrize(
    ("age", "holder", "is_alive"),
    [(5, "karpenter-1", True), (50, "karpenter-1", True), (90, "karpenter-1", False), (5, "", False)],
)
def test_a_karpenter_lease_counts_while_it_is_renewed(age: int, holder: str, is_alive: bool) -> None:
    renewed = f"{NOON - timedelta(seconds=age):%Y-%m-%dT%H:%M:%S.000000Z}"
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": renewed}

    async def work(kube: HttpKubeClient, server: Served) -> None:
        lease = {"metadata": {"name": "karpenter-leader-election"}, "spec": spec}
        server.api.create(LEASES, lease, "kube-system")
        if not is_alive:
            await check_karpenter_absent(kube, now=NOON, log=RecordedLog())
            return
        with pytest.raises(PreflightError, match="scale it to zero"):
            await check_karpenter_absent(kube, now=NOON, log=RecordedLog())

    served_to(work)


def a_deployment(image: str) -> Object:
    labels = {"app.kubernetes.io/name": "karpenter"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": image}]}}
    spec = {"selector": {"matchLabels": labels}, "template": pod}
    return {"metadata": {"name": "karpenter", "labels": labels}, "spec": spec}


@pytest.mark.parametrize(
    ("image", "ready", "is_rival"),
    [
        ("public.ecr.aws/karpenter/controller:1.8.0", 1, True),
        ("public.ecr.aws/karpenter/controller:1.8.0", 0, False),
        ("example.com/dovetail:1", 1, False),
    ],
)
def test_a_karpenter_deployment_counts_while_it_has_replicas(image: str, ready: int, is_rival: bool) -> None:
    async def work(kube: HttpKubeClient, server: Served) -> None:
        server.api.create(DEPLOYMENTS, a_deployment(image), "kube-system")
        status = {"status": {"replicas": 1, "readyReplicas": ready}}
        server.api.patch(
            DEPLOYMENTS, "karpenter", status, PatchType.MERGE, "kube-system", subresource="status"
        )
        if not is_rival:
            await check_karpenter_absent(kube, now=NOON, log=RecordedLog())
            return
        with pytest.raises(PreflightError, match="Deployment kube-system/karpenter"):
            await check_karpenter_absent(kube, now=NOON, log=RecordedLog())

    served_to(work)


def test_without_permission_the_karpenter_check_is_skipped_and_logged() -> None:
    log = RecordedLog()

    async def look(connection: Connection) -> None:
        await check_karpenter_absent(HttpKubeClient(connection), now=NOON, log=log)

    asked(a_status(403, "Forbidden"), what=look)

    assert log.entries("cannot check whether karpenter runs in this cluster")
