"""Corpus for fuzzing: objects of the examples, the guides and a simulated cluster."""

import re
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from dovetail.data.bundled import bundled_prices
from dovetail.model.settings import FeatureGates
from dovetail.ports.api_resources import RESOURCES, Resource
from dovetail.simulator.apiserver.storage.frozen_object import thaw
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.scenario.model import Scenario
from tests.codec.crds.accepted import ACCEPTED
from tests.support.simulator.clusters import small_catalog
from tests.support.soak.objects import burst_job, soak_objects

ROOT = Path(__file__).parents[3]
_FENCE = re.compile(r"^```yaml\n(.*?)^```", re.MULTILINE | re.DOTALL)

Object = dict[str, Any]

_CONTAINER: Object = {"name": "main", "resources": {"requests": {"cpu": "500m"}}}
_OTHER_KINDS: tuple[Object, ...] = (
    {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "defaults", "namespace": "default"},
        "spec": {
            "limits": [
                {"type": "Container", "defaultRequest": {"cpu": "250m"}, "max": {"memory": "2Gi"}},
                {"type": "Pod", "min": {"cpu": "10m"}, "maxLimitRequestRatio": {"cpu": "4"}},
            ]
        },
    },
    {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "sandboxed"},
        "handler": "sandboxed",
        "overhead": {"podFixed": {"cpu": "250m", "memory": "120Mi"}},
        "scheduling": {
            "nodeSelector": {"sandboxed": "yes"},
            "tolerations": [{"key": "sandboxed", "operator": "Exists"}],
        },
    },
    {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": {"name": "buffer", "namespace": "default", "generation": 2},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [_CONTAINER]}},
    },
)
"""Kinds of which neither the examples nor the simulated cluster have objects."""


@cache
def written_objects() -> list[Object]:
    """Return the objects of the examples and guides, and those that CRD tests accept."""
    texts = [path.read_text() for path in sorted((ROOT / "examples").rglob("*.yaml"))]
    for page in sorted((ROOT / "docs").rglob("*.md")):
        texts += _FENCE.findall(page.read_text())
    written = (obj for text in texts for obj in _objects(text))
    return [*written, *(obj for _, obj in ACCEPTED), *_OTHER_KINDS]


@cache
def cluster_objects() -> dict[Resource, list[Object]]:
    """Return the objects of a simulated cluster with nodes, by kind."""
    scenario = Scenario(name="corpus", about="", objects=(*soak_objects(), burst_job(1, pods=2)))
    gates = FeatureGates(StaticCapacity=True)
    cluster = SimulatedCluster(scenario, catalog=small_catalog(), prices=bundled_prices(), gates=gates)
    cluster.clock.run(until=cluster.clock.now() + timedelta(minutes=3))
    objects = {resource: [thaw(obj) for obj in cluster.api.list(resource).items] for resource in RESOURCES}
    return {resource: _distinct(listed) for resource, listed in objects.items() if listed}


def _distinct(objects: list[Object]) -> list[Object]:
    """Return the object with most fields of each owner kind, which differ in shape."""
    largest: dict[str, Object] = {}
    for obj in objects:
        owners = obj["metadata"].get("ownerReferences") or [{}]
        kind = owners[0].get("kind", obj["metadata"]["name"][:1])
        if len(str(obj)) > len(str(largest.get(kind, ""))):
            largest[kind] = obj
    return list(largest.values())


def _objects(text: str) -> Iterator[Object]:
    try:
        documents = list(yaml.safe_load_all(text))
    except yaml.YAMLError:
        return  # A guide may show a template.
    yield from (entry for entry in documents if isinstance(entry, dict) and "kind" in entry)
