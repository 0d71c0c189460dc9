"""Clusters, dumps and previews, and the same changes really made.

The real cluster is a simulated one of its own: it is not made from a dump, has another
seed, and latencies that vary.
"""

import json
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import msgspec

from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.operator.cluster_objects import READ, ClusterObjects
from dovetail.preview.change import Change, apply_change
from dovetail.preview.manifests import ChangedManifests
from dovetail.preview.observation import Observation, measure_state, summarize
from dovetail.preview.observer import Observer
from dovetail.preview.play import play
from dovetail.preview.preview import PreviewOptions, preview_change
from dovetail.preview.report import Preview
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.latencies import CloudLatencies, KubeletLatencies
from dovetail.simulator.scenario.model import ManagedNodeGroup, Scenario
from tests.support.simulator.clusters import a_node_class

DAY = timedelta(hours=24)
Objects = Sequence[dict[str, Any]]


def a_pool(
    name: str = "default", *, requirements: dict[str, list[str]] | None = None, **spec: Any
) -> dict[str, Any]:
    """A NodePool of on-demand and spot m5, m6i and c5 that consolidates after a minute."""
    values = requirements or {
        "karpenter.sh/capacity-type": ["spot"],
        "karpenter.k8s.aws/instance-family": ["m5", "m6i", "c5"],
        "karpenter.k8s.aws/instance-size": ["large", "xlarge"],
    }
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    terms = [{"key": key, "operator": "In", "values": list(allowed)} for key, allowed in values.items()]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"spec": {"nodeClassRef": reference, "requirements": terms}},
            "disruption": {
                "consolidationPolicy": "WhenEmptyOrUnderutilized",
                "consolidateAfter": "1m",
                "budgets": [{"nodes": "20%"}],
            },
            **spec,
        },
    }


def an_app(name: str, *, replicas: int, cpu: str = "900m", memory: str = "1Gi", **pod: Any) -> dict[str, Any]:
    """A Deployment in the namespace shop."""
    size = {"requests": {"cpu": cpu, "memory": memory}}
    container = {"name": "main", "image": f"{name}:1", "resources": size}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], **pod}},
        },
    }


def a_pdb(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"selector": {"matchLabels": {"app": name}}, **spec},
    }


def a_shop(*more: dict[str, Any], pool: dict[str, Any] | None = None) -> tuple[dict[str, Any], ...]:
    """Node class, NodePool and two applications, one of them with a PodDisruptionBudget."""
    return (
        a_node_class(),
        pool or a_pool(),
        an_app("web", replicas=12),
        an_app("db", replicas=5, cpu="1800m", memory="4Gi"),
        a_pdb("web", maxUnavailable=2),
        *more,
    )


def build_real_cluster(
    objects: Objects, *, seed: int = 7, rest: timedelta = timedelta(hours=1)
) -> SimulatedCluster:
    """Return a cluster that has been at rest for a while."""
    scenario = Scenario(
        name="real",
        about="",
        seed=seed,
        node_group=ManagedNodeGroup(count=1, instance_type="t3.small"),
        objects=tuple(objects),
        cloud=CloudLatencies(boot=timedelta(seconds=22), boot_jitter=timedelta(seconds=9)),
        kubelet=KubeletLatencies(jitter=0.4),
    )
    cluster = SimulatedCluster(scenario, catalog=bundled_catalog(), prices=bundled_prices())
    cluster.clock.run(until=cluster.clock.now() + rest)
    return cluster


def dump(cluster: SimulatedCluster) -> ClusterObjects:
    """Return what ``dovetail dump`` would read."""
    objects = []
    listed = {resource: cluster.api.list(resource).items for resource in READ}
    for resource, items in listed.items():
        for obj in items:
            written = json.loads(msgspec.json.encode(obj))
            written["metadata"].pop("managedFields", None)
            objects.append({**written, "apiVersion": resource.api_version, "kind": resource.kind})
    empty = [resource for resource, items in listed.items() if not items]
    return ClusterObjects.from_objects(objects, empty=empty)


def fork(recorded: ClusterObjects, *, now: Any, seed: int = 1) -> SimulatedCluster:
    return SimulatedCluster.from_snapshot(
        recorded.objects, now=now, catalog=bundled_catalog(), prices=bundled_prices(), seed=seed
    )


def manifests(*objects: dict[str, Any]) -> ChangedManifests:
    return ChangedManifests([("changed.json", json.dumps({"kind": "List", "items": list(objects)}).encode())])


def preview_and_make(
    cluster: SimulatedCluster, change: Callable[[], Change], real_change: Callable[[], Change] | None = None
) -> tuple[Preview, Observation]:
    """Dump the cluster, preview the change, make it really, and return both outcomes."""
    recorded, now = dump(cluster), cluster.clock.now()
    previewed = preview_change(
        change(),
        PreviewOptions(
            build=lambda: fork(recorded, now=now), build_changed=lambda: fork(recorded, now=now), limit=DAY
        ),
    )
    before = measure_state(cluster)
    observer = Observer(cluster)
    apply_change(cluster, (real_change or change)())
    played = play(cluster, observer, limit=DAY)
    return previewed, summarize(cluster, observer, played, before)
