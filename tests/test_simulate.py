"""Inputs become a snapshot: region, zones, NodePools and instance types."""

from typing import Any

import msgspec
import pytest

from dovetail import codec
from dovetail.codec.inputs.cluster_inputs import Inputs
from dovetail.errors import InvalidInputError
from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Catalog, Ec2InstanceType, Region
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.nodepool import NodeClassRef, NodePool
from dovetail.model.node import NodeObject
from dovetail.simulate import DEFAULT_NODEPOOL, cluster_snapshot, simulate
from tests.support.scheduling.builders import a_pod, a_pool
from tests.support.small_catalog import CATALOG, PRICES


def with_class(pool: NodePool, name: str) -> NodePool:
    template = msgspec.structs.replace(pool.template, node_class=NodeClassRef(name=name))
    return msgspec.structs.replace(pool, template=template)


def available_zones(types: tuple[InstanceType, ...]) -> set[str]:
    return {offering.zone for choice in types for offering in choice.offerings if offering.available}


def node_in(name: str, region: str) -> NodeObject:
    return NodeObject(name=name, labels=FrozenDict({label_keys.REGION: region}))


def test_simulate_plans_nodes_for_pending_pods_and_bills_them() -> None:
    inputs = Inputs(pending=(a_pod("web", cpu="500m"),), nodepools=(a_pool("general"),))

    result = simulate(inputs, catalog=CATALOG, prices=PRICES)

    assert [(node.nodepool, node.instance_type.name) for node in result.plan.nodes] == [
        ("general", "m5.large")
    ]
    assert result.plan.unschedulable == ()
    assert result.billed.list_price == result.plan.price
    assert result.region == "us-east-1"


def test_the_library_reads_inputs_and_encodes_crds() -> None:
    inputs = codec.read_inputs(
        [("pod.yaml", b"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: c}]}\n")]
    )

    assert [pod.name for pod in inputs.pending] == ["a"]
    assert {crd["kind"] for crd in codec.encode_crds()} == {"CustomResourceDefinition"}


def test_without_a_nodepool_the_default_nodepool_is_used_and_noted() -> None:
    result = cluster_snapshot(Inputs(), catalog=CATALOG, prices=PRICES)

    assert result.snapshot.nodepools == (DEFAULT_NODEPOOL,)
    assert len(result.notes) == 1
    assert result.notes[0].startswith("no NodePool given")


def test_a_missing_node_class_is_replaced_by_defaults_and_noted() -> None:
    pools = (with_class(a_pool("general"), "gone"), with_class(a_pool("batch"), "gone"))

    result = cluster_snapshot(Inputs(nodepools=pools), catalog=CATALOG, prices=PRICES)

    assert result.notes == (
        "EC2NodeClass gone of NodePools general, batch is not given; used AL2023 defaults and every zone",
    )
    assert available_zones(result.snapshot.instance_types["batch"]) == {
        *("us-east-1a", "us-east-1b", "us-east-1c")
    }


def test_nodepools_of_one_node_class_share_their_instance_types() -> None:
    pools = (with_class(a_pool("a"), "one"), with_class(a_pool("b"), "one"))
    inputs = Inputs(nodepools=pools, node_classes=(EC2NodeClass(name="one"),))

    types = cluster_snapshot(inputs, catalog=CATALOG, prices=PRICES).snapshot.instance_types

    assert types["a"] is types["b"]


def test_pods_without_requests_are_noted() -> None:
    inputs = Inputs(pending=(a_pod("sized"), a_pod("bare", cpu=0, memory="0")))

    notes = cluster_snapshot(inputs, catalog=CATALOG, prices=PRICES).notes

    assert notes[0] == (
        "1 pod requests neither CPU nor memory: only a node's pod limit counts; see --assume-requests"
    )


def test_the_region_is_that_of_most_nodes() -> None:
    nodes = (
        node_in("a", "us-east-1"),
        node_in("b", "eu-west-1"),
        node_in("c", "eu-west-1"),
        NodeObject(name="d"),
    )

    assert cluster_snapshot(Inputs(nodes=nodes), catalog=CATALOG, prices=PRICES).region == "eu-west-1"


def test_the_region_option_takes_precedence_over_the_nodes() -> None:
    inputs = Inputs(nodes=(node_in("a", "eu-west-1"),))

    result = cluster_snapshot(inputs, catalog=CATALOG, prices=PRICES, region="us-east-1")

    assert result.region == "us-east-1"


def pool_in_zones(*zones: str) -> NodePool:
    return a_pool("general", [(label_keys.ZONE, "In", zones)])


def test_without_nodes_the_region_is_that_of_zones_in_nodepools_and_node_classes() -> None:
    by_pool = Inputs(nodepools=(pool_in_zones("eu-west-1a", "eu-west-1b"),))
    by_class = Inputs(
        nodepools=(with_class(a_pool("general"), "one"),),
        node_classes=(EC2NodeClass(name="one", zones=FrozenDict({"eu-west-1a": "euw1-az1"})),),
    )

    regions = [
        cluster_snapshot(inputs, catalog=CATALOG, prices=PRICES).region for inputs in (by_pool, by_class)
    ]

    assert regions == ["eu-west-1", "eu-west-1"]


