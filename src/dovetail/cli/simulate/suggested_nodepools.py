"""NodePools that would have nodes for unschedulable GPU and Windows pods, as manifests."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from dovetail.codec.text.yaml_writer import to_yaml
from dovetail.model.kube.pod import Pod
from dovetail.model.labels import OS
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
    suggestions: dict[str, SuggestedNodePool] = {}
    for unschedulable in plan.unschedulable:
        resource = _missing_accelerator(unschedulable)
        if resource is not None and resource not in suggestions:
            suggestions[resource] = SuggestedNodePool(
                resource, (_accelerated_pool(resource, unschedulable.pod),)
            )
        elif _lacks_windows(unschedulable) and _WINDOWS not in suggestions:
            suggestions[_WINDOWS] = SuggestedNodePool("Windows", tuple(_windows_manifests()))
    return list(suggestions.values())


def _missing_accelerator(unschedulable: UnschedulablePod) -> str | None:
    """Return the accelerator that a pod requests, if no NodePool has types with it."""
    requested = [name for name in _ACCELERATORS if unschedulable.pod.spec.requests.get(name)]
    if not requested or not unschedulable.reasons:
        return None
    missing = f"allows no type with {requested[0]}"
    is_missing = all(
        reason.constraint is Constraint.RESOURCES and missing in reason.message
        for reason in unschedulable.reasons
    )
    return requested[0] if is_missing else None


def _lacks_windows(unschedulable: UnschedulablePod) -> bool:
    selects_windows = unschedulable.pod.spec.node_selector.get(OS) == _WINDOWS
    return selects_windows and any(
        reason.constraint is Constraint.REQUIREMENT and OS in reason.message
        for reason in unschedulable.reasons
    )


def _accelerated_pool(resource: str, pod: Pod) -> dict[str, Any]:
    key, value = _ACCELERATORS[resource]
    name = resource.partition("/")[2]
    spec = _pool_spec("default", [{"key": key, "operator": "In", "values": [value]}])
    if any(toleration.key == resource for toleration in pod.spec.tolerations):
        # The pods are prepared for the usual taint, which keeps other pods away.
        spec["template"]["spec"]["taints"] = [{"key": resource, "effect": "NoSchedule"}]
    return _manifest("karpenter.sh/v1", "NodePool", name, spec)


def _windows_manifests() -> Iterable[dict[str, Any]]:
    requirement = {"key": OS, "operator": "In", "values": [_WINDOWS]}
    yield _manifest("karpenter.sh/v1", "NodePool", _WINDOWS, _pool_spec(_WINDOWS, [requirement]))
    selector = [{"tags": {"karpenter.sh/discovery": "CLUSTER"}}]
    node_class = {
        "role": "ROLE",
        "amiSelectorTerms": [{"alias": _WINDOWS_ALIAS}],
        "subnetSelectorTerms": selector,
        "securityGroupSelectorTerms": [dict(selector[0])],
    }
    yield _manifest("karpenter.k8s.aws/v1", "EC2NodeClass", _WINDOWS, node_class)


def _pool_spec(node_class: str, requirements: list[dict[str, Any]]) -> dict[str, Any]:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": node_class}
    on_demand = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["on-demand"]}
    return {"template": {"spec": {"nodeClassRef": reference, "requirements": [*requirements, on_demand]}}}


def _manifest(api_version: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}
