"""The Helm charts on a real control plane: install, upgrade, uninstall and RBAC."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from dovetail.host.clock import SystemClock
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.host.randomness import SystemRandomSource
from dovetail.kube.auth.kubeconfig import RestConfig, from_kubeconfig
from dovetail.kube.client import HttpKubeClient
from dovetail.kube.connection import Connection
from dovetail.kube.leaderelection.elector import LeaderElector, LeaseRef
from dovetail.kube.preflight import check_crds, check_karpenter_absent, kubernetes_version
from dovetail.kube.rate_limit import RateLimiter
from dovetail.kube.reflector import Reflectors
from dovetail.model.savings import LEDGER_CONFIG_MAP
from dovetail.model.settings import FeatureGates
from dovetail.ports.api_resources import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    EC2_NODE_CLASSES,
    EVENTS,
    NODE_CLAIMS,
    NODE_POOLS,
    NODES,
    PODS,
    SECRETS,
    SERVICES,
)
from dovetail.ports.kube_client import KubeClient
from dovetail.ports.kube_errors import Forbidden
from dovetail.state.cluster.cache import ClusterCache
from tests.live.cluster import wait_for
from tests.live.control_plane import ControlPlane
from tests.support.helm.charts import CHART, CRDS, NAMESPACE, RELEASE, REQUIRED_VALUES, helm, merged, rendered
from tests.support.kube.permission_recorder import PermissionRecorder
from tests.support.kube.permissions import Permission, granted, requested
from tests.support.simulator.clusters import a_node_class, a_pool
from tests.support.telemetry import RecordedLog

LEASE = "karpenter-leader-election"
FORBIDDEN = (
    ("get", "secrets"),
    ("list", "secrets"),
    ("list", "configmaps"),
    ("create", "pods"),
    ("patch", "pods"),
    ("create", "pods --subresource=exec"),
    ("create", "serviceaccounts --subresource=token"),
    ("patch", "deployments.apps"),
    ("delete", "deployments.apps"),
    ("patch", "statefulsets.apps"),
    ("create", "nodes"),
    ("patch", "nodes --subresource=status"),
    ("delete", "nodepools.karpenter.sh"),
    ("create", "nodepools.karpenter.sh"),
    ("delete", "ec2nodeclasses.karpenter.k8s.aws"),
    ("delete", "persistentvolumeclaims"),
    ("create", "clusterrolebindings.rbac.authorization.k8s.io"),
    ("patch", "customresourcedefinitions.apiextensions.k8s.io"),
    ("impersonate", "users"),
)


class HelmRelease:
    """The releases of both charts in a cluster."""

    def __init__(self, cluster: ControlPlane) -> None:
        self.cluster = cluster

    def helm(self, *arguments: str | Path, values: dict[str, Any] | None = None) -> str:
        options = ("--kubeconfig", self.cluster.kubeconfig, "--namespace", NAMESPACE)
        return helm(*arguments, *options, values=values)

    def objects(self) -> set[tuple[str, str]]:
        """Return kind and name of the objects with the release's label."""
        kinds = (
            "deployments,services,serviceaccounts,poddisruptionbudgets,roles,rolebindings,"
            "clusterroles,clusterrolebindings,configmaps,secrets"
        )
        label = f"app.kubernetes.io/instance={RELEASE}"
        return {(obj["kind"], obj["metadata"]["name"]) for obj in self.cluster.read(kinds, "-A", "-l", label)}

    def definition(self, name: str) -> dict[str, Any]:
        definition: dict[str, Any] = self.cluster.read("crd", name)
        return definition


@pytest.fixture(scope="module")
def release(control_plane: ControlPlane) -> HelmRelease:
    """Both charts, installed as in the guide."""
    release = HelmRelease(control_plane)
    release.helm("install", "dovetail-crd", CRDS)
    release.helm("install", RELEASE, CHART, values=REQUIRED_VALUES)
    control_plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    return release


def test_all_rendered_objects_are_accepted_and_pods_are_created(release: HelmRelease) -> None:
    # The pod of `helm test` is created by that command only.
    expected = {
        (obj["kind"], obj["metadata"]["name"])
        for obj in rendered()
        if "helm.sh/hook" not in (obj["metadata"].get("annotations") or {})
    }

    assert release.objects() == expected

    def priority_classes() -> list[str]:
        label = f"app.kubernetes.io/instance={RELEASE}"
        pods = release.cluster.read("pods", "-n", NAMESPACE, "-l", label)
        return [pod["spec"]["priorityClassName"] for pod in pods]

    wait_for("two pods are created", lambda: priority_classes() == ["system-cluster-critical"] * 2)


