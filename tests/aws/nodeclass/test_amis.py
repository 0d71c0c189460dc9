"""Images by selector terms, and which of them boot: 38–45 of the AWS checklist."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from dovetail.aws.amifamily.registry import alias_parameters, unsupported_alias_reason
from dovetail.aws.nodeclass.amis import AmiCandidate, decode_candidates, image_queries, select_amis
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass_launch import SelectorTerm
from tests.aws.nodeclass.classes import a_class, message, reasons
from tests.support.aws.nodeclass_account import CLUSTER, Account, NodeClassProcess

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ARCH = "kubernetes.io/arch"


def publish(account: Account, alias: str, *, leaving_out: str = "nothing") -> list[str]:
    """Create the AMIs of an alias; return the names of their parameters."""
    names = [
        parameter.name for parameter in alias_parameters(alias, "1.34") if leaving_out not in parameter.name
    ]
    for number, name in enumerate(names):
        arch = "arm64" if "arm64" in name else "x86_64"
        account.image(f"ami-{number}", name=f"image-{number}", architecture=arch)
        account.parameter(name, f"ami-{number}")
    return names


def amis(process: NodeClassProcess, *terms: dict[str, Any], **spec: Any) -> list[dict[str, Any]]:
    result = process.resolve(a_class(amiSelectorTerms=list(terms), **spec))
    return list(result.status.get("amis", []))


@pytest.mark.parametrize(
    ("alias", "entries", "images"),
    [
        ("al2023@latest", 5, 5),
        ("al2@v20250101", 4, 3),
        ("bottlerocket@v1.46.0", 5, 4),
        ("windows2022@latest", 1, 1),
    ],
)
def test_an_alias_selects_an_ami_per_variant(
    account: Account, processes: Callable[..., NodeClassProcess], alias: str, entries: int, images: int
) -> None:
    process = processes(cluster=msgspec.structs.replace(CLUSTER, version="1.32"))
    for number, entry in enumerate(alias_parameters(alias, "1.32")):
        account.image(f"ami-{number}", architecture="arm64" if "arm64" in entry.name else "x86_64")
        account.parameter(entry.name, f"ami-{number}")

    result = amis(process, {"alias": alias}, amiFamily=None)

    assert len(result) == entries
    assert len({entry["id"] for entry in result}) == images
    assert len({str(entry["requirements"]) for entry in result}) == entries


def test_ami_requirements_match_their_variants(account: Account, process: NodeClassProcess) -> None:
    publish(account, "al2023@latest")

    result = amis(process, {"alias": "al2023@latest"}, amiFamily=None)

    standard = next(entry for entry in result if entry["id"] == "ami-3")
    assert standard["requirements"] == [
        {"key": ARCH, "operator": "In", "values": ["arm64"]},
        {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "DoesNotExist"},
        {"key": "karpenter.k8s.aws/instance-accelerator-count", "operator": "DoesNotExist"},
    ]


def test_parameter_names_are_those_of_aws() -> None:
    assert alias_parameters("al2023@v20250920", "1.34")[1].name == (
        "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/nvidia/"
        "amazon-eks-node-al2023-x86_64-nvidia-1.34-v20250920/image_id"
    )
    assert alias_parameters("al2@latest", "1.32")[2].name == (
        "/aws/service/eks/optimized-ami/1.32/amazon-linux-2-gpu/recommended/image_id"
    )
    assert alias_parameters("al2@v20250920", "1.32")[1].name == (
        "/aws/service/eks/optimized-ami/1.32/amazon-linux-2-arm64/"
        "amazon-eks-arm64-node-1.32-v20250920/image_id"
    )
    assert alias_parameters("bottlerocket@v1.46.0", "1.34")[3].name == (
        "/aws/service/bottlerocket/aws-k8s-1.34-nvidia/arm64/1.46.0/image_id"
    )
    assert alias_parameters("windows2019@latest", "1.34")[0].name == (
        "/aws/service/ami-windows-latest/Windows_Server-2019-English-Core-EKS_Optimized-1.34/image_id"
    )


def test_missing_parameters_are_skipped_unless_all_are_missing(
    account: Account, process: NodeClassProcess
) -> None:
    alias = {"alias": "al2023@latest"}
    result = process.resolve(a_class(amiSelectorTerms=[alias], amiFamily=None))
    assert reasons(result)["AMIsReady"] == "AMINotFound"
    assert "alias al2023@latest" in message(result, "AMIsReady")

    publish(account, "al2023@latest", leaving_out="nvidia")

    assert len(amis(process, alias, amiFamily=None)) == 3


@pytest.mark.parametrize(
    ("alias", "kubernetes", "works"),
    [
        ("al2@latest", "1.32", True),
        ("al2@latest", "1.33", False),
        ("al2@latest", "1.34", False),
        ("windows2025@latest", "1.34", False),
        ("windows2025@latest", "1.35", True),
        ("al2023@latest", "1.40", True),
    ],
)
def test_some_families_exist_for_some_versions_of_kubernetes_only(
    alias: str, kubernetes: str, works: bool
) -> None:
    assert (unsupported_alias_reason(alias, kubernetes) is None) is works


def test_an_unsupported_alias_names_alternatives(process: NodeClassProcess) -> None:
    result = process.resolve(a_class(amiSelectorTerms=[{"alias": "al2@latest"}], amiFamily=None))

    assert reasons(result)["AMIsReady"] == "UnsupportedAlias"
    assert "use al2023@latest" in message(result, "AMIsReady")


def test_amis_are_resolved_by_id_name_tags_and_owner(account: Account, process: NodeClassProcess) -> None:
    account.image("ami-tagged", name="golden-1", tags={"team": "a"}, owner_alias=None)
    account.image("ami-amazon", name="al2023-minimal", architecture="arm64")

    def ids(*terms: dict[str, Any]) -> list[str]:
        return [ami["id"] for ami in amis(process, *terms)]

    assert ids({"id": "ami-mine"}) == ["ami-mine"]
    assert ids({"tags": {"team": "a"}}) == ["ami-tagged"]
    assert ids({"name": "al2023-min*"}) == ["ami-amazon"]
    assert ids({"name": "golden-1"}) == []
    assert ids({"name": "golden-1", "owner": "602401143452"}) == ["ami-tagged"]
    assert sorted(ids({"id": "ami-mine"}, {"name": "al2023-min*"})) == ["ami-amazon", "ami-mine"]


def test_only_names_without_an_owner_get_default_owners() -> None:
    tags = FrozenDict({"team": "a"})
    terms = [
        SelectorTerm(id="ami-1"),
        SelectorTerm(name="x"),
        SelectorTerm(name="y", owner="me"),
        SelectorTerm(tags=tags),
    ]

    request = image_queries(terms, ["ami-2"])

    assert [entry.owners for entry in request] == [(), ("self", "amazon"), ("me",), ()]
    assert request[0].filters == ({"Name": "image-id", "Values": ["ami-1", "ami-2"]},)


def test_amis_that_are_not_available_are_ignored(account: Account, process: NodeClassProcess) -> None:
    account.image("ami-pending", state="pending")
    account.image("ami-mac", architecture="arm64_mac")

    assert amis(process, {"id": "ami-pending"}, {"id": "ami-mac"}) == []


def test_a_user_parameter_selects_an_ami(account: Account, process: NodeClassProcess) -> None:
    account.parameter("/mine/image", "ami-mine")
    account.parameter("/mine/note", "hello")

    def ids(*names: str) -> list[str]:
        return [
            ami_name["id"] for ami_name in amis(process, *({"ssmParameter": ami_name} for ami_name in names))
        ]

    assert ids("/mine/image") == ["ami-mine"]
    assert ids("/mine/image", "/mine/note", "/mine/nothing") == ["ami-mine"]
    [line] = process.log.entries("ssm parameter has no ami id")
    assert line["value"] == "hello"


def test_a_denied_parameter_is_reported(account: Account, process: NodeClassProcess) -> None:
    account.fail("GetParameter", "AccessDeniedException", message="no ssm:GetParameter", status=400)

    result = process.resolve(a_class(amiSelectorTerms=[{"ssmParameter": "/mine/image"}]))

    assert reasons(result)["AMIsReady"] == "AMIsResolutionFailed"
    text = message(result, "AMIsReady")
    assert "GetParameter: AccessDeniedException: no ssm:GetParameter; allow the action in" in text


def test_aws_parameters_are_cached_a_day_and_user_parameters_five_minutes(
    account: Account, process: NodeClassProcess
) -> None:
    publish(account, "windows2022@latest")
    account.parameter("/mine/image", "ami-mine")

    def look(after: timedelta) -> int:
        process.loop.ahead += after
        before = account.calls("GetParameter")
        amis(process, {"alias": "windows2022@latest"}, amiFamily=None)
        amis(process, {"ssmParameter": "/mine/image"})
        return account.calls("GetParameter") - before

    assert look(timedelta()) == 2
    assert look(timedelta(minutes=1)) == 0
    assert look(timedelta(minutes=6)) == 1
    assert look(timedelta(hours=25)) == 2


def test_a_mutable_parameter_with_a_deprecated_ami_is_read_again(
    account: Account, process: NodeClassProcess
) -> None:
    [latest] = publish(account, "windows2022@latest")
    account.image("ami-0", deprecation_time="2020-01-01T00:00:00.000Z")
    [result] = amis(process, {"alias": "windows2022@latest"}, amiFamily=None)
    assert result["deprecated"] is True
    account.image("ami-new")
    account.parameter(latest, "ami-new")

    process.loop.ahead = timedelta(minutes=31)
    amis(process, {"alias": "windows2022@latest"}, amiFamily=None)
    [result] = amis(process, {"alias": "windows2022@latest"}, amiFamily=None)

    assert result["id"] == "ami-new"


def a_candidate(ami_id: str, *, created: str = "2026", **fields: Any) -> AmiCandidate:
    return AmiCandidate(id=ami_id, created=created, **fields)


def test_of_amis_with_equal_requirements_one_is_kept() -> None:
    older = a_candidate("ami-1", created="2025")
    newer = a_candidate("ami-2", created="2026", deprecated=True)
    newest = a_candidate("ami-3", created="2027", deprecated=True)
    named = a_candidate("ami-4", created="2025", name="z")

    assert [ami.id for ami in select_amis([older, newer])] == ["ami-1"]
    assert [ami.id for ami in select_amis([newest, newer])] == ["ami-3"]
    assert [ami.id for ami in select_amis([older, named])] == ["ami-4"]


def test_amis_are_sorted_newest_first_then_by_id() -> None:
    described = [
        {"ImageId": "ami-b", "Architecture": "x86_64", "CreationDate": "2026-01-01"},
        {"ImageId": "ami-a", "Architecture": "arm64", "CreationDate": "2026-01-01"},
        {"ImageId": "ami-c", "Architecture": "i386", "CreationDate": "2027-01-01"},
    ]

    result = select_amis(decode_candidates(described, {}, NOW))

    assert [entry.id for entry in result] == ["ami-a", "ami-b"]
