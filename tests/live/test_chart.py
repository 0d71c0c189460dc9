"""The charts on a real control plane: installed, upgraded, taken away, and what they allow."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from dovetail.host.clock import RealClock
from dovetail.host.event_loop import AsyncioLoop
from dovetail.host.randomness import RealChance
from dovetail.kube.auth.kubeconfig import Access, from_kubeconfig
from dovetail.kube.client import HttpKube
from dovetail.kube.connection import Connection
from dovetail.kube.leaderelection.elector import Elector, Place
from dovetail.kube.preflight import check_alone, check_kinds, kubernetes_version
from dovetail.kube.rate_limit import RateLimit
from dovetail.kube.reflector import Feed
from dovetail.model.settings import Gates
from dovetail.ports.api_resources import (
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
from dovetail.ports.kube_client import Kube
from dovetail.ports.kube_errors import Forbidden
from dovetail.state.cluster.cache import Mirror
from tests.live.cluster import wait_for
from tests.live.plane import ControlPlane
from tests.support.boxes import a_node_class, a_pool
from tests.support.charts import CHART, CRDS, NAMESPACE, NEEDED, RELEASE, helm, merged, rendered
from tests.support.noting import NotingKube
from tests.support.permissions import Permission, asked_for, granted
from tests.support.telling import KeptLog

LEASE = "karpenter-leader-election"
NEVER = (
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


class Installed:
    """A release in a cluster."""

    def __init__(self, cluster: ControlPlane) -> None:
        self.cluster = cluster

    def helm(self, *arguments: str | Path, values: dict[str, Any] | None = None) -> str:
        options = ("--kubeconfig", self.cluster.kubeconfig, "--namespace", NAMESPACE)
        return helm(*arguments, *options, values=values)

    def objects(self) -> set[tuple[str, str]]:
        """What is there and says that it belongs to the release."""
        kinds = (
            "deployments,services,serviceaccounts,poddisruptionbudgets,roles,rolebindings,"
            "clusterroles,clusterrolebindings,configmaps,secrets"
        )
        owned = f"app.kubernetes.io/instance={RELEASE}"
        return {
            (one["kind"], one["metadata"]["name"])
            for one in self.cluster.read(kinds, "-A", "-l", owned)
        }

    def definition(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.read("crd", name)
        return found


@pytest.fixture(scope="module")
def installed(control_plane: ControlPlane) -> Installed:
    """Both charts, as the guide says."""
    here = Installed(control_plane)
    here.helm("install", "dovetail-crd", CRDS)
    here.helm("install", RELEASE, CHART, values=NEEDED)
    control_plane.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    return here


def test_everything_that_the_chart_says_is_accepted_and_pods_are_made(
    installed: Installed,
) -> None:
    said = {(one["kind"], one["metadata"]["name"]) for one in rendered()}

    assert installed.objects() == said

    def pods() -> list[str]:
        owned = f"app.kubernetes.io/instance={RELEASE}"
        found = installed.cluster.read("pods", "-n", NAMESPACE, "-l", owned)
        return [one["spec"]["priorityClassName"] for one in found]

    wait_for("two pods are made", lambda: pods() == ["system-cluster-critical"] * 2)


def test_its_namespace_may_enforce_the_strictest_standard_of_pods(installed: Installed) -> None:
    """As far as the pod itself goes: the API server judges it in a namespace of that kind."""
    cluster = installed.cluster
    cluster.kubectl("create", "namespace", "strict")
    strictest = "pod-security.kubernetes.io/enforce=restricted"
    cluster.kubectl("label", "namespace", "strict", strictest)
    (deployment,) = [one for one in rendered() if one["kind"] == "Deployment"]
    template = deployment["spec"]["template"]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "judged", "namespace": "strict"},
        "spec": {**template["spec"], "serviceAccountName": "default"},
    }

    wait_for(
        "the namespace has its account",
        lambda: cluster.try_kubectl("get", "sa", "default", "-n", "strict").returncode == 0,
    )
    cluster.apply(pod)


def test_an_upgrade_brings_new_values_and_new_definitions(
    installed: Installed, tmp_path: Path
) -> None:
    name = "nodepools.karpenter.sh"
    wanted = installed.definition(name)["spec"]["versions"][0]["additionalPrinterColumns"]
    older = tmp_path / "dovetail-crd"
    shutil.copytree(CRDS, older)
    file = older / "templates" / "karpenter.sh_nodepools.yaml"
    old = yaml.safe_load(file.read_text())
    old["spec"]["versions"][0]["additionalPrinterColumns"] = wanted[:1]
    file.write_text(yaml.safe_dump(old))
    installed.helm("upgrade", "dovetail-crd", older)
    before = installed.definition(name)["spec"]["versions"][0]["additionalPrinterColumns"]

    installed.helm("upgrade", "dovetail-crd", CRDS)
    installed.helm("upgrade", RELEASE, CHART, values=merged(NEEDED, {"logLevel": "debug"}))

    assert before == wanted[:1]
    after = installed.definition(name)["spec"]["versions"][0]["additionalPrinterColumns"]
    assert after == wanted
    deployment = installed.cluster.read("deployment", RELEASE, "-n", NAMESPACE)
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert {"name": "LOG_LEVEL", "value": "debug"} in container["env"]


@pytest.fixture
def account(installed: Installed) -> Path:
    """A kubeconfig with a token of the chart's account."""
    return installed.cluster.kubeconfig_for_account(RELEASE, NAMESPACE)


