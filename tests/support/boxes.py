"""Whole clusters that are built in a moment: two kinds of machines, one application."""

from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from typing import Any

import msgspec

from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.simulator.cluster import Box
from dovetail.simulator.ec2.latencies import Latencies as CloudLatencies
from dovetail.simulator.kubelet.latencies import Latencies as KubeletLatencies
from dovetail.simulator.scenario.model import Home, Phase, Scale, Scenario

_FEW = ("m5.large", "t3.small")


@cache
def small_catalog() -> Catalog:
    known = bundled_catalog()
    machines = tuple(one for one in known.machines if one.name in _FEW)
    return msgspec.structs.replace(known, machines=machines)


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
    """A NodePool that buys m5.large and gives back what was empty for half a minute."""
    wanted = {
        "karpenter.sh/capacity-type": capacity_type,
        "node.kubernetes.io/instance-type": "m5.large",
    }
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    requirements = [
        {"key": key, "operator": "In", "values": [value]} for key, value in wanted.items()
    ]
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
    """A Deployment of whose pods each needs a node of its own."""
    size = {"requests": {"cpu": "1", "memory": "4Gi"}}
    container = {"name": "main", "image": "app:1", "resources": size}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [container]},
            },
        },
    }


def a_story(
    *phases: Phase, objects: Sequence[dict[str, Any]] | None = None, home: int = 1
) -> Scenario:
    """A scenario in which a node takes eight seconds from the purchase until it is ready."""
    usual = (a_node_class(), a_pool(), an_app())
    return Scenario(
        name="small",
        about="a test",
        home=Home(count=home, instance_type="t3.small") if home else None,
        objects=usual if objects is None else tuple(objects),
        phases=phases,
        cloud=CloudLatencies(start=timedelta(seconds=2), boot=timedelta(seconds=5)),
        kubelet=KubeletLatencies(node_ready=timedelta(seconds=1)),
    )


def a_box(story: Scenario | None = None, **more: Any) -> Box:
    return Box(story or a_story(), catalog=small_catalog(), prices=bundled_prices(), **more)


def wait(box: Box, seconds: float) -> None:
    box.engine.run(until=box.engine.now() + timedelta(seconds=seconds))


def scaled(replicas: int, name: str = "web", namespace: str = "default") -> Scale:
    return Scale(kind="Deployment", name=name, namespace=namespace, replicas=replicas)
