"""Validation of EC2NodeClasses, as in their CRD."""

from typing import Any

import pytest

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.karpenter.nodeclasses import decode_nodeclass
from dovetail.codec.text.field_path import format_path

GOOD: dict[str, Any] = {
    "role": "nodes",
    "amiSelectorTerms": [{"alias": "al2023@latest"}],
    "subnetSelectorTerms": [{"tags": {"team": "a"}}],
    "securityGroupSelectorTerms": [{"tags": {"team": "a"}}],
}


def error_paths(*, api_rules_only: bool = False, **spec: Any) -> list[str]:
    """Return the fields of a class that are refused."""
    findings = DecodeContext(api_rules_only=api_rules_only)
    whole = {"metadata": {"name": "a"}, "spec": {**GOOD, **spec}}
    decode_nodeclass(Field(whole, findings))
    return [format_path(path) for path, _ in findings.errors]


def ami(*terms: dict[str, Any], family: str | None = "AL2023") -> list[str]:
    return error_paths(amiSelectorTerms=list(terms), amiFamily=family)


def disk(**ebs: Any) -> list[str]:
    return error_paths(blockDeviceMappings=[{"deviceName": "/dev/xvda", "ebs": ebs}])


def interface(card: int, device: int, kind: str = "interface") -> dict[str, Any]:
    return {"networkCardIndex": card, "deviceIndex": device, "interfaceType": kind}


@pytest.mark.parametrize(
    ("spec", "good"),
    [
        ({}, True),
        ({"role": None, "instanceProfile": "p"}, True),
        ({"instanceProfile": "p"}, False),
        ({"role": None}, False),
        ({"role": ""}, False),
    ],
)
def test_a_node_class_has_a_role_or_an_instance_profile(spec: dict[str, Any], good: bool) -> None:
    assert error_paths(**spec) == ([] if good else ["spec.role"])


@pytest.mark.parametrize(
    "family", ["AL2", "AL2023", "Bottlerocket", "Custom", "Windows2019", "Windows2022", "Windows2025"]
)
def test_there_are_seven_ami_families_without_ubuntu(family: str) -> None:
    assert ami({"id": "ami-1"}, family=family) == []
    assert ami({"id": "ami-1"}, family="Ubuntu") == ["spec.amiFamily"]


@pytest.mark.parametrize(
    ("alias", "family", "good"),
    [
        ("al2023@latest", None, True),
        ("al2023@latest", "AL2023", True),
        ("al2023@latest", "Custom", True),
        ("al2023@latest", "AL2", False),
        ("bottlerocket@v1.20.0", "Bottlerocket", True),
        ("bottlerocket@latest", "AL2023", False),
        ("windows2022@latest", None, True),
    ],
)
def test_ami_family_must_match_the_alias(alias: str, family: str | None, good: bool) -> None:
    assert ami({"alias": alias}, family=family) == ([] if good else ["spec.amiFamily"])


def test_without_an_alias_the_ami_family_is_required() -> None:
    assert ami({"id": "ami-1"}, family=None) == ["spec.amiFamily"]


@pytest.mark.parametrize(
    "alias",
    [
        "@latest",
        "al2023",
        "al2023@",
        "al2023-latest",
        "ubuntu@latest",
        "windows2022@v1.0.0",
        "al2023@" + "v" * 30,
    ],
)
def test_an_alias_is_a_family_and_a_version(alias: str) -> None:
    assert ami({"alias": alias}, family=None) == ["spec.amiSelectorTerms[0].alias"]


@pytest.mark.parametrize(
    ("terms", "field"),
    [
        ([{"alias": "al2023@latest", "id": "ami-1"}], "[0]"),
        ([{"alias": "al2023@latest", "owner": "self"}], "[0]"),
        ([{"alias": "al2023@latest"}, {"id": "ami-1"}], "[0].alias"),
        ([{"id": "ami-1", "name": "x"}], "[0]"),
        ([{"id": "ami-1", "tags": {"a": "b"}}], "[0]"),
        ([{"id": "ami-1"}, {"id": "ami-2", "owner": "self"}], "[1]"),
        ([{"id": "image-1"}], "[0].id"),
        ([{}], "[0]"),
    ],
)
def test_ids_and_aliases_exclude_other_fields_of_a_term(terms: list[dict[str, Any]], field: str) -> None:
    assert ami(*terms) == [f"spec.amiSelectorTerms{field}"]