def access_of(kubeconfig: Path) -> Access:
    return from_kubeconfig([kubeconfig], environ={}, clock=RealClock())


@asynccontextmanager
async def connected(access: Access) -> AsyncIterator[Connection]:
    clock = asyncio.get_running_loop().time
    limit = RateLimit(clock=clock, qps=1000, burst=1000)
    connection = Connection(access, limit=limit, agent="test")
    try:
        yield connection
    finally:
        await connection.close()
        # Connections under TLS say goodbye before they are gone.
        await asyncio.sleep(0.25)


def test_the_controllers_account_can_do_all_that_controllers_do(
    installed: Installed, account: Path
) -> None:
    """Each thing is really done, once, through the production client."""
    _prepare(installed.cluster)
    done: set[Permission] = set()

    asyncio.run(_everything(access_of(account), done))

    usual = granted(
        rule
        for role in rendered()
        if role["kind"] in ("Role", "ClusterRole") and "rules" in role
        if not role["metadata"]["name"].endswith("-admin")
        for rule in role["rules"]
    )
    assert done == asked_for() & usual


def _prepare(cluster: ControlPlane) -> None:
    container = {
        "name": "main",
        "image": "pause",
        "securityContext": {"allowPrivilegeEscalation": False},
    }
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
        }
        for name in ("evicted", "deleted")
    ]
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "bought"}}
    dns = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system"},
        "spec": {"ports": [{"port": 53, "protocol": "UDP"}]},
    }
    cluster.apply(a_node_class(), a_pool(), node, dns, *pods)


async def _everything(access: Access, done: set[Permission]) -> None:
    loop, log = AsyncioLoop(), KeptLog()
    async with connected(access) as connection:
        kube = NotingKube(HttpKube(connection), done)
        await kubernetes_version(connection)
        await check_kinds(connection)
        await check_alone(kube, now=loop.now(), log=log)
        assert [one.message for one in log.lines] == []
        await _lead(kube, loop, log)
        mirror = Mirror(Gates())
        feed = Feed(mirror, connection, loop=loop, chance=RealChance(), log=log)
        await feed.start()
        assert mirror.synced()
        await _write(kube, evicted=await _uid(HttpKube(connection), "evicted"))
        # The watches are open, too: they told of what was written.
        async with asyncio.timeout(30):
            while mirror.claim("made") is None or mirror.node("bought") is not None:
                await asyncio.sleep(0.05)
        await kube.delete(NODE_CLAIMS, "made")
        await loop.stop()
    assert [one for one in log.lines if one.message == "watch interrupted"] == []


