"""From what a user gave to the picture that a decision sees."""

from typing import Any

import msgspec
import pytest

from dovetail.codec.inputs.cluster_inputs import Inputs
from dovetail.errors import BadInput
from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Catalog, Machine, Region
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.nodepool import NodeClassRef, NodePool
from dovetail.simulate import DEFAULT_POOL, assemble
from tests.support.build import a_node, a_pod, a_pool


def a_region(name: str, prefix: str) -> Region:
    zones = {f"{name}{letter}": f"{prefix}-az{i}" for i, letter in enumerate("abc", start=1)}
    return Region(
        name=name,
        zones=FrozenDict(zones),
        offered=FrozenDict({"m5.large": frozenset(zones)}),
    )


CATALOG = Catalog(
    recorded="2026-01-31",
    source="by hand",
    machines=(Machine(name="m5.large", vcpus=2, memory_mib=8192, enis=3, ipv4_per_eni=10),),
    regions=FrozenDict(
        {
            "us-east-1": a_region("us-east-1", "use1"),
            "us-west-1": a_region("us-west-1", "usw1"),
            "eu-west-1": a_region("eu-west-1", "euw1"),
        }
    ),
)
PRICES = PriceBook(
    source="by hand",
    list_prices=FrozenDict({"m5.large": 0.1}),
    region_factors=FrozenDict({"us-east-1": 1.0, "eu-west-1": 1.1}),
)


def of_class(pool: NodePool, name: str) -> NodePool:
    template = msgspec.structs.replace(pool.template, node_class=NodeClassRef(name=name))
    return msgspec.structs.replace(pool, template=template)


def zones_sold(types: tuple[InstanceType, ...]) -> set[str]:
    return {offer.zone for one in types for offer in one.offerings if offer.available}


def in_region(name: str) -> dict[str, str]:
    return {label_keys.REGION: name}


def test_without_a_node_pool_the_default_one_is_used_and_noted() -> None:
    result = assemble(Inputs(), catalog=CATALOG, prices=PRICES)

    assert result.snapshot.node_pools == (DEFAULT_POOL,)
    assert len(result.notes) == 1
    assert result.notes[0].startswith("no NodePool given")


def test_a_missing_node_class_is_replaced_by_defaults_and_noted() -> None:
    pools = (of_class(a_pool("general"), "gone"), of_class(a_pool("batch"), "gone"))

    result = assemble(Inputs(node_pools=pools), catalog=CATALOG, prices=PRICES)

    assert result.notes == (
        "EC2NodeClass gone of NodePool general, batch is not given; "
        "used AL2023 defaults and every zone",
    )
    assert zones_sold(result.snapshot.instance_types["batch"]) == {
        *("us-east-1a", "us-east-1b", "us-east-1c"),
    }


def test_pools_of_one_class_share_their_instance_types() -> None:
    pools = (of_class(a_pool("a"), "one"), of_class(a_pool("b"), "one"))
    inputs = Inputs(node_pools=pools, node_classes=(NodeClass(name="one"),))

    types = assemble(inputs, catalog=CATALOG, prices=PRICES).snapshot.instance_types

    assert types["a"] is types["b"]


def test_pods_that_request_nothing_are_noted() -> None:
    inputs = Inputs(pending=(a_pod("sized"), a_pod("bare", cpu=0, memory="0")))

    notes = assemble(inputs, catalog=CATALOG, prices=PRICES).notes

    assert notes[0] == "1 pod requests neither CPU nor memory: only a node's pod limit counts"


def test_the_region_is_that_of_most_nodes() -> None:
    nodes = (
        a_node("a", labels=in_region("us-east-1")),
        a_node("b", labels=in_region("eu-west-1")),
        a_node("c", labels=in_region("eu-west-1")),
        a_node("d"),
    )

    assert assemble(Inputs(nodes=nodes), catalog=CATALOG, prices=PRICES).region == "eu-west-1"


def test_the_region_asked_for_wins_over_that_of_the_nodes() -> None:
    inputs = Inputs(nodes=(a_node("a", labels=in_region("eu-west-1")),))

    result = assemble(inputs, catalog=CATALOG, prices=PRICES, region="us-east-1")

    assert result.region == "us-east-1"


def in_zones(*zones: str) -> NodePool:
    return a_pool("general", [(label_keys.ZONE, "In", zones)])


def test_without_nodes_the_region_is_that_of_the_zones_which_pools_and_classes_name() -> None:
    by_pool = Inputs(node_pools=(in_zones("eu-west-1a", "eu-west-1b"),))
    by_class = Inputs(
        node_pools=(of_class(a_pool("general"), "one"),),
        node_classes=(NodeClass(name="one", zones=FrozenDict({"eu-west-1a": "euw1-az1"})),),
    )

    regions = [
        assemble(inputs, catalog=CATALOG, prices=PRICES).region for inputs in (by_pool, by_class)
    ]

    assert regions == ["eu-west-1", "eu-west-1"]


