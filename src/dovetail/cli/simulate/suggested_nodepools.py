"""NodePools that would have nodes for unschedulable GPU and Windows pods, as manifests."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from dovetail.codec.text.yaml_writer import to_yaml
from dovetail.core.scheduling.pods.relaxation import node_requirements
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.taints import Taint, TaintEffect
from dovetail.model.labels import CAPACITY_TYPE, OS, WELL_KNOWN, is_rejected_in_template
from dovetail.model.plan import Constraint, Plan, UnschedulablePod

_ACCELERATORS: Final = {
    "nvidia.com/gpu": ("karpenter.k8s.aws/instance-gpu-manufacturer", "nvidia"),
    "amd.com/gpu": ("karpenter.k8s.aws/instance-gpu-manufacturer", "amd"),
    "habana.ai/gaudi": ("karpenter.k8s.aws/instance-gpu-manufacturer", "habana"),
    "aws.amazon.com/neuron": ("karpenter.k8s.aws/instance-accelerator-manufacturer", "aws"),
    "aws.amazon.com/neuroncore": ("karpenter.k8s.aws/instance-accelerator-manufacturer", "aws"),
    "aws.amazon.com/neurondevice": ("karpenter.k8s.aws/instance-accelerator-manufacturer", "aws"),
}
"""Resource → label and value of the instance types that have it."""
_WINDOWS: Final = "windows"
_WINDOWS_ALIAS: Final = "windows2022@latest"


class SuggestedNodePool(msgspec.Struct, frozen=True):
    """Manifests of a NodePool, and the pods that they are for."""

    purpose: str
    """Such as ``nvidia.com/gpu``."""
    manifests: tuple[dict[str, Any], ...]

    def as_yaml(self) -> str:
        return to_yaml(self.manifests).rstrip("\n")


def suggest_nodepools(plan: Plan) -> list[SuggestedNodePool]:
    """Return a NodePool for each kind of special node that no NodePool has."""
    pods_by_purpose: dict[str, list[Pod]] = {}
    for unschedulable in plan.unschedulable:
        purpose = _missing_accelerator(unschedulable) or ("Windows" if _lacks_windows(unschedulable) else "")
        if purpose:
            pods_by_purpose.setdefault(purpose, []).append(unschedulable.pod)
    return [
        SuggestedNodePool(
            purpose,
            (_accelerated_pool(purpose, pods),)
            if purpose in _ACCELERATORS
            else tuple(_windows_manifests(pods)),
        )
        for purpose, pods in pods_by_purpose.items()
    ]


def _missing_accelerator(unschedulable: UnschedulablePod) -> str | None:
    """Return the accelerator that a pod requests, if no NodePool has types with it."""
    requested = [name for name in _ACCELERATORS if unschedulable.pod.spec.requests.get(name)]
    if not requested or not unschedulable.reasons:
        return None
    missing = f"allows no type with {requested[0]}"
    is_missing = all(
        reason.constraint in (Constraint.RESOURCES, Constraint.REQUIREMENT) and missing in reason.message
        for reason in unschedulable.reasons
    )
    return requested[0] if is_missing else None


def _lacks_windows(unschedulable: UnschedulablePod) -> bool:
    selects_windows = unschedulable.pod.spec.node_selector.get(OS) == _WINDOWS
    return selects_windows and any(
        reason.constraint is Constraint.REQUIREMENT and OS in reason.message
        for reason in unschedulable.reasons
    )


def _accelerated_pool(resource: str, pods: list[Pod]) -> dict[str, Any]:
    key, value = _ACCELERATORS[resource]
    name = "gpu-amd" if resource == "amd.com/gpu" else resource.partition("/")[2]
    spec = _pool_spec("default", [{"key": key, "operator": "In", "values": [value]}], pods)
    # The usual taint, which keeps other pods away, if all of these pods are prepared for it.
    taint = Taint(resource, TaintEffect.NO_SCHEDULE)
    if all(any(toleration.tolerates(taint) for toleration in pod.spec.tolerations) for pod in pods):
        spec["template"]["spec"]["taints"] = [{"key": resource, "effect": "NoSchedule"}]
    return _manifest("karpenter.sh/v1", "NodePool", name, spec)


def _windows_manifests(pods: list[Pod]) -> Iterable[dict[str, Any]]:
    requirement = {"key": OS, "operator": "In", "values": [_WINDOWS]}
    yield _manifest("karpenter.sh/v1", "NodePool", _WINDOWS, _pool_spec(_WINDOWS, [requirement], pods))
    selector = [{"tags": {"karpenter.sh/discovery": "CLUSTER"}}]
    node_class = {
        "role": "ROLE",
        "amiSelectorTerms": [{"alias": _WINDOWS_ALIAS}],
        "subnetSelectorTerms": selector,
        "securityGroupSelectorTerms": [dict(selector[0])],
    }
    yield _manifest("karpenter.k8s.aws/v1", "EC2NodeClass", _WINDOWS, node_class)


def _pool_spec(node_class: str, requirements: list[dict[str, Any]], pods: list[Pod]) -> dict[str, Any]:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": node_class}
    capacity_types = {"on-demand", *(pod.spec.node_selector.get(CAPACITY_TYPE, "on-demand") for pod in pods)}
    capacity = {"key": CAPACITY_TYPE, "operator": "In", "values": sorted(capacity_types)}
    custom = [{"key": key, "operator": "In", "values": values} for key, values in _custom_labels(pods)]
    return {
        "template": {"spec": {"nodeClassRef": reference, "requirements": [*requirements, capacity, *custom]}}
    }


def _custom_labels(pods: list[Pod]) -> Iterable[tuple[str, list[str]]]:
    """Yield the labels that pods require and that nodes have only by their NodePool, with all values."""
    values: dict[str, set[str]] = {}
    for pod in pods:
        required = msgspec.structs.replace(pod.spec, preferred_node_terms=())
        for key, requirement in node_requirements(required).items():
            is_custom = key not in WELL_KNOWN and not is_rejected_in_template(key)
            if is_custom and requirement.values and not requirement.complement:
                values.setdefault(key, set()).update(requirement.values)
    for key in sorted(values):
        yield key, sorted(values[key])


def _manifest(api_version: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}
