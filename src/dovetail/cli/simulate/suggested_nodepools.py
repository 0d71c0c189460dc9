"""NodePools that GPU and Windows pods without a node need, as manifests.

The pods and the instance types of the NodePools decide what is missing. A suggestion is
made only for pods that a plan with it places.
"""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from dovetail.codec.inputs.cluster_inputs import Inputs, read_inputs
from dovetail.codec.text.yaml_writer import to_yaml
from dovetail.core.instancetypes.ami_families import ami_family_facts
from dovetail.core.scheduling.pods.relaxation import node_requirements
from dovetail.errors import InvalidInputError
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.ami_family import AmiFamily
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.requirements import Operator, Requirements
from dovetail.model.kube.taints import Taint, TaintEffect
from dovetail.model.plan import Plan
from dovetail.model.snapshot import ClusterSnapshot


class _Accelerator(msgspec.Struct, frozen=True):
    """Label and value of the instance types that have a resource, and a name for their NodePool."""

    label: str
    manufacturer: str
    nodepool: str


_GPU_MANUFACTURER: Final = "karpenter.k8s.aws/instance-gpu-manufacturer"
_NEURON: Final = _Accelerator("karpenter.k8s.aws/instance-accelerator-manufacturer", "aws", "neuron")
_ACCELERATORS: Final[Mapping[str, _Accelerator]] = {
    "nvidia.com/gpu": _Accelerator(_GPU_MANUFACTURER, "nvidia", "gpu"),
    "amd.com/gpu": _Accelerator(_GPU_MANUFACTURER, "amd", "gpu-amd"),
    "habana.ai/gaudi": _Accelerator(_GPU_MANUFACTURER, "habana", "gaudi"),
    "aws.amazon.com/neuron": _NEURON,
    "aws.amazon.com/neuroncore": _NEURON,
    "aws.amazon.com/neurondevice": _NEURON,
}
_WINDOWS: Final = "windows"
_DEFAULT_WINDOWS: Final = AmiFamily.WINDOWS2022
_WINDOWS_FAMILIES: Final = {
    facts.windows_build: family for family in AmiFamily if (facts := ami_family_facts(family)).is_windows
}
_AMD64: Final = "amd64"
_ARCHITECTURES: Final = (_AMD64, "arm64")
"""A manifest does not show if its images exist for arm64: the second only if pods require it."""
_CATEGORY: Final = f"{label_keys.AWS_DOMAIN}/instance-category"
_ORDINARY_CATEGORIES: Final = ("c", "m", "r")
_TYPE_LABELS: Final = (label_keys.INSTANCE_TYPE, *label_keys.AWS_INSTANCE_LABELS)
_MAX_PLANS: Final = 4

Replan = Callable[[Inputs], Plan]


class SuggestedNodePool(msgspec.Struct, frozen=True):
    """Manifests of a NodePool, and the pods that they are for."""

    purpose: str
    """Such as ``nvidia.com/gpu``."""
    manifests: tuple[dict[str, Any], ...]

    def as_yaml(self) -> str:
        return to_yaml(self.manifests).rstrip("\n")


class _Kind(msgspec.Struct, frozen=True):
    """Special nodes that one NodePool can have."""

    arch: str
    accelerator: _Accelerator | None
    windows: AmiFamily | None
    nodepool: str
    """Name that pods select; empty: any."""


class _SpecialPod(msgspec.Struct, frozen=True):
    """A pod that needs special nodes, with the node requirements that make it so."""

    pod: Pod
    requirements: Requirements

    @property
    def accelerators(self) -> list[str]:
        return [name for name in _ACCELERATORS if self.pod.spec.requests.get(name)]


