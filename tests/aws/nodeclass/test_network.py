"""Subnets and security groups by selector terms: 36, 37 and 105 of the AWS checklist."""

from typing import Any

import pytest

from dovetail.aws.filters import filters_of, tag_filters
from dovetail.aws.nodeclass.network import FreeAddresses
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass_launch import SelectorTerm
from tests.aws.nodeclass.classes import a_class, message, reasons
from tests.support.moto_nodeclass import ClassProcess


def zones(process: ClassProcess, *terms: dict[str, Any]) -> list[str]:
    found = process.resolve(a_class(subnetSelectorTerms=list(terms)))
    return [one["zone"][-1] for one in found.status.get("subnets", [])]


def groups(process: ClassProcess, *terms: dict[str, Any]) -> list[str]:
    found = process.resolve(a_class(securityGroupSelectorTerms=list(terms)))
    return [one["name"] for one in found.status.get("securityGroups", [])]


def test_subnets_come_with_most_free_addresses_first_then_by_id(process: ClassProcess) -> None:
    found = process.resolve(a_class()).status["subnets"]

    assert found[0]["zone"] == "eu-west-1b"
    assert found[0]["zoneID"] == "euw1-az1"
    assert [one["id"] for one in found[1:]] == sorted(one["id"] for one in found[1:])


def test_all_that_one_term_says_must_hold_and_one_term_is_enough(process: ClassProcess) -> None:
    [first] = process.resolve(a_class(subnetSelectorTerms=[{"tags": {"zone": "a"}}])).status[
        "subnets"
    ]

    assert zones(process, {"tags": {"team": "a", "zone": "a"}}) == ["a"]
    assert sorted(zones(process, {"tags": {"zone": "a"}}, {"tags": {"zone": "b"}})) == ["a", "b"]
    assert sorted(zones(process, {"tags": {"zone": "*"}})) == ["a", "b", "c"]
    assert zones(process, {"id": first["id"]}) == ["a"]
    assert zones(process, {"id": first["id"]}, {"tags": {"zone": "a"}}) == ["a"]


def test_security_groups_are_found_by_tags_by_name_and_by_id(process: ClassProcess) -> None:
    found = process.resolve(a_class()).status["securityGroups"]

    assert [one["id"] for one in found] == sorted(one["id"] for one in found)
    assert sorted(one["name"] for one in found) == ["nodes", "shared"]
    assert groups(process, {"name": "nodes"}) == ["nodes"]
    assert groups(process, {"id": found[0]["id"]}) == [found[0]["name"]]


@pytest.mark.parametrize(
    ("field", "condition", "reason", "status"),
    [
        ("subnetSelectorTerms", "SubnetsReady", "SubnetsNotFound", "subnets"),
        (
            "securityGroupSelectorTerms",
            "SecurityGroupsReady",
            "SecurityGroupsNotFound",
            "securityGroups",
        ),
        ("amiSelectorTerms", "AMIsReady", "AMINotFound", "amis"),
    ],
)
def test_what_selects_nothing_is_named_and_says_what_was_looked_for(
    process: ClassProcess, field: str, condition: str, reason: str, status: str
) -> None:
    found = process.resolve(a_class(**{field: [{"tags": {"team": "nobody"}}]}))

    assert reasons(found) == {condition: reason}
    assert "tags team=nobody" in message(found, condition)
    assert status not in found.status


def test_ids_share_a_question_and_so_do_names() -> None:
    terms = [
        SelectorTerm(id="sg-1"),
        SelectorTerm(name="a"),
        SelectorTerm(tags=FrozenDict({"team": "a"})),
        SelectorTerm(id="sg-2", name="ignored"),
        SelectorTerm(name="b"),
    ]

    assert filters_of(terms, id_key="group-id", name_key="group-name") == [
        [{"Name": "group-id", "Values": ["sg-1", "sg-2"]}],
        [{"Name": "group-name", "Values": ["a", "b"]}],
        [{"Name": "tag:team", "Values": ["a"]}],
    ]
    assert list(tag_filters({"team": "*"})) == [{"Name": "tag-key", "Values": ["team"]}]


def test_addresses_of_machines_on_their_way_are_taken_off_until_ec2_counts_again() -> None:
    addresses = FreeAddresses()
    addresses.counted({"subnet-1": 100, "subnet-2": 90})

    addresses.take({"subnet-1": 29, "subnet-2": 29})
    assert addresses.free("subnet-1") == 71
    addresses.give_back({"subnet-2": 29})
    assert addresses.free("subnet-2") == 90
    addresses.counted({"subnet-1": 80})
    assert addresses.free("subnet-1") == 80
    addresses.give_back({"subnet-1": 29})
    assert addresses.free("subnet-1") == 80
    addresses.exhaust("subnet-1")

    assert addresses.free("subnet-1") == 0


def test_looking_a_class_up_counts_free_addresses(process: ClassProcess) -> None:
    found = process.resolve(a_class()).status["subnets"]

    assert [process.addresses.free(one["id"]) for one in found] == [4091, 251, 251]
