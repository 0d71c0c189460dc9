"""What the CRD of EC2NodeClasses takes and refuses."""

from typing import Any

import pytest

from dovetail.codec.fields import Field, Findings
from dovetail.codec.karpenter.nodeclasses import decode_node_class
from dovetail.codec.text.field_path import show

GOOD: dict[str, Any] = {
    "role": "nodes",
    "amiSelectorTerms": [{"alias": "al2023@latest"}],
    "subnetSelectorTerms": [{"tags": {"team": "a"}}],
    "securityGroupSelectorTerms": [{"tags": {"team": "a"}}],
}


def told(*, by_the_letter: bool = False, **spec: Any) -> list[str]:
    """Return the fields of a class that are refused."""
    findings = Findings(by_the_letter=by_the_letter)
    whole = {"metadata": {"name": "a"}, "spec": {**GOOD, **spec}}
    decode_node_class(Field(whole, findings))
    return [show(path) for path, _ in findings.found]


def ami(*terms: dict[str, Any], family: str | None = "AL2023") -> list[str]:
    return told(amiSelectorTerms=list(terms), amiFamily=family)


def disk(**ebs: Any) -> list[str]:
    return told(blockDeviceMappings=[{"deviceName": "/dev/xvda", "ebs": ebs}])


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
def test_a_class_has_a_role_or_a_profile(spec: dict[str, Any], good: bool) -> None:
    assert told(**spec) == ([] if good else ["spec.role"])


@pytest.mark.parametrize(
    "family",
    ["AL2", "AL2023", "Bottlerocket", "Custom", "Windows2019", "Windows2022", "Windows2025"],
)
def test_seven_families_are_known_and_ubuntu_is_none(family: str) -> None:
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
def test_a_family_beside_an_alias_is_that_of_the_alias(
    alias: str, family: str | None, good: bool
) -> None:
    assert ami({"alias": alias}, family=family) == ([] if good else ["spec.amiFamily"])


def test_without_an_alias_the_family_must_be_named() -> None:
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
def test_ids_and_aliases_stand_alone_in_a_term(terms: list[dict[str, Any]], field: str) -> None:
    assert ami(*terms) == [f"spec.amiSelectorTerms{field}"]


@pytest.mark.parametrize(
    "term", [{"name": "x", "owner": "self"}, {"owner": "self", "tags": {"a": "b"}}]
)
def test_owners_go_with_names_and_tags(term: dict[str, Any]) -> None:
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
def test_tags_that_are_set_anyway_cannot_be_chosen(key: str, good: bool) -> None:
    assert bool(told(tags={key: "x"})) is not good


@pytest.mark.parametrize(
    "terms",
    [None, [], [{}], [{"tags": {}}], [{"tags": {"": "x"}}], [{"tags": {"a": ""}}], [{"id": "x"}]],
)
@pytest.mark.parametrize("name", ["subnetSelectorTerms", "securityGroupSelectorTerms"])
def test_selectors_need_terms_that_select(name: str, terms: list[dict[str, Any]] | None) -> None:
    [field] = told(**{name: terms})

    assert field.startswith(f"spec.{name}")


def test_the_last_of_many_terms_is_looked_at_too() -> None:
    good = {"tags": {"a": "b"}}

    assert told(subnetSelectorTerms=[good] * 9 + [{"tags": {"a": ""}}])
    assert told(subnetSelectorTerms=[good] * 31) == ["spec.subnetSelectorTerms"]


@pytest.mark.parametrize(
    ("name", "term"),
    [
        ("subnetSelectorTerms", {"id": "subnet-1", "tags": {"a": "b"}}),
        ("securityGroupSelectorTerms", {"id": "sg-1", "tags": {"a": "b"}}),
        ("securityGroupSelectorTerms", {"id": "sg-1", "name": "x"}),
        ("securityGroupSelectorTerms", {"name": "x", "tags": {"a": "b"}}),
    ],
)
def test_a_mixed_term_is_refused_by_the_crd_only_if_no_term_is_pure(
    name: str, term: dict[str, Any]
) -> None:
    pure = {"tags": {"a": "b"}}

    assert told(**{name: [term]}, by_the_letter=True) == [f"spec.{name}[0]"]
    assert told(**{name: [term, pure]}, by_the_letter=True) == []
    assert told(**{name: [term, pure]}) == [f"spec.{name}[0]"]


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
def test_terms_of_reservations(term: dict[str, Any], good: bool) -> None:
    assert bool(told(capacityReservationSelectorTerms=[term])) is not good


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
        (
            {"snapshotID": "snap-1", "volumeInitializationRate": 99},
            ".ebs.volumeInitializationRate",
        ),
        (
            {"snapshotID": "snap-1", "volumeInitializationRate": 301},
            ".ebs.volumeInitializationRate",
        ),
    ],
)
def test_a_disk_has_a_size_or_a_snapshot(ebs: dict[str, Any], field: str) -> None:
    expected = {f"spec.blockDeviceMappings[0]{field}"} if field else set()

    assert set(disk(**ebs)) == expected


def test_only_one_disk_is_the_root() -> None:
    root = {"rootVolume": True, "ebs": {"volumeSize": "20Gi"}}

    assert told(blockDeviceMappings=[root]) == []
    assert told(blockDeviceMappings=[root, root]) == ["spec.blockDeviceMappings[1].rootVolume"]


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
def test_network_interfaces(interfaces: list[dict[str, Any]], good: bool) -> None:
    assert bool(told(networkInterfaces=interfaces)) is not good


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
def test_connection_tracking_has_bounds(timeouts: dict[str, Any], good: bool) -> None:
    assert bool(told(connectionTracking=timeouts)) is not good


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"metadataOptions": {"httpEndpoint": "on"}}, "metadataOptions.httpEndpoint"),
        ({"metadataOptions": {"httpTokens": "maybe"}}, "metadataOptions.httpTokens"),
        (
            {"metadataOptions": {"httpPutResponseHopLimit": 65}},
            "metadataOptions.httpPutResponseHopLimit",
        ),
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
            {
                "kubelet": {
                    "imageGCHighThresholdPercent": 50,
                    "imageGCLowThresholdPercent": 50,
                }
            },
            "kubelet.imageGCHighThresholdPercent",
        ),
    ],
)
def test_settings_outside_their_bounds_are_refused(spec: dict[str, Any], field: str) -> None:
    assert told(**spec) == [f"spec.{field}"]
