"""What holds for all user data: 124–128 of the AWS checklist."""

import tomllib
from email import message_from_string
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dovetail.aws.userdata.bootstrap import kubelet_labels
from dovetail.aws.userdata.bottlerocket import version_of
from dovetail.aws.userdata.registry import render
from dovetail.aws.userdata.toml import to_toml
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import Kubelet
from dovetail.model.kube.taints import UNREGISTERED
from dovetail.ports.cloudprovider import NodeClassNotReady
from tests.aws.userdata.machines import CLUSTER, KUBELET, SHELL, TAINTS, a_machine

FAMILIES = ["AL2", "AL2023", "Bottlerocket", "Windows2019", "Windows2022", "Windows2025"]
DOMAINS = st.sampled_from(["kubernetes.io", "k8s.io", "node-restriction.kubernetes.io"])
SCALAR = st.text() | st.integers(-(2**63), 2**63 - 1) | st.booleans() | st.floats(allow_nan=False)
TABLES = st.recursive(
    st.dictionaries(st.text(), SCALAR | st.lists(SCALAR, max_size=3), max_size=4),
    lambda inner: st.dictionaries(st.text(), inner | SCALAR, max_size=3),
    max_leaves=8,
)


def parts(family: str, **fields: Any) -> list[tuple[str, str]]:
    whole = message_from_string(render(family, a_machine(**fields)).decode())
    return [(one.get_content_type(), one.get_payload()) for one in whole.walk()][1:]


@pytest.mark.parametrize("family", FAMILIES)
@given(prefix=st.sampled_from(["", "a.", "deep.er."]), domain=DOMAINS)
def test_labels_that_a_kubelet_may_not_give_itself_are_left_out(
    family: str, prefix: str, domain: str
) -> None:
    labels = FrozenDict({f"{prefix}{domain}/forbidden": "x", f"{domain}.example.com/allowed": "y"})

    told = render(family, a_machine(labels=labels)).decode()

    assert "forbidden" not in told
    assert "allowed" in told


@pytest.mark.parametrize("family", FAMILIES)
def test_the_taint_of_nodes_not_yet_known_is_there_once(family: str) -> None:
    plain = render(family, a_machine(taints=TAINTS))
    given_already = render(family, a_machine(taints=(*TAINTS, UNREGISTERED)))

    assert plain == given_already
    assert plain.count(b"karpenter.sh/unregistered") == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_the_number_of_pods_is_always_said(family: str) -> None:
    told = render(family, a_machine(max_pods=37)).decode()

    assert "37" in told


def test_every_node_but_custom_ones_says_that_it_brings_its_taints() -> None:
    assert kubelet_labels({}) == {"karpenter.sh/do-not-sync-taints": "true"}
    assert b"do-not-sync" not in render("Custom", a_machine(user_data="#!/bin/sh"))


def test_an_ipv6_cluster_says_so_to_al2() -> None:
    six = msgspec.structs.replace(CLUSTER, dns="fd30::a")

    [(_, script)] = parts("AL2", cluster=six)

    assert "--ip-family ipv6 \\\n--dns-cluster-ip 'fd30::a'" in script
    assert "--ip-family" not in parts("AL2")[0][1]


def test_the_network_of_services_must_be_known_to_al2023() -> None:
    unknown = msgspec.structs.replace(CLUSTER, cidr="")

    with pytest.raises(NodeClassNotReady, match="CIDR of cluster demo is not known"):
        render("AL2023", a_machine(cluster=unknown))
    assert render("AL2", a_machine(cluster=unknown))


def test_kubelet_settings_that_only_al2023_knows_reach_it() -> None:
    kubelet = Kubelet(others=FrozenDict({"shutdownGracePeriod": "30s"}))

    [(_, config)] = parts("AL2023", kubelet=kubelet)

    assert yaml.safe_load(config)["spec"]["kubelet"]["config"]["shutdownGracePeriod"] == "30s"


def test_our_part_is_the_last_and_the_users_come_before_it_unchanged() -> None:
    for family in ("AL2", "AL2023"):
        found = parts(family, user_data=SHELL)

        assert found[0] == ("text/x-shellscript", SHELL.removesuffix("\n"))
        assert len(found) == 2


def test_a_script_that_contains_the_boundary_stays_whole() -> None:
    script = "#!/bin/bash\ncat <<X\n--//\n--//1\nX\n"

    assert parts("AL2", user_data=script)[0][1] == script.removesuffix("\n")


@pytest.mark.parametrize("family", ["AL2", "AL2023"])
def test_carriage_returns_do_not_reach_a_shell(family: str) -> None:
    assert b"\r" not in render(family, a_machine(user_data="#!/bin/bash\r\necho\r\n"))


@pytest.mark.parametrize("family", ["AL2", "AL2023"])
def test_parts_that_cannot_be_told_apart_are_refused(family: str) -> None:
    broken = 'Content-Type: multipart/mixed; boundary="A"\n\n--B\n\nx\n--B--\n'

    with pytest.raises(NodeClassNotReady, match="boundary"):
        render(family, a_machine(user_data=broken))


@pytest.mark.parametrize("text", ["settings = [", "settings = 3", "[settings]\nkubernetes = 1"])
def test_user_data_that_bottlerocket_cannot_read_is_refused(text: str) -> None:
    with pytest.raises(NodeClassNotReady, match="userData"):
        render("Bottlerocket", a_machine(user_data=text))


def test_bottlerocket_gets_percentages_of_images_as_text() -> None:
    told = tomllib.loads(render("Bottlerocket", a_machine(kubelet=KUBELET)).decode())

    kubernetes = told["settings"]["kubernetes"]
    assert kubernetes["image-gc-high-threshold-percent"] == "80"
    assert kubernetes["cpu-cfs-quota-enforced"] is False


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("latest", "latest"),
        ("v1.45.0", "1.45.0"),
        ("bottlerocket-aws-k8s-1.32-x86_64-v1.46.2-0a1b2c3d", "1.46.2"),
        ("mine", ""),
    ],
)
def test_the_version_of_bottlerocket_is_read_from_its_name(name: str, version: str) -> None:
    assert version_of(name) == version


@given(TABLES)
def test_any_toml_is_read_as_it_was_written(table: dict[str, Any]) -> None:
    assert tomllib.loads(to_toml(table)) == table
