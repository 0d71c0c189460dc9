"""A cluster that ``dovetail cluster apply`` created, with what EKS adds to it.

AWS is moto with a fake EKS. The charts are rendered by helm. Nodes, DaemonSets of
add-ons, pods and the status that controllers write are added here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from functools import partial
from typing import Any

import pytest
import yaml

from dovetail.doctor.api_resources import CRDS, FLOW_SCHEMAS
from dovetail.doctor.facts import Facts
from dovetail.doctor.sources.iam import SPOT_ROLE
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.desired.names import Names
from dovetail.eks.kubernetes.helm import HelmRelease
from dovetail.ports import api_resources as kinds
from dovetail.ports.api_resources import Resource
from dovetail.simulator.apiserver.storage.frozen_object import thaw
from tests.doctor.account import gather_aws
from tests.doctor.cluster import ServedObjects, a_daemon_set, a_deployment, a_node, a_pod, condition
from tests.doctor.conftest import initial_facts
from tests.doctor.server import gather_kubernetes
from tests.support.eks.configs import a_cluster
from tests.support.helm.charts import CHARTS, helm
from tests.support.moto.cluster_account import FakeHelm, TestAccount, an_account

Raw = dict[str, Any]
_ADDON_DAEMON_SETS = {
    "vpc-cni": "aws-node",
    "kube-proxy": "kube-proxy",
    "eks-pod-identity-agent": "eks-pod-identity-agent",
}
"""EKS add-on → its DaemonSet."""
_COPIED = (
    kinds.NODE_POOLS,
    kinds.EC2_NODE_CLASSES,
    kinds.NODES,
    kinds.PODS,
    kinds.DEPLOYMENTS,
    kinds.DAEMON_SETS,
    kinds.SERVICE_ACCOUNTS,
    kinds.POD_DISRUPTION_BUDGETS,
)


def healthy_config(**fields: Any) -> ClusterConfig:
    """Return a file that the doctor has no advice for."""
    pool = {
        "name": "default",
        "capacityTypes": ["spot", "on-demand"],
        "categories": ["c", "m", "r"],
        "limits": {"cpu": 100},
        "consolidateAfter": "5m",
        "budget": "20%",
    }
    node_class = {"name": "default", "image": "al2023@v20260501"}
    return a_cluster(nodePools=[pool], nodeClasses=[node_class], **fields)


class RenderingHelm(FakeHelm):
    """Also creates the objects of our own charts, as helm renders them."""

    def __init__(self, account: TestAccount) -> None:
        super().__init__(account.served)
        self.definitions: list[Raw] = []
        self._account = account

    async def install(self, release: HelmRelease) -> None:
        await super().install(release)
        folder = CHARTS / release.chart.rpartition("/")[2]
        options = ("template", release.name, folder, "--namespace", release.namespace)
        for obj in yaml.safe_load_all(helm(*options, values=dict(release.values))):
            self._create(obj, release)

    def _create(self, obj: Raw | None, release: HelmRelease) -> None:
        if obj is None:
            return
        if obj["kind"] == CRDS.kind:
            owner = {
                "meta.helm.sh/release-name": release.name,
                "meta.helm.sh/release-namespace": release.namespace,
            }
            annotations = {**(obj["metadata"].get("annotations") or {}), **owner}
            meta = {**obj["metadata"], "annotations": annotations}
            self.definitions.append({**obj, "metadata": meta, "status": {"storedVersions": ["v1"]}})
        served = self._account.served
        for kind in (kind for kind in _COPIED if kind.kind == obj["kind"]):
            served.call(partial(served.api.create, kind, obj, release.namespace))


class AppliedCluster(ServedObjects):
    """Objects of the applied cluster; each test gets its own copy to break."""

    def __init__(self, config: ClusterConfig, objects: dict[Resource, list[Raw]]) -> None:
        super().__init__()
        self.config, self.names = config, Names.from_config(config)
        for kind, copies in deepcopy(objects).items():
            for obj in copies:
                if kind in self.extra_objects:
                    self.extra_objects[kind].append(obj)
                else:
                    self.put(kind, obj)


class AppliedAccount:
    """An account with an applied cluster; tests break and repair its AWS resources."""

    def __init__(self, account: TestAccount, config: ClusterConfig) -> None:
        self.account, self.config, self.names = account, config, Names.from_config(config)
        self.ec2, self.iam = account.client("ec2"), account.client("iam")
        self.eks, self.sqs, self.events = (account.client(name) for name in ("eks", "sqs", "events"))
        account.helm = self._helm = RenderingHelm(account)
        self.iam.create_role(RoleName=SPOT_ROLE, AssumeRolePolicyDocument="{}")
        # moto knows no capacity reservations.
        account.moto.middleware.responses["DescribeCapacityReservations"] = lambda _: (
            "text/xml",
            b"<Response><capacityReservationSet></capacityReservationSet></Response>",
        )
        result = account.apply(config)
        assert not result.remaining
        self.objects = self._exported()

    def cluster(self) -> AppliedCluster:
        return AppliedCluster(self.config, self.objects)

    async def gather(self, cluster: AppliedCluster) -> Facts:
        """Gather all facts as the command does."""
        facts = await gather_kubernetes(cluster, initial_facts())
        return await gather_aws(facts, self.account.moto, self.account.session)

    def _exported(self) -> dict[Resource, list[Raw]]:
        api = self.account.served.api
        exported: dict[Resource, list[Raw]] = {
            kind: [_plain(thaw(item)) for item in api.list(kind).items] for kind in _COPIED
        }
        (_, parts) = self.account.eks.seen()[self.config.name]
        nodes = [
            a_node(f"{group['nodegroupName']}-{number}")
            for group in parts["node-groups"].values()
            for number in range(group["scalingConfig"]["desiredSize"])
        ]
        exported[kinds.NODES] += nodes
        exported[kinds.DAEMON_SETS] += [
            a_daemon_set(_ADDON_DAEMON_SETS[addon])
            for addon in parts["addons"]
            if addon in _ADDON_DAEMON_SETS
        ]
        exported[kinds.DEPLOYMENTS].append(a_deployment("coredns", "kube-system", {"k8s-app": "kube-dns"}))
        for deployment in exported[kinds.DEPLOYMENTS]:
            exported[kinds.PODS] += _pods(deployment, nodes)
        for kind in (kinds.NODE_POOLS, kinds.EC2_NODE_CLASSES):
            for obj in exported[kind]:
                obj["status"] = {"conditions": [condition("ValidationSucceeded"), condition("Ready")]}
        exported[CRDS] = list(self._helm.definitions)
        exported[FLOW_SCHEMAS] = []
        return exported


def _pods(deployment: Raw, nodes: list[Raw]) -> Iterator[Raw]:
    meta, template = deployment["metadata"], deployment["spec"]["template"]
    names = [node["metadata"]["name"] for node in nodes] or ["fargate"]
    for number in range(deployment["spec"]["replicas"]):
        name = f"{meta['name']}-{number}"
        pod = a_pod(name, meta["namespace"], names[number % len(names)], template["metadata"]["labels"])
        pod["spec"] = {**deepcopy(template["spec"]), "nodeName": pod["spec"]["nodeName"]}
        yield pod


def _plain(obj: Raw) -> Raw:
    """Return an object without the fields that the API server sets."""
    meta = {
        key: value
        for key, value in obj["metadata"].items()
        if key not in ("uid", "resourceVersion", "creationTimestamp", "generation")
    }
    return {**obj, "metadata": meta}


@contextmanager
def applied_account(config: ClusterConfig) -> Iterator[AppliedAccount]:
    """Yield an account in which ``config`` was applied."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOTO_EC2_LOAD_DEFAULT_AMIS", "false")
        with an_account() as account:
            yield AppliedAccount(account, config)