@pytest.mark.parametrize("term", [{"name": "x", "owner": "self"}, {"owner": "self", "tags": {"a": "b"}}])
def test_owners_can_be_combined_with_names_and_tags(term: dict[str, Any]) -> None:
    assert ami(term) == []


@pytest.mark.parametrize(
    ("key", "good"),
    [
        ("karpenter.sh/nodepool", False),
        ("karpenter.sh/nodeclaim", False),
        ("kubernetes.io/cluster/demo", False),
        ("eks:eks-cluster-name", False),
        ("karpenter.k8s.aws/ec2nodeclass", False),
        ("", False),
        ("karpenter.sh/custom-key", True),
        ("kubernetes.io/role/key", True),
        ("Name", True),
    ],
)
def test_restricted_tags_are_rejected(key: str, good: bool) -> None:
    assert bool(error_paths(tags={key: "x"})) is not good


@pytest.mark.parametrize(
    "terms", [None, [], [{}], [{"tags": {}}], [{"tags": {"": "x"}}], [{"tags": {"a": ""}}], [{"id": "x"}]]
)
@pytest.mark.parametrize("name", ["subnetSelectorTerms", "securityGroupSelectorTerms"])
def test_selectors_need_at_least_one_field_that_selects(
    name: str, terms: list[dict[str, Any]] | None
) -> None:
    [field] = error_paths(**{name: terms})

    assert field.startswith(f"spec.{name}")


def test_every_term_is_validated() -> None:
    good = {"tags": {"a": "b"}}

    assert error_paths(subnetSelectorTerms=[good] * 9 + [{"tags": {"a": ""}}])
    assert error_paths(subnetSelectorTerms=[good] * 31) == ["spec.subnetSelectorTerms"]


@pytest.mark.parametrize(
    ("name", "term"),
    [
        ("subnetSelectorTerms", {"id": "subnet-1", "tags": {"a": "b"}}),
        ("securityGroupSelectorTerms", {"id": "sg-1", "tags": {"a": "b"}}),
        ("securityGroupSelectorTerms", {"id": "sg-1", "name": "x"}),
        ("securityGroupSelectorTerms", {"name": "x", "tags": {"a": "b"}}),
    ],
)
def test_the_crd_rejects_mixed_terms_only_if_every_term_mixes_fields(name: str, term: dict[str, Any]) -> None:
    pure = {"tags": {"a": "b"}}

    assert error_paths(**{name: [term]}, api_rules_only=True) == [f"spec.{name}[0]"]
    assert error_paths(**{name: [term, pure]}, api_rules_only=True) == []
    assert error_paths(**{name: [term, pure]}) == [f"spec.{name}[0]"]


@pytest.mark.parametrize(
    ("term", "good"),
    [
        ({"id": "cr-1"}, True),
        ({"tags": {"a": "b"}, "ownerID": "123456789012"}, True),
        ({"instanceMatchCriteria": "targeted"}, True),
        ({"id": "xcr-1"}, False),
        ({"id": "cr-1", "tags": {"a": "b"}}, False),
        ({"id": "cr-1", "ownerID": "123456789012"}, False),
        ({"id": "cr-1", "instanceMatchCriteria": "open"}, False),
        ({"ownerID": "123456789012"}, False),
        ({"tags": {"a": "b"}, "ownerID": "12345678901"}, False),
        ({"instanceMatchCriteria": "closed"}, False),
    ],
)
def test_capacity_reservation_terms_are_validated(term: dict[str, Any], good: bool) -> None:
    assert bool(error_paths(capacityReservationSelectorTerms=[term])) is not good


