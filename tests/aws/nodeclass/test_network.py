"""Subnets and security groups by selector terms: 36, 37 and 105 of the AWS checklist."""

from typing import Any

import pytest

from dovetail.aws.filters import selector_filters, tag_filters
from dovetail.aws.nodeclass.network import FreeAddresses
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass_launch import SelectorTerm
from tests.aws.nodeclass.classes import a_class, message, reasons
from tests.support.aws.nodeclass_account import NodeClassProcess


def zones(process: NodeClassProcess, *terms: dict[str, Any]) -> list[str]:
    result = process.resolve(a_class(subnetSelectorTerms=list(terms)))
    return [entry["zone"][-1] for entry in result.status.get("subnets", [])]


def groups(process: NodeClassProcess, *terms: dict[str, Any]) -> list[str]:
    result = process.resolve(a_class(securityGroupSelectorTerms=list(terms)))
    return [entry["name"] for entry in result.status.get("securityGroups", [])]


def test_subnets_are_sorted_by_free_addresses_then_id(process: NodeClassProcess) -> None:
    result = process.resolve(a_class()).status["subnets"]

    assert result[0]["zone"] == "eu-west-1b"
    assert result[0]["zoneID"] == "euw1-az1"
    assert [entry["id"] for entry in result[1:]] == sorted(entry["id"] for entry in result[1:])


def test_fields_of_a_term_are_combined_with_and_terms_with_or(process: NodeClassProcess) -> None:
    [first] = process.resolve(a_class(subnetSelectorTerms=[{"tags": {"zone": "a"}}])).status["subnets"]

    assert zones(process, {"tags": {"team": "a", "zone": "a"}}) == ["a"]
    assert sorted(zones(process, {"tags": {"zone": "a"}}, {"tags": {"zone": "b"}})) == ["a", "b"]
    assert sorted(zones(process, {"tags": {"zone": "*"}})) == ["a", "b", "c"]
    assert zones(process, {"id": first["id"]}) == ["a"]
    assert zones(process, {"id": first["id"]}, {"tags": {"zone": "a"}}) == ["a"]


def test_security_groups_are_resolved_by_tags_name_and_id(process: NodeClassProcess) -> None:
    result = process.resolve(a_class()).status["securityGroups"]

    assert [entry["id"] for entry in result] == sorted(entry["id"] for entry in result)
    assert sorted(entry["name"] for entry in result) == ["nodes", "shared"]
    assert groups(process, {"name": "nodes"}) == ["nodes"]
    assert groups(process, {"id": result[0]["id"]}) == [result[0]["name"]]


@pytest.mark.parametrize(
    ("field", "condition", "reason", "status"),
    [
        ("subnetSelectorTerms", "SubnetsReady", "SubnetsNotFound", "subnets"),
        ("securityGroupSelectorTerms", "SecurityGroupsReady", "SecurityGroupsNotFound", "securityGroups"),
        ("amiSelectorTerms", "AMIsReady", "AMINotFound", "amis"),
    ],
)
def test_empty_selectors_are_named_with_their_terms(
    process: NodeClassProcess, field: str, condition: str, reason: str, status: str
) -> None:
    result = process.resolve(a_class(**{field: [{"tags": {"team": "missing"}}]}))

    assert reasons(result) == {condition: reason}
    assert "tags team=missing" in message(result, condition)
    assert status not in result.status


def test_ids_share_a_query_and_so_do_names() -> None:
    terms = [
        SelectorTerm(id="sg-1"),
        SelectorTerm(name="a"),
        SelectorTerm(tags=FrozenDict({"team": "a"})),
        SelectorTerm(id="sg-2", name="ignored"),
        SelectorTerm(name="b"),
    ]

    assert selector_filters(terms, id_key="group-id", name_key="group-name") == [
        [{"Name": "group-id", "Values": ["sg-1", "sg-2"]}],
        [{"Name": "group-name", "Values": ["a", "b"]}],
        [{"Name": "tag:team", "Values": ["a"]}],
    ]
    assert list(tag_filters({"team": "*"})) == [{"Name": "tag-key", "Values": ["team"]}]


def test_reserved_addresses_are_subtracted_until_ec2_counts_again() -> None:
    addresses = FreeAddresses()
    addresses.update({"subnet-1": 100, "subnet-2": 90})

    addresses.reserve({"subnet-1": 29, "subnet-2": 29})
    assert addresses.free("subnet-1") == 71
    addresses.release({"subnet-2": 29})
    assert addresses.free("subnet-2") == 90
    addresses.update({"subnet-1": 80})
    assert addresses.free("subnet-1") == 80
    addresses.release({"subnet-1": 29})
    assert addresses.free("subnet-1") == 80
    addresses.mark_exhausted("subnet-1")

    assert addresses.free("subnet-1") == 0


def test_resolving_a_node_class_updates_free_addresses(process: NodeClassProcess) -> None:
    result = process.resolve(a_class()).status["subnets"]

    assert [process.addresses.free(entry["id"]) for entry in result] == [4091, 251, 251]