def suggest_nodepools(
    plan: Plan, snapshot: ClusterSnapshot, inputs: Inputs, replan: Replan
) -> list[SuggestedNodePool]:
    """Return a NodePool for each kind of special node that no NodePool has.

    ``replan`` plans the pods of other inputs in the same way.
    """
    groups = _group_pods([unschedulable.pod for unschedulable in plan.unschedulable], snapshot)
    for _ in range(_MAX_PLANS):
        if not groups:
            break
        builder = _Builder(snapshot, inputs)
        suggestions = [builder.build(kind, members) for kind, members in groups.items()]
        with_suggestions = _add_suggestions(inputs, snapshot, suggestions)
        left = {unschedulable.pod.key for unschedulable in replan(with_suggestions).unschedulable}
        fitting = {
            kind: kept
            for kind, members in groups.items()
            if (kept := [member for member in members if member.pod.key not in left])
        }
        if fitting == groups:
            return suggestions
        groups = fitting
    return []


def _add_suggestions(
    inputs: Inputs, snapshot: ClusterSnapshot, suggestions: Iterable[SuggestedNodePool]
) -> Inputs:
    """Return the inputs with the objects of valid suggestions.

    Labels that pods of a cluster select may be invalid in a NodePool.
    """
    nodepools, node_classes = list(snapshot.nodepools), list(inputs.node_classes)
    for suggestion in suggestions:
        with suppress(InvalidInputError):
            added = read_inputs([(suggestion.purpose, suggestion.as_yaml().encode())])
            nodepools += added.nodepools
            node_classes += added.node_classes
    return msgspec.structs.replace(inputs, nodepools=tuple(nodepools), node_classes=tuple(node_classes))


def _group_pods(pods: Iterable[Pod], snapshot: ClusterSnapshot) -> dict[_Kind, list[_SpecialPod]]:
    """Return the pods that need special nodes, by the kind of node."""
    groups: dict[_Kind, list[_SpecialPod]] = {}
    classified: dict[Any, tuple[_Kind, Requirements] | None] = {}
    for pod in pods:
        if pod.spec not in classified:
            classified[pod.spec] = _classify(pod, snapshot)
        result = classified[pod.spec]
        if result is not None:
            kind, requirements = result
            groups.setdefault(kind, []).append(_SpecialPod(pod, requirements))
    return groups


def _classify(pod: Pod, snapshot: ClusterSnapshot) -> tuple[_Kind, Requirements] | None:
    """Return the kind of special node that a pod needs and no NodePool has, if any."""
    special = [_SpecialPod(pod, requirements) for requirements in _alternatives(pod)]
    kinds = [(kind, member) for member in special if (kind := _find_kind(member, snapshot)) is not None]
    if not kinds or any(_has_nodes_for(member, snapshot) for member in special):
        return None
    kind, member = kinds[0]
    return kind, member.requirements


def _alternatives(pod: Pod) -> Iterator[Requirements]:
    """Yield the required node affinity terms of a pod, each with its node selector."""
    for term in pod.spec.node_terms or (None,):
        terms = () if term is None else (term,)
        yield node_requirements(msgspec.structs.replace(pod.spec, node_terms=terms, preferred_node_terms=()))


def _find_kind(member: _SpecialPod, snapshot: ClusterSnapshot) -> _Kind | None:
    requirements = member.requirements
    nodepool = _single_value(requirements, label_keys.NODEPOOL)
    if _single_value(requirements, label_keys.OS) == _WINDOWS:
        build = _single_value(requirements, label_keys.WINDOWS_BUILD)
        family = _WINDOWS_FAMILIES.get(build) if build else _DEFAULT_WINDOWS
        return None if family is None else _Kind(_AMD64, None, family, nodepool)
    accelerators = {_ACCELERATORS[name] for name in member.accelerators}
    if len(accelerators) != 1:
        return None
    arch = _choose_architecture(member, snapshot)
    return None if arch is None else _Kind(arch, accelerators.pop(), None, nodepool)


def _single_value(requirements: Requirements, key: str) -> str:
    """Return the only value that a label may have; empty if there are others."""
    requirement = requirements.get(key)
    if requirement is None or requirement.complement or len(requirement.values) != 1:
        return ""
    (value,) = requirement.values
    return value


