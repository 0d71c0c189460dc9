"""Admission of pods of templates: LimitRange defaults and constraints, RuntimeClass overhead."""

from typing import Any

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.kube.admission import decode_limit_range, decode_runtime_class
from dovetail.codec.kube.pod_specs import decode_pod_spec, decode_template_resources
from dovetail.model.kube.admission import AdmittedPod, PodAdmission
from dovetail.model.kube.pod import Pod

KATA = {
    "metadata": {"name": "kata"},
    "handler": "kata",
    "overhead": {"podFixed": {"cpu": "250m"}},
    "scheduling": {
        "nodeSelector": {"runtime": "kata"},
        "tolerations": [{"key": "kata", "operator": "Exists"}],
    },
}


def admit(
    *items: dict[str, Any], runtime: dict[str, Any] | None = None, namespace: str = "default", **spec: Any
) -> AdmittedPod:
    """Admit a pod with LimitRange items of the namespace ``default``."""
    limit_range = {"metadata": {"name": "limits", "namespace": "default"}, "spec": {"limits": list(items)}}
    spec = {"containers": [a_container()], **spec}
    pod = Pod(name="p", namespace=namespace, spec=decode_pod_spec(field(spec)))
    classes = [decode_runtime_class(field(runtime))] if runtime else []
    admission = PodAdmission([decode_limit_range(field(limit_range))], classes)
    return admission.admit(pod, decode_template_resources(spec))


def field(value: Any) -> Field:
    return Field(value, DecodeContext(strict=False))


def a_container(requests: dict[str, str] | None = None, **fields: Any) -> dict[str, Any]:
    return {"name": "main", "resources": {"requests": requests or {}}, **fields}


def cpu(admitted: AdmittedPod) -> int:
    assert not admitted.rejection
    return admitted.pod.spec.requests["cpu"]


def test_a_default_request_counts_for_each_container_without_a_request() -> None:
    containers = [a_container({"cpu": "1"}), a_container(), a_container()]

    assert cpu(admit({"type": "Container", "defaultRequest": {"cpu": "200m"}}, containers=containers)) == 1400


def test_a_default_limit_is_the_default_request() -> None:
    assert cpu(admit({"type": "Container", "default": {"cpu": "200m"}})) == 200


def test_a_limit_of_the_container_is_its_request_before_defaults_apply() -> None:
    container = {"name": "main", "resources": {"limits": {"cpu": "2"}}}

    assert cpu(admit({"type": "Container", "default": {"cpu": "200m"}}, containers=[container])) == 2000


def test_defaults_apply_to_init_containers_and_sidecars() -> None:
    sidecar = a_container(restartPolicy="Always")

    admitted = admit(
        {"type": "Container", "default": {"cpu": "200m"}}, initContainers=[a_container(), sidecar]
    )

    assert cpu(admitted) == 400, "the sidecar beside the container"


def test_a_maximum_is_the_default_and_a_minimum_the_default_request() -> None:
    assert cpu(admit({"type": "Container", "max": {"cpu": "3"}, "min": {"cpu": "1"}})) == 3000
    assert cpu(admit({"type": "Container", "min": {"cpu": "1"}})) == 1000


def test_a_limit_range_of_another_namespace_does_not_count() -> None:
    admitted = admit({"type": "Container", "default": {"cpu": "1"}}, namespace="other")

    assert "cpu" not in admitted.pod.spec.requests


def test_items_of_volume_claims_do_not_count() -> None:
    admitted = admit({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}})

    assert not admitted.rejection


def test_a_pod_outside_of_a_limit_range_is_rejected_with_the_reason() -> None:
    containers = [a_container({"cpu": "2"})]

    rejected = admit({"type": "Container", "max": {"cpu": "1"}}, containers=containers)

    assert (
        rejected.rejection
        == "LimitRange limits: per Container, the maximum of cpu is 1, but the request is 2"
    )


def test_all_containers_of_a_pod_count_against_an_item_of_type_pod() -> None:
    item = {"type": "Pod", "min": {"cpu": "2"}}

    assert not admit(item, containers=[a_container({"cpu": "1"}), a_container({"cpu": "1"})]).rejection
    assert "the minimum of cpu is 2" in admit(item, containers=[a_container({"cpu": "1"})]).rejection


def test_overhead_of_the_runtime_class_is_added_with_its_node_selector() -> None:
    admitted = admit(runtime=KATA, runtimeClassName="kata", containers=[a_container({"cpu": "1"})])

    assert cpu(admitted) == 1250
    assert admitted.pod.spec.node_selector["runtime"] == "kata"
    assert [toleration.key for toleration in admitted.pod.spec.tolerations] == ["kata"]


def test_overhead_in_the_template_is_counted_once() -> None:
    admitted = admit(runtime=KATA, runtimeClassName="kata", overhead={"cpu": "250m"})

    assert cpu(admitted) == 250
