"""Kubelet expressions of a node class: every instance type gets its own values."""

from typing import Any

import msgspec
import pytest

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.karpenter.nodeclass_kubelet import decode_kubelet
from dovetail.core.instancetypes.kubelet import evaluate_kubelet, find_failures
from dovetail.core.instancetypes.settings import InstanceTypeSettings
from dovetail.data.bundled import bundled_catalog
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.ami_family import AmiFamily
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.kube.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from tests.core.instancetypes.builders import GIB, MIB, build_type, ec2_type

GATE_ON = InstanceTypeSettings(kubelet_expressions=True)
GATE_OFF = InstanceTypeSettings()


def a_class(family: str = "AL2023", **kubelet: Any) -> EC2NodeClass:
    context = DecodeContext()
    decoded = decode_kubelet(Field(kubelet, context))
    assert context.errors == []
    return EC2NodeClass(ami_family=AmiFamily(family), kubelet=decoded)


def built(name: str, node_class: EC2NodeClass, settings: InstanceTypeSettings = GATE_ON) -> InstanceType:
    return build_type(name, node_class, settings=settings)


def test_max_pods_is_evaluated_for_each_type() -> None:
    node_class = a_class(maxPods="((default_enis - 1) * (ips_per_eni - 1)) + 2")

    assert built("m5.large", node_class).capacity[PODS] == 20
    assert built("m5.24xlarge", node_class).capacity[PODS] == 688


def test_in_max_pods_the_variable_is_the_default_and_pods_per_core_still_limits() -> None:
    assert built("m5.xlarge", a_class(maxPods="max_pods - 8")).capacity[PODS] == 50
    assert built("m5.xlarge", a_class(maxPods="max_pods * 2", podsPerCore=10)).capacity[PODS] == 40
    assert built("m5.xlarge", a_class("Windows2022", maxPods="max_pods / 2")).capacity[PODS] == 55


def test_reservations_are_evaluated_with_the_pods_of_the_node_and_change_allocatable() -> None:
    static = a_class(maxPods=30, kubeReserved={"memory": "592Mi"}, systemReserved={"cpu": "70m"})
    dynamic = a_class(
        maxPods="30", kubeReserved={"memory": "11 * max_pods + 255"}, systemReserved={"cpu": "60 + vcpus * 2"}
    )

    evaluated = built("m5.xlarge", dynamic)

    assert evaluated.kube_reserved == {MEMORY: 592 * MIB}
    assert evaluated.system_reserved == {CPU: 70}
    assert evaluated.allocatable == built("m5.xlarge", static).allocatable


def test_expressions_and_quantities_can_be_mixed() -> None:
    node_class = a_class(
        kubeReserved={"cpu": "vcpus * 50", "memory": "1Gi", "ephemeral-storage": "vcpus", "pid": "1000"}
    )

    evaluated = built("m5.xlarge", node_class)

    assert evaluated.kube_reserved == {CPU: 200, MEMORY: GIB, EPHEMERAL_STORAGE: 4 * GIB, "pid": 1000}


def test_without_expressions_nothing_is_evaluated() -> None:
    node_class = a_class(maxPods=30, kubeReserved={"cpu": "100m"})

    assert evaluate_kubelet(ec2_type("m5.large"), node_class, GATE_ON) is node_class
    assert built("m5.large", node_class).kube_reserved is None


def test_with_the_gate_off_expressions_have_no_effect() -> None:
    node_class = a_class(maxPods="5", kubeReserved={"cpu": "vcpus * 500"})

    assert built("m5.large", node_class, GATE_OFF) == built("m5.large", EC2NodeClass())


def test_a_failing_expression_leaves_the_default_and_is_reported() -> None:
    node_class = a_class(maxPods="30 / (vcpus - 2)", kubeReserved={"cpu": "vcpus - 3", "memory": "256 + 256"})

    failures = dict(find_failures([ec2_type("m5.large"), ec2_type("m5.xlarge")], node_class, GATE_ON))

    assert failures == {
        "maxPods": "fails for m5.large: divide by zero",
        "kubeReserved.cpu": "is -1 for m5.large, but must not be negative",
    }
    evaluated = built("m5.large", node_class)
    assert evaluated.capacity[PODS] == built("m5.large", EC2NodeClass()).capacity[PODS]
    assert evaluated.kube_reserved == {MEMORY: 512 * MIB}


@pytest.mark.parametrize("family", list(AmiFamily))
def test_usual_expressions_work_for_every_type_of_the_catalogue(family: str) -> None:
    node_class = a_class(
        family,
        maxPods="min(250, ((default_enis - 1) * (ips_per_eni - 1)) * 16 + 2)",
        kubeReserved={"cpu": "max(60, vcpus * 30)", "memory": "11 * max_pods + 255"},
        systemReserved={"cpu": "max(20, vcpus * 10)", "memory": "max(100, memory_mib / 64)"},
    )

    assert list(find_failures(bundled_catalog().instance_types, node_class, GATE_ON)) == []


def test_expressions_are_part_of_the_identity_of_a_node_class() -> None:
    node_class = a_class(maxPods="30")

    assert node_class != a_class(maxPods="31")
    assert hash(node_class) == hash(msgspec.structs.replace(node_class))