def _choose_architecture(member: _SpecialPod, snapshot: ClusterSnapshot) -> str | None:
    """Return the architecture of the types that a pod may use, amd64 if some have it."""
    of_types = Requirements(
        {
            key: member.requirements[key]
            for key in (label_keys.ARCH, *_TYPE_LABELS)
            if key in member.requirements
        }
    )
    architectures: set[str] = set()
    for types in {id(types): types for types in snapshot.instance_types.values()}.values():
        for instance_type in types:
            has_resources = all(instance_type.capacity.get(name) for name in member.accelerators)
            if has_resources and instance_type.requirements.find_disjoint_key(of_types) is None:
                architectures |= instance_type.requirements[label_keys.ARCH].values
    required = member.requirements.get_or_exists(label_keys.ARCH)
    return next((arch for arch in _ARCHITECTURES if arch in architectures and required.has(arch)), None)


def _has_nodes_for(member: _SpecialPod, snapshot: ClusterSnapshot) -> bool:
    """Return True if a NodePool has types for a pod: something else rules it out there."""
    well_known = Requirements(
        {key: each for key, each in member.requirements.items() if key in label_keys.WELL_KNOWN}
    )
    for pool in snapshot.nodepools:
        if pool.deleting or pool.replicas is not None:
            continue
        required = pool.requirements()
        if required.find_conflict(well_known, allow_undefined=label_keys.WELL_KNOWN) is not None:
            continue
        narrowed = required.intersection(well_known.values())
        for instance_type in snapshot.instance_types.get(pool.name, ()):
            has_resources = all(instance_type.capacity.get(name) for name in member.accelerators)
            if has_resources and instance_type.requirements.find_disjoint_key(narrowed) is None:
                return True
    return False


class _Builder:
    """Builds manifests whose names differ from those that are given."""

    def __init__(self, snapshot: ClusterSnapshot, inputs: Inputs) -> None:
        self._snapshot = snapshot
        self._families = {node_class.name: node_class.ami_family for node_class in inputs.node_classes}
        self._nodepool_names = {pool.name for pool in snapshot.nodepools}

    def build(self, kind: _Kind, members: Sequence[_SpecialPod]) -> SuggestedNodePool:
        if kind.windows is not None:
            return self._build_windows(kind, kind.windows, members)
        requested = {name for member in members for name in member.accelerators}
        accelerator = kind.accelerator
        if accelerator is None:
            raise ValueError(f"{kind} is no special kind of node")
        requirements = [
            _require(accelerator.label, accelerator.manufacturer),
            *_common_requirements(kind, members, leave_out=accelerator.label),
        ]
        name = accelerator.nodepool if kind.arch == _AMD64 else f"{accelerator.nodepool}-{kind.arch}"
        spec = _pool_spec(self._find_linux_node_class(), requirements)
        # The usual taint, which keeps other pods away, if all of these pods are prepared for it.
        for resource in sorted(requested):
            taint = Taint(resource, TaintEffect.NO_SCHEDULE)
            if all(any(each.tolerates(taint) for each in member.pod.spec.tolerations) for member in members):
                spec["template"]["spec"]["taints"] = [{"key": resource, "effect": taint.effect.value}]
                break
        manifest = self._nodepool(kind, name, spec)
        return SuggestedNodePool(", ".join(sorted(requested)), (manifest,))

    def _build_windows(
        self, kind: _Kind, family: AmiFamily, members: Sequence[_SpecialPod]
    ) -> SuggestedNodePool:
        base = _WINDOWS if family is _DEFAULT_WINDOWS else family.lower()
        requirements = [_require(label_keys.OS, _WINDOWS), *_common_requirements(kind, members)]
        if not any(set(_TYPE_LABELS) & member.requirements.keys() for member in members):
            requirements.insert(2, _require(_CATEGORY, *_ORDINARY_CATEGORIES))
        node_class = next((name for name, each in self._families.items() if each is family), None)
        is_given = node_class is not None
        if node_class is None:
            node_class = _choose_name(base, self._families)
            self._families[node_class] = family
        manifests = [self._nodepool(kind, base, _pool_spec(node_class, requirements))]
        if not is_given:
            manifests.append(_windows_node_class(node_class, family))
        build = ami_family_facts(family).windows_build
        purpose = "Windows" if family is _DEFAULT_WINDOWS else f"Windows {build}"
        return SuggestedNodePool(purpose, tuple(manifests))

    def _nodepool(self, kind: _Kind, base: str, spec: dict[str, Any]) -> dict[str, Any]:
        name = _choose_name(kind.nodepool or base, self._nodepool_names)
        self._nodepool_names.add(name)
        return _manifest("karpenter.sh/v1", "NodePool", name, spec)

    def _find_linux_node_class(self) -> str:
        """Return the name of a node class that NodePools use, ``default`` if there is none."""
        names = [pool.template.node_class.name for pool in self._snapshot.nodepools if self._is_linux(pool)]
        return next(filter(None, names), "default")

    def _is_linux(self, pool: NodePool) -> bool:
        family = self._families.get(pool.template.node_class.name)
        return family is None or not ami_family_facts(family).is_windows