def test_the_pod_passes_the_restricted_pod_security_standard(release: HelmRelease) -> None:
    """The API server validates the pod in a namespace that enforces the standard."""
    cluster = release.cluster
    cluster.kubectl("create", "namespace", "strict")
    restricted = "pod-security.kubernetes.io/enforce=restricted"
    cluster.kubectl("label", "namespace", "strict", restricted)
    (deployment,) = [obj for obj in rendered() if obj["kind"] == "Deployment"]
    template = deployment["spec"]["template"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "restricted", "namespace": "strict"},
        "spec": {**template["spec"], "serviceAccountName": "default"},
    }

    wait_for(
        "the namespace has its service account",
        lambda: cluster.try_kubectl("get", "sa", "default", "-n", "strict").returncode == 0,
    )
    cluster.apply(pod)


def test_an_upgrade_applies_new_values_and_new_crds(release: HelmRelease, tmp_path: Path) -> None:
    name = "nodepools.karpenter.sh"
    expected = release.definition(name)["spec"]["versions"][0]["additionalPrinterColumns"]
    older = tmp_path / "dovetail-crd"
    shutil.copytree(CRDS, older)
    file = older / "templates" / "karpenter.sh_nodepools.yaml"
    old = yaml.safe_load(file.read_text())
    old["spec"]["versions"][0]["additionalPrinterColumns"] = expected[:1]
    file.write_text(yaml.safe_dump(old))
    release.helm("upgrade", "dovetail-crd", older)
    before = release.definition(name)["spec"]["versions"][0]["additionalPrinterColumns"]

    release.helm("upgrade", "dovetail-crd", CRDS)
    release.helm("upgrade", RELEASE, CHART, values=merged(REQUIRED_VALUES, {"logLevel": "debug"}))

    assert before == expected[:1]
    after = release.definition(name)["spec"]["versions"][0]["additionalPrinterColumns"]
    assert after == expected
    deployment = release.cluster.read("deployment", RELEASE, "-n", NAMESPACE)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert {"name": "LOG_LEVEL", "value": "debug"} in container["env"]


@pytest.fixture
def account(release: HelmRelease) -> Path:
    """A kubeconfig with a token of the chart's service account."""
    return release.cluster.kubeconfig_for_account(RELEASE, NAMESPACE)


def access_of(kubeconfig: Path) -> RestConfig:
    return from_kubeconfig([kubeconfig], environ={}, clock=SystemClock())


@asynccontextmanager
async def connected(access: RestConfig) -> AsyncIterator[Connection]:
    clock = asyncio.get_running_loop().time
    limit = RateLimiter(clock=clock, qps=1000, burst=1000)
    connection = Connection(access, rate_limiter=limit, user_agent="test")
    try:
        yield connection
    finally:
        await connection.close()
        # TLS connections close asynchronously.
        await asyncio.sleep(0.25)


def test_the_service_account_can_make_every_request_of_the_controllers(
    release: HelmRelease, account: Path
) -> None:
    """The production client makes each request once."""
    _create_objects(release.cluster)
    done: set[Permission] = set()

    asyncio.run(_make_all_requests(access_of(account), done))

    default = granted(
        rule
        for role in rendered()
        if role["kind"] in ("Role", "ClusterRole") and "rules" in role
        if not role["metadata"]["name"].endswith(("-admin", "-view"))
        for rule in role["rules"]
    )
    assert done == requested() & default


def _create_objects(cluster: ControlPlane) -> None:
    container = {"name": "main", "image": "pause", "securityContext": {"allowPrivilegeEscalation": False}}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
        }
        for name in ("evicted", "deleted")
    ]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-1"}}
    dns = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {"ports": [{"port": 53, "protocol": "UDP"}]},
    }
    cluster.apply(a_node_class(), a_pool(), node, dns, *pods)


async def _make_all_requests(access: RestConfig, done: set[Permission]) -> None:
    loop, log = AsyncioEventLoop(), RecordedLog()
    async with connected(access) as connection:
        kube = PermissionRecorder(HttpKubeClient(connection), done)
        await kubernetes_version(connection)
        await check_crds(connection)
        await check_karpenter_absent(kube, now=loop.now(), log=log)
        assert [line.message for line in log.lines] == []
        await _lead(kube, loop, log)
        cache = ClusterCache(FeatureGates())
        reflectors = Reflectors(cache, connection, loop=loop, random=SystemRandomSource(), log=log)
        await reflectors.start()
        assert cache.has_synced()
        await _write(kube, evicted=await _uid(HttpKubeClient(connection), "evicted"))
        # The watches are open, too: they deliver the writes.
        async with asyncio.timeout(30):
            while cache.claim("claim-1") is None or cache.node("node-1") is not None:
                await asyncio.sleep(0.05)
        await kube.delete(NODE_CLAIMS, "claim-1")
        await loop.stop()
    interrupted = [line.fields["error"] for line in log.lines if line.message == "watch interrupted"]
    # The API server ends watches of a kind once after its CRD was created.
    assert [error for error in interrupted if "storage is (re)initializing" not in error] == []


