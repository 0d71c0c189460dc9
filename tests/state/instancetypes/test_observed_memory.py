"""Observed memory of nodes, and its effect on instance types."""

from dovetail.model import labels as label_keys
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import Ami, ResolvedResources
from dovetail.model.kube.resources import MEMORY
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.instancetypes.observed_memory import ObservedMemory
from dovetail.state.instancetypes.provider import InstanceTypeProvider
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOfferings
from tests.simulator.ec2.harness import CATALOG, PRICES, REGION
from tests.support.kube import manifests
from tests.support.simulator.api_server import START

MI = 1 << 20
CLASS = EC2NodeClass(resolved=ResolvedResources(amis=(Ami(id="ami-1"), Ami(id="ami-arm"))))
JOINED = {label_keys.INSTANCE_TYPE: "m5.large", label_keys.REGISTERED: "true"}


def named(obj: dict[str, object], uid: str) -> dict[str, object]:
    meta = obj["metadata"]
    assert isinstance(meta, dict)
    return {**obj, "metadata": {"uid": uid, "resourceVersion": "1", **meta}}


def a_claim(number: int, image: str = "ami-1") -> dict[str, object]:
    claim = manifests.claim(f"c{number}", provider_id=f"aws:///z/i-{number}", image_id=image)
    return named(claim, f"claim-{number}")


def a_node(number: int, memory: str, **more: str) -> dict[str, object]:
    node = manifests.node(
        f"n{number}",
        provider_id=f"aws:///z/i-{number}",
        labels={**JOINED, **more},
        size={"cpu": "2", "memory": memory, "pods": "29"},
    )
    return named(node, f"node-{number}")


def test_minimum_observed_memory_counts() -> None:
    cache = ClusterCache()
    memory = ObservedMemory(cache)
    for number, quantity in ((1, "7700Mi"), (2, "7600Mi"), (3, "7650Mi")):
        cache.apply_event(NODE_CLAIMS, a_claim(number))
        cache.apply_event(NODES, a_node(number, quantity))

    assert memory.get(["ami-1"]) == {"m5.large": 7600 * MI}


def test_node_that_arrives_before_its_claim_is_observed() -> None:
    cache = ClusterCache()
    memory = ObservedMemory(cache)

    cache.apply_event(NODES, a_node(1, "7700Mi"))
    before = memory.get(["ami-1"])
    cache.apply_event(NODE_CLAIMS, a_claim(1))

    assert before == {}
    assert memory.get(["ami-1"]) == {"m5.large": 7700 * MI}


def test_unregistered_node_is_not_observed() -> None:
    cache = ClusterCache()
    memory = ObservedMemory(cache)
    cache.apply_event(NODE_CLAIMS, a_claim(1))

    cache.apply_event(NODES, a_node(1, "1Mi", **{label_keys.REGISTERED: ""}))

    assert memory.get(["ami-1"]) == {}


def test_result_is_the_same_object_until_a_lower_observation() -> None:
    cache = ClusterCache()
    memory = ObservedMemory(cache)
    cache.apply_event(NODE_CLAIMS, a_claim(1))
    cache.apply_event(NODES, a_node(1, "7700Mi"))
    first = memory.get(["ami-1"])

    cache.apply_event(NODE_CLAIMS, a_claim(2))
    cache.apply_event(NODES, a_node(2, "7800Mi"))

    assert memory.get(["ami-1"]) is first


def test_observation_replaces_the_estimate_of_the_same_ami_only() -> None:
    cache = ClusterCache()
    provider = InstanceTypeProvider(
        CATALOG.instance_types,
        region=REGION,
        prices=PRICES,
        unavailable=UnavailableOfferings(),
        memory=ObservedMemory(cache),
    )
    estimated = memory_of(provider, CLASS)

    cache.apply_event(NODE_CLAIMS, a_claim(1))
    cache.apply_event(NODES, a_node(1, "7700Mi"))

    other = EC2NodeClass(resolved=ResolvedResources(amis=(Ami(id="ami-2"),)))
    assert memory_of(provider, CLASS) == {**estimated, "m5.large": 7700 * MI}
    assert memory_of(provider, other) == estimated


def memory_of(provider: InstanceTypeProvider, node_class: EC2NodeClass) -> dict[str, int]:
    types = provider.instance_types(node_class, now=START)
    return {instance_type.name: instance_type.capacity[MEMORY] for instance_type in types}
