"""What node classes find in the virtual account."""

from typing import Any

from dovetail.model import labels as label_keys
from dovetail.simulator.ec2.nodeclass_resolver import Network
from tests.simulator.ec2.place import REGION, A, B, Place, a_claim


def a_class(**spec: Any) -> dict[str, Any]:
    tagged = [{"tags": {"karpenter.sh/discovery": "my-cluster"}}]
    usual = {
        "subnetSelectorTerms": tagged,
        "securityGroupSelectorTerms": tagged,
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "role": "nodes",
    }
    return {"metadata": {"name": "default"}, "spec": {**usual, **spec}}


def test_a_class_finds_a_subnet_in_every_zone_and_all_else_that_it_needs() -> None:
    place = Place()

    found = place.do(place.cloud.resolve(a_class()))

    zones = [(one["zone"], one["zoneID"]) for one in found.status["subnets"]]
    assert zones == [(A, "euw1-az1"), (B, "euw1-az2")]
    assert found.status["securityGroups"][0]["id"].startswith("sg-")
    assert len(found.status["amis"]) == 5
    assert found.status["instanceProfile"]
    assert not found.problems


def test_selectors_can_be_scripted_to_find_nothing() -> None:
    place = Place()
    place.network = Network.of(REGION, missing=["*=none", "al2@*"])
    place.start_process()
    nothing = [{"tags": {"team": "none"}}]

    found = place.do(
        place.cloud.resolve(
            a_class(
                subnetSelectorTerms=nothing,
                securityGroupSelectorTerms=nothing,
                amiSelectorTerms=[{"alias": "al2@latest"}],
            )
        )
    )

    assert {kind: reason for kind, (reason, _) in found.problems.items()} == {
        "SubnetsReady": "SubnetsNotFound",
        "SecurityGroupsReady": "SecurityGroupsNotFound",
        "AMIsReady": "AMINotFound",
    }
    assert not {"subnets", "securityGroups", "amis"} & found.status.keys()


def test_one_term_that_finds_something_is_enough() -> None:
    place = Place()
    place.network = Network.of(REGION, missing=["*=none"])
    place.start_process()

    found = place.do(
        place.cloud.resolve(
            a_class(subnetSelectorTerms=[{"tags": {"team": "none"}}, {"id": "subnet-1"}])
        )
    )

    assert found.status["subnets"] == [{"id": "subnet-1", "zone": A, "zoneID": "euw1-az1"}]


def test_a_network_can_be_held_to_some_zones() -> None:
    place = Place()
    place.network = Network.of(REGION, zones=[B])
    place.start_process()

    found = place.do(place.cloud.resolve(a_class()))

    assert [one["zone"] for one in found.status["subnets"]] == [B]


def test_a_given_instance_profile_is_taken_as_it_is() -> None:
    place = Place()

    found = place.do(place.cloud.resolve(a_class(role=None, instanceProfile="mine")))

    assert found.status["instanceProfile"] == "mine"


def test_a_machine_boots_an_image_that_its_class_lists_for_its_architecture() -> None:
    place = Place()
    images = place.do(place.cloud.resolve(a_class())).status["amis"]

    bought = place.do(place.cloud.create(a_claim()))

    (image,) = [one for one in images if one["id"] == bought.image_id]
    assert {"key": label_keys.ARCH, "operator": "In", "values": ["amd64"]} in image["requirements"]