async def _lead(kube: KubeClient, loop: AsyncioEventLoop, log: RecordedLog) -> None:
    elector = LeaderElector(
        kube,
        LeaseRef(LEASE, NAMESPACE),
        identity="pod_dovetail-test",
        clock=asyncio.get_running_loop().time,
        loop=loop,
        random=SystemRandomSource(),
        log=log,
    )
    async with asyncio.timeout(30):
        await elector.acquire()
    await elector.release()
    log.lines.clear()


async def _write(kube: KubeClient, *, evicted: str) -> None:
    annotation = {"metadata": {"annotations": {"test": "done"}}}
    status = {"status": {"conditions": []}}
    reference = a_pool()["spec"]["template"]["spec"]["nodeClassRef"]
    claim = {"metadata": {"name": "claim-1"}, "spec": {"nodeClassRef": reference, "requirements": []}}
    await kube.create(NODE_CLAIMS, claim)
    for resource, name in ((NODE_CLAIMS, "claim-1"), (NODE_POOLS, "default"), (EC2_NODE_CLASSES, "default")):
        await kube.patch(resource, name, annotation)
        await kube.patch(resource, name, status, subresource="status")
    await kube.get(SERVICES, "kube-dns", "kube-system")
    await kube.get(CONFIG_MAPS, LEDGER_CONFIG_MAP, NAMESPACE)
    await kube.patch(CONFIG_MAPS, LEDGER_CONFIG_MAP, annotation, NAMESPACE)
    await kube.get(NODES, "node-1")
    await kube.patch(NODES, "node-1", annotation)
    await kube.delete(NODES, "node-1")
    nomination = {"status": {"nominatedNodeName": "node-1"}}
    await kube.patch(PODS, "deleted", nomination, "default", subresource="status")
    await kube.evict("evicted", "default", uid=evicted)
    await kube.delete(PODS, "deleted", "default", grace_seconds=0)
    event = {
        "metadata": {"name": "event.1"},
        "involvedObject": {"kind": "Node", "name": "node-1"},
        "reason": "Test",
        "message": "done",
        "type": "Normal",
        "source": {"component": "karpenter"},
    }
    await kube.create(EVENTS, event, "default")


async def _uid(kube: KubeClient, pod: str) -> str:
    """Return a pod's uid by a list request, as the account must not get single pods."""
    (obj,) = await kube.list(PODS, fields=f"metadata.name={pod}")
    return str(obj["metadata"]["uid"])


@pytest.mark.parametrize(("verb", "what"), FORBIDDEN, ids=str)
def test_the_service_account_has_no_other_permissions(
    release: HelmRelease, account: Path, verb: str, what: str
) -> None:
    result = release.cluster.try_kubectl(
        "auth", "can-i", verb, *what.split(), "--all-namespaces", kubeconfig=account
    )

    assert result.stdout.strip() == "no", result


def test_forbidden_requests_raise_forbidden_in_the_client(account: Path) -> None:
    async def make_requests() -> None:
        async with connected(access_of(account)) as connection:
            kube = HttpKubeClient(connection)
            with pytest.raises(Forbidden):
                await kube.list(SECRETS)
            with pytest.raises(Forbidden):
                await kube.patch(DEPLOYMENTS, RELEASE, {"spec": {"replicas": 0}}, NAMESPACE)
            with pytest.raises(Forbidden):
                await kube.get(SERVICES, "kubernetes", "default")

    asyncio.run(make_requests())


def test_uninstall_keeps_crds_and_lease_and_nothing_else(release: HelmRelease) -> None:
    release.helm("uninstall", RELEASE)
    release.helm("uninstall", "dovetail-crd")

    assert release.objects() == set()
    assert release.helm("list", "-o", "yaml").strip() in ("", "[]")
    # CRDs stay: deleting them would delete the user's NodePools.
    assert release.definition("nodepools.karpenter.sh")["metadata"]["name"]
    assert release.cluster.read("nodepool", "default")["metadata"]["name"] == "default"
    assert release.cluster.read("lease", LEASE, "-n", NAMESPACE)["spec"]["holderIdentity"] == ""


def test_the_chart_can_be_reinstalled_after_uninstall(release: HelmRelease) -> None:
    release.helm("install", "dovetail-crd", CRDS)
    release.helm("install", RELEASE, CHART, values=REQUIRED_VALUES)

    assert ("Deployment", RELEASE) in release.objects()
