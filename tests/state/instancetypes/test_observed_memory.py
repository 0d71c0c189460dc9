"""Memory that nodes turn out to have, and what the shelf makes of it."""

from dovetail.model import labels as label_keys
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import Found, Image
from dovetail.model.kube.resources import MEMORY
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.state.cluster.cache import Mirror
from dovetail.state.instancetypes.observed_memory import MemorySeen
from dovetail.state.instancetypes.provider import Shelf
from dovetail.state.instancetypes.unavailable_offerings import Scarcity
from tests.simulator.ec2.place import CATALOG, PRICES, REGION
from tests.support import wire
from tests.support.cluster import START

MI = 1 << 20
CLASS = NodeClass(found=Found(images=(Image(id="ami-1"), Image(id="ami-arm"))))
JOINED = {label_keys.INSTANCE_TYPE: "m5.large", label_keys.REGISTERED: "true"}


def named(obj: dict[str, object], uid: str) -> dict[str, object]:
    meta = obj["metadata"]
    assert isinstance(meta, dict)
    return {**obj, "metadata": {"uid": uid, "resourceVersion": "1", **meta}}


def a_claim(number: int, image: str = "ami-1") -> dict[str, object]:
    made = wire.claim(f"c{number}", provider_id=f"aws:///z/i-{number}", image_id=image)
    return named(made, f"claim-{number}")


def a_node(number: int, memory: str, **more: str) -> dict[str, object]:
    made = wire.node(
        f"n{number}",
        provider_id=f"aws:///z/i-{number}",
        labels={**JOINED, **more},
        size={"cpu": "2", "memory": memory, "pods": "29"},
    )
    return named(made, f"node-{number}")


def test_the_least_that_was_seen_of_a_type_counts() -> None:
    mirror = Mirror()
    seen = MemorySeen(mirror)
    for number, memory in ((1, "7700Mi"), (2, "7600Mi"), (3, "7650Mi")):
        mirror.put(NODE_CLAIMS, a_claim(number))
        mirror.put(NODES, a_node(number, memory))

    assert seen.of(["ami-1"]) == {"m5.large": 7600 * MI}


def test_a_node_that_is_heard_of_before_its_claim_counts_as_well() -> None:
    mirror = Mirror()
    seen = MemorySeen(mirror)

    mirror.put(NODES, a_node(1, "7700Mi"))
    before = seen.of(["ami-1"])
    mirror.put(NODE_CLAIMS, a_claim(1))

    assert before == {}
    assert seen.of(["ami-1"]) == {"m5.large": 7700 * MI}


def test_a_node_that_has_not_registered_says_nothing_yet() -> None:
    mirror = Mirror()
    seen = MemorySeen(mirror)
    mirror.put(NODE_CLAIMS, a_claim(1))

    mirror.put(NODES, a_node(1, "1Mi", **{label_keys.REGISTERED: ""}))

    assert seen.of(["ami-1"]) == {}


def test_the_answer_is_the_same_object_until_less_is_seen() -> None:
    mirror = Mirror()
    seen = MemorySeen(mirror)
    mirror.put(NODE_CLAIMS, a_claim(1))
    mirror.put(NODES, a_node(1, "7700Mi"))
    first = seen.of(["ami-1"])

    mirror.put(NODE_CLAIMS, a_claim(2))
    mirror.put(NODES, a_node(2, "7800Mi"))

    assert seen.of(["ami-1"]) is first


def test_what_was_seen_replaces_the_estimate_and_another_image_brings_the_estimate_back() -> None:
    mirror = Mirror()
    shelf = Shelf(
        CATALOG.machines,
        region=REGION,
        prices=PRICES,
        scarcity=Scarcity(),
        memory=MemorySeen(mirror),
    )
    estimated = memory_of(shelf, CLASS)

    mirror.put(NODE_CLAIMS, a_claim(1))
    mirror.put(NODES, a_node(1, "7700Mi"))

    other = NodeClass(found=Found(images=(Image(id="ami-2"),)))
    assert memory_of(shelf, CLASS) == {**estimated, "m5.large": 7700 * MI}
    assert memory_of(shelf, other) == estimated


def memory_of(shelf: Shelf, node_class: NodeClass) -> dict[str, int]:
    types = shelf.instance_types(node_class, now=START)
    return {one.name: one.capacity[MEMORY] for one in types}