@pytest.mark.parametrize(
    ("ebs", "field"),
    [
        ({"volumeSize": "20Gi"}, ""),
        ({"volumeSize": "64T"}, ""),
        ({"volumeSize": "58Ti"}, ""),
        ({"snapshotID": "snap-1", "volumeInitializationRate": 200}, ""),
        ({}, ".ebs"),
        ({"volumeSize": "512Mi"}, ".ebs.volumeSize"),
        ({"volumeSize": "65T"}, ".ebs.volumeSize"),
        ({"volumeSize": "large"}, ".ebs.volumeSize"),
        ({"volumeSize": "20Gi", "volumeType": "gp9"}, ".ebs.volumeType"),
        ({"volumeSize": "20Gi", "volumeInitializationRate": 200}, ".ebs.volumeInitializationRate"),
        ({"snapshotID": "snap-1", "volumeInitializationRate": 99}, ".ebs.volumeInitializationRate"),
        ({"snapshotID": "snap-1", "volumeInitializationRate": 301}, ".ebs.volumeInitializationRate"),
    ],
)
def test_a_block_device_needs_a_size_or_a_snapshot(ebs: dict[str, Any], field: str) -> None:
    expected = {f"spec.blockDeviceMappings[0]{field}"} if field else set()

    assert set(disk(**ebs)) == expected


def test_only_one_block_device_is_the_root_volume() -> None:
    root = {"rootVolume": True, "ebs": {"volumeSize": "20Gi"}}

    assert error_paths(blockDeviceMappings=[root]) == []
    assert error_paths(blockDeviceMappings=[root, root]) == ["spec.blockDeviceMappings[1].rootVolume"]


@pytest.mark.parametrize(
    ("interfaces", "good"),
    [
        ([], True),
        ([interface(0, 0), interface(1, 1, "efa-only")], True),
        ([interface(1, 0)], False),
        ([interface(0, 0, "efa-only")], False),
        ([interface(0, 0), interface(0, 0)], False),
        ([interface(0, 0), interface(1, 1, "efa-only"), interface(1, 2, "efa-only")], False),
        ([interface(0, 0), interface(-1, 0)], False),
        ([interface(0, 0, "ena")], False),
    ],
)
def test_network_interfaces_are_validated(interfaces: list[dict[str, Any]], good: bool) -> None:
    assert bool(error_paths(networkInterfaces=interfaces)) is not good


@pytest.mark.parametrize(
    ("timeouts", "good"),
    [
        ({"tcpEstablishedTimeout": 60}, True),
        ({"tcpEstablishedTimeout": "432000s", "udpTimeout": "30s"}, True),
        ({}, False),
        ({"tcpEstablishedTimeout": 59}, False),
        ({"tcpEstablishedTimeout": 432_001}, False),
        ({"udpStreamTimeout": 181}, False),
        ({"udpTimeout": "61s"}, False),
        ({"udpTimeout": "soon"}, False),
    ],
)
def test_connection_tracking_timeouts_have_bounds(timeouts: dict[str, Any], good: bool) -> None:
    assert bool(error_paths(connectionTracking=timeouts)) is not good


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"metadataOptions": {"httpEndpoint": "on"}}, "metadataOptions.httpEndpoint"),
        ({"metadataOptions": {"httpTokens": "maybe"}}, "metadataOptions.httpTokens"),
        ({"metadataOptions": {"httpPutResponseHopLimit": 65}}, "metadataOptions.httpPutResponseHopLimit"),
        ({"cpuOptions": {"nestedVirtualization": "on"}}, "cpuOptions.nestedVirtualization"),
        ({"ipPrefixCount": -1}, "ipPrefixCount"),
        ({"placementGroupSelector": {}}, "placementGroupSelector"),
        ({"placementGroupSelector": {"id": "pg-1", "name": "x"}}, "placementGroupSelector"),
        ({"placementGroupSelector": {"id": "group-1"}}, "placementGroupSelector.id"),
        (
            {"kubelet": {"evictionSoft": {"memory.available": "5%"}}},
            "kubelet.evictionSoft['memory.available']",
        ),
        (
            {"kubelet": {"imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 50}},
            "kubelet.imageGCHighThresholdPercent",
        ),
    ],
)
def test_settings_outside_their_bounds_are_rejected(spec: dict[str, Any], field: str) -> None:
    assert error_paths(**spec) == [f"spec.{field}"]