def _choose_name(base: str, used: Container[str]) -> str:
    number, name = 1, base
    while name in used:
        number += 1
        name = f"{base}-{number}"
    return name


def _common_requirements(
    kind: _Kind, members: Sequence[_SpecialPod], leave_out: str = ""
) -> Iterator[dict[str, Any]]:
    """Yield the requirements of a NodePool that all pods can use."""
    yield _require(label_keys.ARCH, kind.arch)
    for key in _TYPE_LABELS:
        values = [_allowed_values(member.requirements, key) for member in members]
        if key != leave_out and all(values):
            yield _require(key, *set().union(*values))
    capacity_types = {name for member in members for name in _capacity_types(member.requirements)}
    yield _require(label_keys.CAPACITY_TYPE, *capacity_types)
    yield from _custom_labels(members)


def _allowed_values(requirements: Requirements, key: str) -> frozenset[str]:
    """Return the values that a pod lists for a label; empty if it lists none."""
    requirement = requirements.get(key)
    return requirement.values if requirement and requirement.operator is Operator.IN else frozenset()


def _capacity_types(requirements: Requirements) -> Iterable[str]:
    """Return the capacity types that a pod lists, else on-demand, else another that it allows."""
    listed = _allowed_values(requirements, label_keys.CAPACITY_TYPE)
    required = requirements.get_or_exists(label_keys.CAPACITY_TYPE)
    return listed or [next(filter(required.has, label_keys.CAPACITY_TYPES), label_keys.ON_DEMAND)]


def _custom_labels(members: Iterable[_SpecialPod]) -> Iterator[dict[str, Any]]:
    """Yield requirements on labels that nodes have only by their NodePool.

    All values that pods list are allowed. Labels of node groups are left out: other
    tools would take the nodes for theirs.
    """
    values: dict[str, set[str]] = {}
    for member in members:
        for key in member.requirements:
            is_reserved = label_keys.is_rejected_in_template(key) or label_keys.find_origin(key)
            if key not in label_keys.WELL_KNOWN and not is_reserved:
                values.setdefault(key, set()).update(_allowed_values(member.requirements, key))
    yield from (_require(key, *values[key]) for key in sorted(values) if values[key])


def _require(key: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": Operator.IN.value, "values": sorted(values)}


def _pool_spec(node_class: str, requirements: list[dict[str, Any]]) -> dict[str, Any]:
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": node_class}
    return {"template": {"spec": {"nodeClassRef": reference, "requirements": requirements}}}


def _windows_node_class(name: str, family: AmiFamily) -> dict[str, Any]:
    selector = [{"tags": {"karpenter.sh/discovery": "CLUSTER"}}]
    spec = {
        "role": "ROLE",
        "amiSelectorTerms": [{"alias": f"{family.lower()}@latest"}],
        "subnetSelectorTerms": selector,
        "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "CLUSTER"}}],
    }
    return _manifest("karpenter.k8s.aws/v1", "EC2NodeClass", name, spec)


def _manifest(api_version: str, kind: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}