async def _lead(kube: Kube, loop: AsyncioLoop, log: KeptLog) -> None:
    elector = Elector(
        kube,
        Place(LEASE, NAMESPACE),
        me="somebody_dovetail-test",
        clock=asyncio.get_running_loop().time,
        loop=loop,
        chance=RealChance(),
        log=log,
    )
    async with asyncio.timeout(30):
        await elector.win()
    await elector.give_up()
    log.lines.clear()


async def _write(kube: Kube, *, evicted: str) -> None:
    marked = {"metadata": {"annotations": {"test": "done"}}}
    said = {"status": {"conditions": []}}
    reference = a_pool()["spec"]["template"]["spec"]["nodeClassRef"]
    claim = {"metadata": {"name": "made"}, "spec": {"nodeClassRef": reference, "requirements": []}}
    await kube.create(NODE_CLAIMS, claim)
    for resource, name in (
        (NODE_CLAIMS, "made"),
        (NODE_POOLS, "default"),
        (EC2_NODE_CLASSES, "default"),
    ):
        await kube.patch(resource, name, marked)
        await kube.patch(resource, name, said, subresource="status")
    await kube.get(SERVICES, "kube-dns", "kube-system")
    await kube.get(NODES, "bought")
    await kube.patch(NODES, "bought", marked)
    await kube.delete(NODES, "bought")
    meant = {"status": {"nominatedNodeName": "bought"}}
    await kube.patch(PODS, "deleted", meant, "default", subresource="status")
    await kube.evict("evicted", "default", uid=evicted)
    await kube.delete(PODS, "deleted", "default", grace_seconds=0)
    event = {
        "metadata": {"name": "told.1"},
        "involvedObject": {"kind": "Node", "name": "bought"},
        "reason": "Test",
        "message": "done",
        "type": "Normal",
        "source": {"component": "karpenter"},
    }
    await kube.create(EVENTS, event, "default")


async def _uid(kube: Kube, pod: str) -> str:
    """Find a pod the way the mirror does: single ones may not be asked for."""
    (found,) = await kube.list(PODS, fields=f"metadata.name={pod}")
    return str(found["metadata"]["uid"])


@pytest.mark.parametrize(("verb", "what"), NEVER, ids=lambda one: str(one))
def test_the_controllers_account_cannot(
    installed: Installed, account: Path, verb: str, what: str
) -> None:
    asked = installed.cluster.try_kubectl(
        "auth", "can-i", verb, *what.split(), "--all-namespaces", kubeconfig=account
    )

    assert asked.stdout.strip() == "no", asked


def test_what_is_forbidden_is_refused_to_the_client_itself(account: Path) -> None:
    async def story() -> None:
        async with connected(access_of(account)) as connection:
            kube = HttpKube(connection)
            with pytest.raises(Forbidden):
                await kube.list(SECRETS)
            with pytest.raises(Forbidden):
                await kube.patch(DEPLOYMENTS, RELEASE, {"spec": {"replicas": 0}}, NAMESPACE)
            with pytest.raises(Forbidden):
                await kube.get(SERVICES, "kubernetes", "default")

    asyncio.run(story())


def test_uninstalling_leaves_the_definitions_the_lease_and_nothing_else(
    installed: Installed,
) -> None:
    installed.helm("uninstall", RELEASE)
    installed.helm("uninstall", "dovetail-crd")

    assert installed.objects() == set()
    assert installed.helm("list", "-o", "yaml").strip() in ("", "[]")
    # NodePools are the user's: whoever does not want them any more deletes the definitions.
    assert installed.definition("nodepools.karpenter.sh")["metadata"]["name"]
    assert installed.cluster.read("nodepool", "default")["metadata"]["name"] == "default"
    assert installed.cluster.read("lease", LEASE, "-n", NAMESPACE)["spec"]["holderIdentity"] == ""


def test_after_that_it_can_be_installed_again(installed: Installed) -> None:
    installed.helm("install", "dovetail-crd", CRDS)
    installed.helm("install", RELEASE, CHART, values=NEEDED)

    assert ("Deployment", RELEASE) in installed.objects()
