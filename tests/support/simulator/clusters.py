"""Small simulated clusters: two instance types, one application."""

from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from typing import Any

import msgspec

from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.latencies import CloudLatencies, KubeletLatencies
from dovetail.simulator.scenario.model import ManagedNodeGroup, Phase, Scale, Scenario

_FEW = ("m5.large", "t3.small")


@cache
def small_catalog() -> Catalog:
    catalog = bundled_catalog()
    instance_types = tuple(
        instance_type for instance_type in catalog.instance_types if instance_type.name in _FEW
    )
    return msgspec.structs.replace(catalog, instance_types=instance_types)


def a_node_class() -> dict[str, Any]:
    terms = [{"tags": {"karpenter.sh/discovery": "sandbox"}}]
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "role": "nodes",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": terms,
            "securityGroupSelectorTerms": terms,
        },
    }


def a_pool(*, capacity_type: str = "spot", **spec: Any) -> dict[str, Any]:
    """A NodePool of m5.large that deletes nodes empty for half a minute."""
    values = {"karpenter.sh/capacity-type": capacity_type, "node.kubernetes.io/instance-type": "m5.large"}
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    requirements = [{"key": key, "operator": "In", "values": [value]} for key, value in values.items()]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "template": {"spec": {"nodeClassRef": reference, "requirements": requirements}},
            "disruption": {
                "consolidationPolicy": "WhenEmpty",
                "consolidateAfter": "30s",
                "budgets": [{"nodes": "100%"}],
            },
            **spec,
        },
    }


def an_app(name: str = "web", *, replicas: int = 0, namespace: str = "default") -> dict[str, Any]:
    """A Deployment whose pods need a node each."""
    size = {"requests": {"cpu": "1", "memory": "4Gi"}}
    container = {"name": "main", "image": "app:1", "resources": size}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}},
        },
    }


def build_scenario(
    *phases: Phase, objects: Sequence[dict[str, Any]] | None = None, node_group: int = 1
) -> Scenario:
    """A scenario in which a node is ready eight seconds after its launch."""
    usual = (a_node_class(), a_pool(), an_app())
    return Scenario(
        name="small",
        about="a test",
        node_group=ManagedNodeGroup(count=node_group, instance_type="t3.small") if node_group else None,
        objects=usual if objects is None else tuple(objects),
        phases=phases,
        cloud=CloudLatencies(start=timedelta(seconds=2), boot=timedelta(seconds=5)),
        kubelet=KubeletLatencies(node_ready=timedelta(seconds=1)),
    )


def build_cluster(scenario: Scenario | None = None, **more: Any) -> SimulatedCluster:
    return SimulatedCluster(
        scenario or build_scenario(), catalog=small_catalog(), prices=bundled_prices(), **more
    )


def wait(cluster: SimulatedCluster, seconds: float) -> None:
    cluster.clock.run(until=cluster.clock.now() + timedelta(seconds=seconds))


def scaled(replicas: int, name: str = "web", namespace: str = "default") -> Scale:
    return Scale(kind="Deployment", name=name, namespace=namespace, replicas=replicas)