def test_a_nodepool_with_values_unknown_in_the_region_is_noted_with_a_suggestion() -> None:
    typo = a_pool("typo", [("karpenter.k8s.aws/instance-family", "In", ["m55"])])
    inputs = Inputs(nodepools=(typo, pool_in_zones("eu-west-1a", "eu-west-1b")))

    result = cluster_snapshot(inputs, catalog=CATALOG, prices=PRICES, region="us-east-1")

    assert [note for note in result.notes if "launches nothing" in note] == [
        "NodePool typo launches nothing: no instance type in us-east-1 has "
        "karpenter.k8s.aws/instance-family m55; did you mean m5?",
        "NodePool general launches nothing: no instance type in us-east-1 has "
        "topology.kubernetes.io/zone eu-west-1a, eu-west-1b; is it the right region?",
    ]


def test_zones_can_be_given_by_id() -> None:
    inputs = Inputs(nodepools=(a_pool("general"),))

    result = cluster_snapshot(inputs, catalog=CATALOG, prices=PRICES, zones=["use1-az2"])

    assert available_zones(result.snapshot.instance_types["general"]) == {"us-east-1b"}


def test_offerings_are_in_zones_of_both_node_class_and_option() -> None:
    reached = FrozenDict({"us-east-1a": "use1-az1", "us-east-1b": "use1-az2"})
    inputs = Inputs(
        nodepools=(with_class(a_pool("general"), "one"),),
        node_classes=(EC2NodeClass(name="one", zones=reached),),
    )

    everywhere = cluster_snapshot(inputs, catalog=CATALOG, prices=PRICES)
    narrowed = cluster_snapshot(inputs, catalog=CATALOG, prices=PRICES, zones=["us-east-1b", "us-east-1c"])

    assert available_zones(everywhere.snapshot.instance_types["general"]) == set(reached)
    assert available_zones(narrowed.snapshot.instance_types["general"]) == {"us-east-1b"}


def test_a_nodepool_is_not_ready_if_its_node_class_is_not() -> None:
    inputs = Inputs(
        nodepools=(with_class(a_pool("general"), "one"),),
        node_classes=(EC2NodeClass(name="one", ready=False),),
    )

    [pool] = cluster_snapshot(inputs, catalog=CATALOG, prices=PRICES).snapshot.nodepools

    assert not pool.ready


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"region": "us-esat-1"}, "--region: 'us-esat-1' is not in the catalogue; did you mean"),
        ({"region": "us-esat-1"}, "'us-east-1'?"),
        ({"region": "mars"}, "known are eu-west-1, us-east-1, us-west-1"),
        ({"region": "us-west-1"}, "--prices: by hand has no prices for us-west-1"),
        ({"region": "us-west-1"}, "it has eu-west-1, us-east-1: choose with --region"),
        ({"zones": ["us-east-1d"]}, "--zones: 'us-east-1d' is not a zone of us-east-1"),
        ({"zones": ["x", "us-east-1a", "y"]}, "--zones: 'y' is not a zone of us-east-1"),
    ],
)
def test_an_unknown_region_or_zone_is_rejected_with_a_suggestion(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        cluster_snapshot(Inputs(), catalog=CATALOG, prices=PRICES, **options)

    assert message in str(caught.value)


def a_catalog_with_a_sparse_zone() -> Catalog:
    names = [f"m5.{size}" for size in ("large", "xlarge", "2xlarge", "4xlarge", "8xlarge")]
    common = frozenset({"us-east-1a", "us-east-1b"})
    region = Region(
        name="us-east-1",
        zones=FrozenDict({"us-east-1a": "use1-az1", "us-east-1b": "use1-az2", "us-east-1e": "use1-az3"}),
        offered_zones=FrozenDict({**dict.fromkeys(names, common), names[0]: common | {"us-east-1e"}}),
    )
    facts = [Ec2InstanceType(name=n, vcpus=2, memory_mib=8192, enis=3, ipv4_per_eni=10) for n in names]
    return msgspec.structs.replace(
        CATALOG, instance_types=tuple(facts), regions=FrozenDict({"us-east-1": region})
    )


def test_a_sparse_zone_is_left_out_and_noted() -> None:
    inputs = Inputs(pending=(a_pod("p"),), nodepools=(a_pool(),))

    result = cluster_snapshot(inputs, catalog=a_catalog_with_a_sparse_zone(), prices=PRICES)

    assert available_zones(result.snapshot.instance_types["default"]) == {"us-east-1a", "us-east-1b"}
    assert any("us-east-1e" in note and "--zones" in note for note in result.notes)


def test_a_sparse_zone_is_used_if_a_nodepool_names_it() -> None:
    pool = a_pool(requirements=[(label_keys.ZONE, "In", ["us-east-1a", "us-east-1e"])])
    inputs = Inputs(pending=(a_pod("p"),), nodepools=(pool,))

    result = cluster_snapshot(inputs, catalog=a_catalog_with_a_sparse_zone(), prices=PRICES)

    assert "us-east-1e" in available_zones(result.snapshot.instance_types["default"])
