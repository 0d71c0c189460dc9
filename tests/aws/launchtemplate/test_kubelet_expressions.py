"""Kubelet expressions at launch: user data and launch templates.

``GOLDEN=write`` rewrites the golden files; review the diff before you keep it.
"""

import os
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from dovetail.aws.launchtemplate.launch_config_builder import build_launch_config
from dovetail.aws.launchtemplate.template_data import TemplateVariant, encode_template_data, select_variant
from dovetail.core.instancetypes.build import build_instance_types
from dovetail.core.instancetypes.launch_choices import LaunchChoice
from dovetail.core.instancetypes.settings import InstanceTypeSettings
from dovetail.data.bundled import bundled_catalog
from dovetail.model.karpenter.ami_family import AmiFamily
from tests.aws.amifamily.bootstraps import EVALUATED_FAMILIES
from tests.aws.nodeclass.classes import resolved_class
from tests.core.instancetypes.builders import BOOK, region_offering
from tests.simulator.ec2.harness import ON_DEMAND, a_claim
from tests.support.aws.nodeclass_account import CLUSTER

FILES = Path(__file__).parents[2] / "golden" / "userdata"
NAMES = ("m5.large", "m5a.large", "m5.xlarge")
KUBELET: dict[str, Any] = {
    "maxPods": "min(58, vcpus * 14)",
    "kubeReserved": {"cpu": "max(60, vcpus * 30)", "memory": "11 * max_pods + 255"},
    "systemReserved": {"memory": "memory_mib / 64", "cpu": "50m"},
}
PASSED_ON = {"containerLogMaxSize": "50Mi", "reservedMemory": [{"numaNode": 0, "limits": {"memory": "1Gi"}}]}


def variants(family: AmiFamily = AmiFamily.AL2023, **kubelet: Any) -> dict[str, tuple[TemplateVariant, str]]:
    """Return instance type → template variant and user data."""
    node_class = resolved_class(family.value, kubelet=kubelet, subnetSelectorTerms=[])
    launch_config = build_launch_config(node_class, CLUSTER, "eu-west-1")
    by_type: dict[str, tuple[TemplateVariant, str]] = {}
    for built in build_instance_types(
        [entry for entry in bundled_catalog().instance_types if entry.name in NAMES],
        region=region_offering(NAMES),
        node_class=node_class,
        prices=BOOK,
        settings=InstanceTypeSettings(kubelet_expressions=True),
    ):
        choice = LaunchChoice(instance_type=built, offering=built.offerings[0])
        variant = select_variant(choice, a_claim(), launch_config)
        assert variant is not None
        data = encode_template_data(
            variant, claim=a_claim(), capacity_type=ON_DEMAND, launch_config=launch_config, tags={}
        )
        by_type[built.name] = (variant, b64decode(data["UserData"]).decode())
    return by_type


@pytest.mark.parametrize("family", EVALUATED_FAMILIES)
def test_user_data_has_the_values_of_expressions(family: AmiFamily) -> None:
    others = PASSED_ON if family is AmiFamily.AL2023 else {}
    file = FILES / f"{family.lower()}-expressions.txt"

    user_data = variants(family, **KUBELET, **others)["m5.xlarge"][1].encode()

    if os.environ.get("GOLDEN") == "write":
        file.write_bytes(user_data)
    assert user_data == file.read_bytes()
    assert b"vcpus" not in user_data
    assert b"max_pods" not in user_data


def test_types_with_equal_values_share_a_template() -> None:
    created = variants(**KUBELET)

    assert created["m5.large"] == created["m5a.large"]
    assert created["m5.large"][0] != created["m5.xlarge"][0]
    assert len({variant for variant, _ in created.values()}) == 2


def test_similar_reservations_share_a_template() -> None:
    created = variants(maxPods=20, kubeReserved={"cpu": "61 + vcpus", "memory": "memory_mib / 2000 + 100"})

    assert len({variant for variant, _ in created.values()}) == 1


def test_without_expressions_user_data_and_templates_are_as_before() -> None:
    static = variants(maxPods=20, kubeReserved={"cpu": "70m"})

    assert len({variant for variant, _ in static.values()}) == 1
    assert static["m5.large"][0].kube_reserved is None
