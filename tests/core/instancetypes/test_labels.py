"""Node labels of instance types."""

import pytest

from dovetail.core.instancetypes.labels import NITRO_SANDBOX
from dovetail.core.instancetypes.launch_choices import NoLaunchChoices, find_launch_choices
from dovetail.core.instancetypes.type_names import category_and_generation
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.requirements import Operator, Requirement, Requirements, RequirementSpec
from tests.core.instancetypes.builders import LINUX, WINDOWS, build_type, label

AWS = "karpenter.k8s.aws/instance-"


def test_a_gpu_type_has_all_labels_that_ec2_describes() -> None:
    g4dn = build_type("g4dn.8xlarge")

    labels = {
        key: label(g4dn, AWS + key)
        for key in (
            *("category", "generation", "family", "size", "cpu", "cpu-manufacturer", "memory"),
            *("ebs-bandwidth", "network-bandwidth", "local-nvme", "hypervisor"),
            *("gpu-name", "gpu-manufacturer", "gpu-count", "gpu-memory"),
            *("cpu-sustained-clock-speed-mhz", "encryption-in-transit-supported"),
        )
    }
    assert labels == {
        "category": "g",
        "generation": "4",
        "family": "g4dn",
        "size": "8xlarge",
        "cpu": "32",
        "cpu-manufacturer": "intel",
        "memory": "131072",
        "ebs-bandwidth": "9500",
        "network-bandwidth": "50000",
        "local-nvme": "900",
        "hypervisor": "nitro",
        "gpu-name": "t4",
        "gpu-manufacturer": "nvidia",
        "gpu-count": "1",
        "gpu-memory": "16384",
        "cpu-sustained-clock-speed-mhz": "2500",
        "encryption-in-transit-supported": "true",
    }


def test_every_well_known_label_is_either_given_or_said_not_to_exist() -> None:
    requirements = build_type("m5.large").requirements
    added_elsewhere = {label_keys.NODEPOOL, label_keys.EC2_NODE_CLASS}

    assert set(requirements) == label_keys.WELL_KNOWN - added_elsewhere
    assert not any(requirement.complement for requirement in requirements.values())


def test_a_label_that_the_type_lacks_fails_exists_and_meets_not_in() -> None:
    key = AWS + "gpu-name"
    m5 = build_type("m5.large").requirements

    wants_a_gpu = m5.find_conflict(Requirements.from_requirements([Requirement.exists(key)]))
    wants_no_t4 = m5.find_conflict(
        Requirements.from_requirements([Requirement(key, True, frozenset({"t4"}))])
    )

    assert m5[key].operator is Operator.DOES_NOT_EXIST
    assert wants_a_gpu is not None
    assert wants_no_t4 is None


@pytest.mark.parametrize(("name", "supported"), [("m5.xlarge", "true"), ("t3.large", "false")])
def test_every_type_has_the_nitro_sandbox_label(name: str, supported: str) -> None:
    assert label(build_type(name), NITRO_SANDBOX) == supported


def test_a_claim_can_require_types_without_nitro_sandbox() -> None:
    types = (build_type("m5.xlarge"), build_type("t3.large"))
    excluded = RequirementSpec(NITRO_SANDBOX, Operator.IN, ("false",))

    choices = find_launch_choices(NodeClaim(name="claim", requirements=(excluded,)), types)

    assert not isinstance(choices, NoLaunchChoices)
    assert {choice.instance_type.name for choice in choices} == {"t3.large"}


@pytest.mark.parametrize(("name", "flex"), [("m7i-flex.large", "true"), ("m7i.large", "false")])
def test_flex_types_have_the_capability_flex_label(name: str, flex: str) -> None:
    assert label(build_type(name), AWS + "capability-flex") == flex


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("m5.large", ("m", "5")),
        ("u-24tb1.metal", ("u", "1")),
        ("u7in-16tb.224xlarge", ("u", "7")),
        ("im4gn.large", ("im", "4")),
        ("p6-b200.48xlarge", ("p", "6")),
        ("mac-m4.metal", None),
    ],
)
def test_category_and_generation_are_read_off_the_name(name: str, expected: tuple[str, str] | None) -> None:
    assert category_and_generation(name) == expected


def test_bare_metal_has_a_hypervisor_label_without_a_value() -> None:
    assert label(build_type("m5.metal"), AWS + "hypervisor") == ""


def test_arm_types_have_the_architecture_name_of_kubernetes() -> None:
    assert label(build_type("m7g.large"), label_keys.ARCH) == "arm64"
    assert label(build_type("m7i.large"), label_keys.ARCH) == "amd64"


@pytest.mark.parametrize(
    ("name", "chip", "count"), [("inf2.48xlarge", "inferentia2", "12"), ("trn1.2xlarge", "trainium", "1")]
)
def test_neuron_chips_show_as_accelerators_made_by_aws(name: str, chip: str, count: str) -> None:
    ec2_type = build_type(name)

    assert label(ec2_type, AWS + "accelerator-name") == chip
    assert label(ec2_type, AWS + "accelerator-manufacturer") == "aws"
    assert label(ec2_type, AWS + "accelerator-count") == count
    assert label(ec2_type, AWS + "gpu-count") is None


def test_other_inference_chips_keep_their_maker() -> None:
    qualcomm = build_type("dl2q.24xlarge")

    assert label(qualcomm, AWS + "accelerator-manufacturer") == "qualcomm"
    assert label(qualcomm, AWS + "accelerator-name") == "qualcomm-ai100"


def test_bandwidth_to_ebs_is_given_only_where_it_comes_by_default() -> None:
    assert label(build_type("m5.large"), AWS + "ebs-bandwidth") == "4750"
    assert label(build_type("m3.xlarge"), AWS + "ebs-bandwidth") is None


def test_local_disks_that_are_no_nvme_give_no_nvme_label() -> None:
    assert label(build_type("d2.xlarge"), AWS + "local-nvme") is None


@pytest.mark.parametrize("name", ["m6idn.32xlarge", "c6in.32xlarge"])
def test_two_network_cards_that_share_their_bandwidth_are_not_counted_twice(name: str) -> None:
    assert label(build_type(name), AWS + "network-bandwidth") == "200000"


@pytest.mark.parametrize("family", [*LINUX, "Bottlerocket"])
def test_linux_images_run_on_every_architecture_and_have_no_windows_build(family: str) -> None:
    node_class = EC2NodeClass(ami_family=family)

    assert label(build_type("m7g.large", node_class), label_keys.OS) == "linux"
    assert label(build_type("m7i.large", node_class), label_keys.OS) == "linux"
    assert label(build_type("m7i.large", node_class), label_keys.WINDOWS_BUILD) is None


@pytest.mark.parametrize(
    ("family", "build"), list(zip(WINDOWS, ("10.0.17763", "10.0.20348", "10.0.26100"), strict=True))
)
def test_windows_images_have_a_build_and_run_on_amd64_only(family: str, build: str) -> None:
    node_class = EC2NodeClass(ami_family=family)

    assert label(build_type("m7i.large", node_class), label_keys.OS) == "windows"
    assert label(build_type("m7i.large", node_class), label_keys.WINDOWS_BUILD) == build
    assert label(build_type("m7g.large", node_class), label_keys.OS) is None
