"""Memory of the cluster cache after objects are deleted."""

import gc
import json
import sys
from typing import Any
from weakref import ref

from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, PODS, Resource
from dovetail.state.cluster.cache import ClusterCache
from tests.support.kube.hostile_objects import hostile_nodepools, hostile_pods

Object = dict[str, Any]


def replace(cache: ClusterCache, resource: Resource, objects: list[Object], version: int) -> None:
    for number, obj in enumerate(objects):
        obj["metadata"] |= {"uid": f"{version}-{number}", "resourceVersion": str(version)}
    cache.replace(resource, objects, revision=str(version))


def test_cache_keeps_nothing_of_deleted_pods_and_nodepools() -> None:
    cache = ClusterCache()
    replace(cache, PODS, hostile_pods(13), version=1)
    replace(cache, PODS, [], version=2)
    gc.collect()
    before = sys.getallocatedblocks()

    # Other specs than before: the number of a pod is part of its labels and values.
    pods, pools = hostile_pods(26)[13:], hostile_nodepools(10)
    replace(cache, PODS, pods, version=3)
    replace(cache, NODE_POOLS, pools, version=3)
    del pods, pools
    added = sys.getallocatedblocks() - before
    replace(cache, PODS, [], version=4)
    replace(cache, NODE_POOLS, [], version=4)
    gc.collect()
    kept = sys.getallocatedblocks() - before

    assert added > 100_000
    assert kept < 2_000


def test_requirements_are_shared_by_nodeclaims_and_freed_with_the_last() -> None:
    """Each list names the instance types of its time, up to hundreds."""
    cache = ClusterCache()
    replace(cache, NODE_CLAIMS, [a_claim("first", "m5.large"), a_claim("second", "m5.large")], version=1)
    first, second = (claim.requirements for claim in cache.stores[NODE_CLAIMS].values())
    is_shared = first[0] is second[0]
    requirement = ref(first[0])
    del first, second

    replace(cache, NODE_CLAIMS, [a_claim("second", "m5.large")], version=2)
    is_kept = requirement() is not None
    replace(cache, NODE_CLAIMS, [a_claim("second", "c5.large")], version=3)

    assert is_shared
    assert is_kept
    assert requirement() is None
    (other,) = cache.stores[NODE_CLAIMS].values()
    assert other.requirements[0].values == ("c5.large",)


def a_claim(name: str, instance_type: str) -> Object:
    requirement = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": [instance_type]}
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name},
        "spec": {"requirements": [requirement], "nodeClassRef": reference},
    }


def test_pods_share_their_spec_and_its_parts_while_one_of_them_exists() -> None:
    cache = ClusterCache()
    first, second = (hostile_pods(3)[2] for _ in range(2))
    second["metadata"]["name"] = "second"

    replace(cache, PODS, [first, second], version=1)
    specs = [pod.spec for pod in cache.stores[PODS].values()]
    labels = [pod.labels for pod in cache.stores[PODS].values()]

    assert specs[0] is specs[1]
    assert labels[0] is labels[1]

    spec = ref(specs[0])
    specs.clear()
    replace(cache, PODS, [second], version=2)
    assert spec() is not None
    replace(cache, PODS, [], version=3)
    assert spec() is None


def test_equal_values_of_a_pod_take_memory_once() -> None:
    """The parser of JSON creates each of them anew: 80,000 texts, of which 2,000 differ."""
    cache = ClusterCache()
    (pod,) = [pod for pod in hostile_pods(7) if pod["metadata"]["name"].startswith("node-affinity")]

    replace(cache, PODS, [json.loads(json.dumps(pod))], version=1)
    (read,) = cache.stores[PODS].values()
    texts = [
        text
        for term in read.spec.node_terms
        for requirement in term.expressions
        for text in (requirement.key, *requirement.values)
    ]

    assert len(texts) > 50_000
    assert len({id(text) for text in texts}) == len(set(texts)) < 3_000
