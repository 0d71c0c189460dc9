"""Images by selector terms, and which of them boot: 38–45 of the AWS checklist."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from dovetail.aws.nodeclass.ami_aliases import published, why_unsupported
from dovetail.aws.nodeclass.amis import Candidate, best_of, candidates_of, queries_of
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass_launch import SelectorTerm
from tests.aws.nodeclass.classes import a_class, message, reasons
from tests.support.moto_nodeclass import CLUSTER, Account, ClassProcess

NOW = datetime(2026, 6, 1, tzinfo=UTC)
ARCH = "kubernetes.io/arch"


def publish(account: Account, alias: str, *, leaving_out: str = "nothing") -> list[str]:
    """Have the images of an alias; return the parameters that hold them."""
    names = [one.parameter for one in published(alias, "1.34") if leaving_out not in one.parameter]
    for number, name in enumerate(names):
        arch = "arm64" if "arm64" in name else "x86_64"
        account.image(f"ami-{number}", name=f"image-{number}", architecture=arch)
        account.parameter(name, f"ami-{number}")
    return names


def amis(process: ClassProcess, *terms: dict[str, Any], **spec: Any) -> list[dict[str, Any]]:
    found = process.resolve(a_class(amiSelectorTerms=list(terms), **spec))
    return list(found.status.get("amis", []))


@pytest.mark.parametrize(
    ("alias", "entries", "images"),
    [
        ("al2023@latest", 5, 5),
        ("al2@v20250101", 4, 3),
        ("bottlerocket@v1.46.0", 5, 4),
        ("windows2022@latest", 1, 1),
    ],
)
def test_an_alias_means_an_image_for_each_kind_of_machine(
    account: Account,
    processes: Callable[..., ClassProcess],
    alias: str,
    entries: int,
    images: int,
) -> None:
    process = processes(cluster=msgspec.structs.replace(CLUSTER, version="1.32"))
    for number, one in enumerate(published(alias, "1.32")):
        account.image(
            f"ami-{number}", architecture="arm64" if "arm64" in one.parameter else "x86_64"
        )
        account.parameter(one.parameter, f"ami-{number}")

    found = amis(process, {"alias": alias}, amiFamily=None)

    assert len(found) == entries
    assert len({one["id"] for one in found}) == images
    assert len({str(one["requirements"]) for one in found}) == entries


def test_requirements_say_which_machines_an_image_is_for(
    account: Account, process: ClassProcess
) -> None:
    publish(account, "al2023@latest")

    found = amis(process, {"alias": "al2023@latest"}, amiFamily=None)

    standard = next(one for one in found if one["id"] == "ami-3")
    assert standard["requirements"] == [
        {"key": ARCH, "operator": "In", "values": ["arm64"]},
        {"key": "karpenter.k8s.aws/instance-gpu-count", "operator": "DoesNotExist"},
        {"key": "karpenter.k8s.aws/instance-accelerator-count", "operator": "DoesNotExist"},
    ]


def test_names_of_parameters_are_those_under_which_aws_publishes() -> None:
    assert published("al2023@v20250920", "1.34")[1].parameter == (
        "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/nvidia/"
        "amazon-eks-node-al2023-x86_64-nvidia-1.34-v20250920/image_id"
    )
    assert published("al2@latest", "1.32")[2].parameter == (
        "/aws/service/eks/optimized-ami/1.32/amazon-linux-2-gpu/recommended/image_id"
    )
    assert published("al2@v20250920", "1.32")[1].parameter == (
        "/aws/service/eks/optimized-ami/1.32/amazon-linux-2-arm64/"
        "amazon-eks-arm64-node-1.32-v20250920/image_id"
    )
    assert published("bottlerocket@v1.46.0", "1.34")[3].parameter == (
        "/aws/service/bottlerocket/aws-k8s-1.34-nvidia/arm64/1.46.0/image_id"
    )
    assert published("windows2019@latest", "1.34")[0].parameter == (
        "/aws/service/ami-windows-latest/"
        "Windows_Server-2019-English-Core-EKS_Optimized-1.34/image_id"
    )


def test_parameters_that_are_missing_are_left_out_unless_all_are(
    account: Account, process: ClassProcess
) -> None:
    alias = {"alias": "al2023@latest"}
    found = process.resolve(a_class(amiSelectorTerms=[alias], amiFamily=None))
    assert reasons(found)["AMIsReady"] == "AMINotFound"
    assert "alias al2023@latest" in message(found, "AMIsReady")

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
    assert (why_unsupported(alias, kubernetes) is None) is works


def test_an_alias_without_images_for_this_kubernetes_says_what_to_use(
    process: ClassProcess,
) -> None:
    found = process.resolve(a_class(amiSelectorTerms=[{"alias": "al2@latest"}], amiFamily=None))

    assert reasons(found)["AMIsReady"] == "UnsupportedAlias"
    assert "use al2023@latest" in message(found, "AMIsReady")


def test_images_are_found_by_id_name_tags_and_owner(
    account: Account, process: ClassProcess
) -> None:
    account.image("ami-tagged", name="golden-1", tags={"team": "a"}, owner_alias=None)
    account.image("ami-amazon", name="al2023-minimal", architecture="arm64")

    def ids(*terms: dict[str, Any]) -> list[str]:
        return [one["id"] for one in amis(process, *terms)]

    assert ids({"id": "ami-mine"}) == ["ami-mine"]
    assert ids({"tags": {"team": "a"}}) == ["ami-tagged"]
    assert ids({"name": "al2023-min*"}) == ["ami-amazon"]
    assert ids({"name": "golden-1"}) == []
    assert ids({"name": "golden-1", "owner": "602401143452"}) == ["ami-tagged"]
    assert sorted(ids({"id": "ami-mine"}, {"name": "al2023-min*"})) == ["ami-amazon", "ami-mine"]


def test_only_names_without_an_owner_are_looked_for_among_usual_owners() -> None:
    tags = FrozenDict({"team": "a"})
    terms = [
        SelectorTerm(id="ami-1"),
        SelectorTerm(name="x"),
        SelectorTerm(name="y", owner="me"),
        SelectorTerm(tags=tags),
    ]

    asked = queries_of(terms, ["ami-2"])

    assert [one.owners for one in asked] == [(), ("self", "amazon"), ("me",), ()]
    assert asked[0].filters == ({"Name": "image-id", "Values": ["ami-1", "ami-2"]},)


def test_images_that_cannot_be_launched_yet_are_ignored(
    account: Account, process: ClassProcess
) -> None:
    account.image("ami-pending", state="pending")
    account.image("ami-mac", architecture="arm64_mac")

    assert amis(process, {"id": "ami-pending"}, {"id": "ami-mac"}) == []


def test_a_parameter_of_ones_own_names_an_image(account: Account, process: ClassProcess) -> None:
    account.parameter("/mine/image", "ami-mine")
    account.parameter("/mine/note", "hello")

    def ids(*names: str) -> list[str]:
        return [one["id"] for one in amis(process, *({"ssmParameter": one} for one in names))]

    assert ids("/mine/image") == ["ami-mine"]
    assert ids("/mine/image", "/mine/note", "/mine/nothing") == ["ami-mine"]
    [line] = process.log.said("ssm parameter holds no image")
    assert line["value"] == "hello"


def test_a_parameter_that_may_not_be_read_is_told(account: Account, process: ClassProcess) -> None:
    account.refuse(
        "GetParameter", "AccessDeniedException", message="no ssm:GetParameter", status=400
    )

    found = process.resolve(a_class(amiSelectorTerms=[{"ssmParameter": "/mine/image"}]))

    assert reasons(found)["AMIsReady"] == "AMIsResolutionFailed"
    told = message(found, "AMIsReady")
    assert "GetParameter: AccessDeniedException: no ssm:GetParameter; allow it" in told


def test_parameters_are_read_once_a_day_and_ones_own_every_five_minutes(
    account: Account, process: ClassProcess
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


def test_a_deprecated_image_has_its_parameter_read_again_if_that_can_change(
    account: Account, process: ClassProcess
) -> None:
    [latest] = publish(account, "windows2022@latest")
    account.image("ami-0", deprecation_time="2020-01-01T00:00:00.000Z")
    [found] = amis(process, {"alias": "windows2022@latest"}, amiFamily=None)
    assert found["deprecated"] is True
    account.image("ami-new")
    account.parameter(latest, "ami-new")

    process.loop.ahead = timedelta(minutes=31)
    amis(process, {"alias": "windows2022@latest"}, amiFamily=None)
    [found] = amis(process, {"alias": "windows2022@latest"}, amiFamily=None)

    assert found["id"] == "ami-new"


def a_candidate(ami_id: str, *, created: str = "2026", **fields: Any) -> Candidate:
    return Candidate(id=ami_id, created=created, **fields)


def test_of_images_for_the_same_machines_one_is_kept() -> None:
    older = a_candidate("ami-1", created="2025")
    newer = a_candidate("ami-2", created="2026", deprecated=True)
    newest = a_candidate("ami-3", created="2027", deprecated=True)
    named = a_candidate("ami-4", created="2025", name="z")

    assert [one.id for one in best_of([older, newer])] == ["ami-1"]
    assert [one.id for one in best_of([newest, newer])] == ["ami-3"]
    assert [one.id for one in best_of([older, named])] == ["ami-4"]


def test_images_are_listed_newest_first_then_by_id() -> None:
    described = [
        {"ImageId": "ami-b", "Architecture": "x86_64", "CreationDate": "2026-01-01"},
        {"ImageId": "ami-a", "Architecture": "arm64", "CreationDate": "2026-01-01"},
        {"ImageId": "ami-c", "Architecture": "i386", "CreationDate": "2027-01-01"},
    ]

    found = best_of(candidates_of(described, {}, NOW))

    assert [one.id for one in found] == ["ami-a", "ami-b"]
