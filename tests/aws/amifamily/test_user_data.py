"""Properties of user data: 124–128 of the AWS checklist."""

import tomllib
from email import message_from_string
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dovetail.aws.amifamily.bottlerocket import parse_version
from dovetail.aws.amifamily.registry import ami_family_provider
from dovetail.aws.userdata.bootstrap import Bootstrap, kubelet_labels
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ami_family import AmiFamily
from dovetail.model.karpenter.ec2nodeclass import KubeletConfiguration
from dovetail.model.kube.taints import UNREGISTERED_TAINT
from dovetail.ports.cloudprovider import NodeClassNotReadyError
from tests.aws.amifamily.bootstraps import CLUSTER, KUBELET, SHELL, TAINTS, bootstrap
from tests.support.work import count_calls

FAMILIES = [family for family in AmiFamily if family is not AmiFamily.CUSTOM]
DOMAINS = st.sampled_from(["kubernetes.io", "k8s.io", "node-restriction.kubernetes.io"])


def render_user_data(family: AmiFamily, values: Bootstrap) -> bytes:
    return ami_family_provider(family).render_user_data(values).encode()


def parts(family: AmiFamily, **fields: Any) -> list[tuple[str, str]]:
    whole = message_from_string(render_user_data(family, bootstrap(**fields)).decode())
    return [(entry.get_content_type(), entry.get_payload()) for entry in whole.walk()][1:]


@pytest.mark.parametrize("family", FAMILIES)
@given(prefix=st.sampled_from(["", "a.", "deep.er."]), domain=DOMAINS)
def test_restricted_labels_are_left_out_of_user_data(family: AmiFamily, prefix: str, domain: str) -> None:
    labels = FrozenDict({f"{prefix}{domain}/forbidden": "x", f"{domain}.example.com/allowed": "y"})

    message = render_user_data(family, bootstrap(labels=labels)).decode()

    assert "forbidden" not in message
    assert "allowed" in message


@pytest.mark.parametrize("family", FAMILIES)
def test_the_unregistered_taint_is_present_exactly_once(family: AmiFamily) -> None:
    plain = render_user_data(family, bootstrap(taints=TAINTS))
    given_already = render_user_data(family, bootstrap(taints=(*TAINTS, UNREGISTERED_TAINT)))

    assert plain == given_already
    assert plain.count(b"karpenter.sh/unregistered") == 1


@pytest.mark.parametrize("family", FAMILIES)
def test_user_data_contains_the_pod_limit(family: AmiFamily) -> None:
    message = render_user_data(family, bootstrap(max_pods=37)).decode()

    assert "37" in message


def test_every_family_but_custom_sets_the_do_not_sync_taints_label() -> None:
    assert kubelet_labels({}) == {"karpenter.sh/do-not-sync-taints": "true"}
    assert b"do-not-sync" not in render_user_data(AmiFamily.CUSTOM, bootstrap(user_data="#!/bin/sh"))


def test_al2_gets_the_ip_family_of_an_ipv6_cluster() -> None:
    six = msgspec.structs.replace(CLUSTER, dns="fd30::a")

    [(_, script)] = parts(AmiFamily.AL2, cluster=six)

    assert "--ip-family ipv6 \\\n--dns-cluster-ip 'fd30::a'" in script
    assert "--ip-family" not in parts(AmiFamily.AL2)[0][1]


def test_al2023_requires_the_service_cidr() -> None:
    unknown = msgspec.structs.replace(CLUSTER, cidr="")

    with pytest.raises(NodeClassNotReadyError, match="CIDR of cluster demo is not known"):
        render_user_data(AmiFamily.AL2023, bootstrap(cluster=unknown))
    assert render_user_data(AmiFamily.AL2, bootstrap(cluster=unknown))


def test_al2023_passes_unknown_kubelet_fields_through() -> None:
    kubelet = KubeletConfiguration(others=FrozenDict({"shutdownGracePeriod": "30s"}))

    [(_, config)] = parts(AmiFamily.AL2023, kubelet=kubelet)

    assert yaml.safe_load(config)["spec"]["kubelet"]["config"]["shutdownGracePeriod"] == "30s"


def test_al2023_recognizes_a_large_node_config_with_little_work() -> None:
    config = {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": {"a": ["b"] * 5_000}}
    text = yaml.safe_dump(config)
    family = ami_family_provider(AmiFamily.AL2023)

    calls = count_calls(lambda: family.render_user_data(bootstrap(user_data=text)))

    assert calls < 20 * 5_000 + 20_000
    assert "application/node.eks.aws" in family.render_user_data(bootstrap(user_data=text))


def test_user_parts_come_first_and_unchanged() -> None:
    for family in (AmiFamily.AL2, AmiFamily.AL2023):
        result = parts(family, user_data=SHELL)

        assert result[0] == ("text/x-shellscript", SHELL.removesuffix("\n"))
        assert len(result) == 2


def test_a_script_that_contains_the_boundary_is_not_split() -> None:
    script = "#!/bin/bash\ncat <<X\n--//\n--//1\nX\n"

    assert parts(AmiFamily.AL2, user_data=script)[0][1] == script.removesuffix("\n")


@pytest.mark.parametrize("family", [AmiFamily.AL2, AmiFamily.AL2023])
def test_carriage_returns_are_removed(family: AmiFamily) -> None:
    assert b"\r" not in render_user_data(family, bootstrap(user_data="#!/bin/bash\r\necho\r\n"))


@pytest.mark.parametrize("family", [AmiFamily.AL2, AmiFamily.AL2023])
def test_multipart_user_data_with_a_wrong_boundary_is_rejected(family: AmiFamily) -> None:
    broken = 'Content-Type: multipart/mixed; boundary="A"\n\n--B\n\nx\n--B--\n'

    with pytest.raises(NodeClassNotReadyError, match="boundary"):
        render_user_data(family, bootstrap(user_data=broken))


@pytest.mark.parametrize("text", ["settings = [", "settings = 3", "[settings]\nkubernetes = 1"])
def test_invalid_bottlerocket_settings_are_rejected(text: str) -> None:
    with pytest.raises(NodeClassNotReadyError, match="userData"):
        render_user_data(AmiFamily.BOTTLEROCKET, bootstrap(user_data=text))


def test_bottlerocket_gets_image_gc_thresholds_as_text() -> None:
    message = tomllib.loads(render_user_data(AmiFamily.BOTTLEROCKET, bootstrap(kubelet=KUBELET)).decode())

    kubernetes = message["settings"]["kubernetes"]
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
def test_bottlerocket_version_is_parsed_from_the_ami_name(name: str, version: str) -> None:
    assert parse_version(name) == version