def test_a_pool_that_asks_for_what_the_region_does_not_have_is_noted_with_a_guess() -> None:
    typo = a_pool("typo", [("karpenter.k8s.aws/instance-family", "In", ["m55"])])
    inputs = Inputs(node_pools=(typo, in_zones("eu-west-1a", "eu-west-1b")))

    result = assemble(inputs, catalog=CATALOG, prices=PRICES, region="us-east-1")

    assert [note for note in result.notes if "buys nothing" in note] == [
        "NodePool typo buys nothing: nothing in us-east-1 has "
        "karpenter.k8s.aws/instance-family m55; did you mean m5?",
        "NodePool general buys nothing: nothing in us-east-1 has "
        "topology.kubernetes.io/zone eu-west-1a, eu-west-1b; is it the right region?",
    ]


def test_zones_may_be_named_by_their_ids() -> None:
    inputs = Inputs(node_pools=(a_pool("general"),))

    result = assemble(inputs, catalog=CATALOG, prices=PRICES, zones=["use1-az2"])

    assert zones_sold(result.snapshot.instance_types["general"]) == {"us-east-1b"}


def test_only_zones_that_the_class_reaches_and_the_user_names_are_sold() -> None:
    reached = FrozenDict({"us-east-1a": "use1-az1", "us-east-1b": "use1-az2"})
    inputs = Inputs(
        node_pools=(of_class(a_pool("general"), "one"),),
        node_classes=(NodeClass(name="one", zones=reached),),
    )

    everywhere = assemble(inputs, catalog=CATALOG, prices=PRICES)
    narrowed = assemble(inputs, catalog=CATALOG, prices=PRICES, zones=["us-east-1b", "us-east-1c"])

    assert zones_sold(everywhere.snapshot.instance_types["general"]) == set(reached)
    assert zones_sold(narrowed.snapshot.instance_types["general"]) == {"us-east-1b"}


def test_a_pool_whose_class_is_not_ready_is_not_ready_either() -> None:
    inputs = Inputs(
        node_pools=(of_class(a_pool("general"), "one"),),
        node_classes=(NodeClass(name="one", ready=False),),
    )

    [pool] = assemble(inputs, catalog=CATALOG, prices=PRICES).snapshot.node_pools

    assert not pool.ready


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"region": "us-esat-1"}, "--region: 'us-esat-1' is not in the catalogue; did you mean"),
        ({"region": "us-esat-1"}, "'us-east-1'?"),
        ({"region": "mars"}, "known are eu-west-1, us-east-1, us-west-1"),
        ({"region": "us-west-1"}, "--prices: by hand has no prices for us-west-1"),
        ({"region": "us-west-1"}, "it has eu-west-1, us-east-1: choose with --region"),
        ({"zones": ["us-east-1d"]}, "--zones: 'us-east-1d' is no zone of us-east-1"),
        ({"zones": ["x", "us-east-1a", "y"]}, "--zones: 'y' is no zone of us-east-1"),
    ],
)
def test_a_place_that_is_not_known_is_refused_with_a_suggestion(
    asked: dict[str, Any], said: str
) -> None:
    with pytest.raises(BadInput) as caught:
        assemble(Inputs(), catalog=CATALOG, prices=PRICES, **asked)

    assert said in str(caught.value)


def a_catalog_with_a_poor_zone() -> Catalog:
    names = [f"m5.{size}" for size in ("large", "xlarge", "2xlarge", "4xlarge", "8xlarge")]
    rich = frozenset({"us-east-1a", "us-east-1b"})
    region = Region(
        name="us-east-1",
        zones=FrozenDict(
            {"us-east-1a": "use1-az1", "us-east-1b": "use1-az2", "us-east-1e": "use1-az3"}
        ),
        offered=FrozenDict({**dict.fromkeys(names, rich), names[0]: rich | {"us-east-1e"}}),
    )
    machines = [Machine(name=n, vcpus=2, memory_mib=8192, enis=3, ipv4_per_eni=10) for n in names]
    return msgspec.structs.replace(
        CATALOG, machines=tuple(machines), regions=FrozenDict({"us-east-1": region})
    )


def test_a_zone_that_sells_next_to_nothing_is_left_out_and_noted() -> None:
    inputs = Inputs(pending=(a_pod("p"),), node_pools=(a_pool(),))

    found = assemble(inputs, catalog=a_catalog_with_a_poor_zone(), prices=PRICES)

    assert zones_sold(found.snapshot.instance_types["default"]) == {"us-east-1a", "us-east-1b"}
    assert any("us-east-1e" in note and "--zones" in note for note in found.notes)


def test_a_zone_that_sells_next_to_nothing_is_used_where_a_pool_names_it() -> None:
    pool = a_pool(requirements=[(label_keys.ZONE, "In", ["us-east-1a", "us-east-1e"])])
    inputs = Inputs(pending=(a_pod("p"),), node_pools=(pool,))

    found = assemble(inputs, catalog=a_catalog_with_a_poor_zone(), prices=PRICES)

    assert "us-east-1e" in zones_sold(found.snapshot.instance_types["default"])
