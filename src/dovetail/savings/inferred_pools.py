"""NodePools and EC2NodeClasses for node groups, inferred from their nodes."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from dovetail.codec.karpenter.nodepool_encoding import encode_nodepool
from dovetail.codec.text.suggestions import pluralize
from dovetail.core.cost.node_groups import EKSCTL_CLUSTER, NodeGroup
from dovetail.core.cost.node_prices import get_capacity_type
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import Budget, Disruption, NodeClassRef, NodePool, NodeTemplate
from dovetail.model.kube.pod import PodSpec
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.resources import CPU, MEMORY, Resources, sum_resources
from dovetail.model.kube.taints import Taint, is_ephemeral
from dovetail.model.node import NodeObject

GENERAL_CATEGORIES: Final = ("c", "m", "r")
"""Interchangeable for most pods: only the ratio of memory to CPU differs."""
_CATEGORY: Final = f"{label_keys.AWS_DOMAIN}/instance-category"
_GENERATION: Final = f"{label_keys.AWS_DOMAIN}/instance-generation"
_FAMILY: Final = f"{label_keys.AWS_DOMAIN}/instance-family"
_SYSTEM_DOMAINS: Final = (
    *("kubernetes.io", "k8s.io", "k8s.aws", "amazonaws.com", "eksctl.io", "karpenter.sh"),
    *("cloud.google.com", "azure.com"),
)
_TRANSIENT_TAINTS: Final = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "karpenter.sh/")
_AMI_ALIASES: Final = (
    (re.compile("bottlerocket", re.I), "bottlerocket"),
    (re.compile(r"amazon linux 2023", re.I), "al2023"),
    (re.compile(r"amazon linux 2\b", re.I), "al2"),
    (re.compile(r"windows server 2025", re.I), "windows2025"),
    (re.compile(r"windows server 2022", re.I), "windows2022"),
    (re.compile(r"windows", re.I), "windows2019"),
)
_DEFAULT_ALIAS: Final = "al2023"
_LIMIT_FACTOR: Final = 2
"""Limits relative to the group's size today: replacements run beside what they replace."""
_NAME: Final = re.compile(r"[^a-z0-9-]+")


class InferredPool(msgspec.Struct, frozen=True, kw_only=True):
    """A NodePool for the nodes of a group."""

    group: NodeGroup
    pool: NodePool
    nodes: tuple[str, ...]
    alias: str
    """AMI alias of its node class."""
    notes: tuple[str, ...] = ()
    """Assumptions."""


class PoolInference:
    """Infers NodePools; ``types`` are the instance types of the region by name."""

    def __init__(
        self,
        types: Mapping[str, InstanceType],
        specs: Iterable[PodSpec],
        *,
        taken: Iterable[str] = (),
        keep_types: bool = False,
    ) -> None:
        self._types = types
        self._selected = _selected_keys(specs)
        self._taken = set(taken)
        self._keep_types = keep_types

    def infer(
        self, group: NodeGroup, nodes: Sequence[NodeObject], images: Mapping[str, str]
    ) -> InferredPool | None:
        """Return the NodePool for a group; None if the type of no node is known.

        ``images`` maps node names to ``status.nodeInfo.osImage``.
        """
        known = [node for node in nodes if node.labels.get(label_keys.INSTANCE_TYPE) in self._types]
        if not known:
            return None
        notes: list[str] = []
        alias, os_image = _find_alias(known, images)
        if not os_image:
            notes.append(f"the image of its nodes is not known: {alias} assumed")
        if len(known) < len(nodes):
            notes.append(f"the catalogue has no type of {pluralize(len(nodes) - len(known), 'node')}")
        size = sum_resources(node.capacity for node in known)
        limits = {name: size.get(name, 0) * _LIMIT_FACTOR for name in (CPU, MEMORY)}
        pool = NodePool(
            name=self._name(group),
            template=NodeTemplate(
                labels=FrozenDict(self._labels(known)),
                taints=_common_taints(known),
                requirements=tuple(self._requirements(known)),
                node_class=NodeClassRef("karpenter.k8s.aws", "EC2NodeClass", alias),
            ),
            disruption=Disruption(budgets=(Budget(nodes="10%"),)),
            limits=Resources(limits),
        )
        return InferredPool(
            group=group, pool=pool, nodes=tuple(node.name for node in known), alias=alias, notes=tuple(notes)
        )

    def _name(self, group: NodeGroup) -> str:
        base = _NAME.sub("-", (group.name or "nodes").lower()).strip("-")[:50] or "nodes"
        name, number = base, 2
        while name in self._taken:
            name, number = f"{base}-{number}", number + 1
        self._taken.add(name)
        return name

    def _labels(self, nodes: Sequence[NodeObject]) -> dict[str, str]:
        """Return the labels that all nodes have, of users or selected by pods."""
        common = dict(nodes[0].labels)
        for node in nodes[1:]:
            common = {key: value for key, value in common.items() if node.labels.get(key) == value}
        return {
            key: value
            for key, value in sorted(common.items())
            if label_keys.normalize_key(key) not in label_keys.WELL_KNOWN
            and not label_keys.is_restricted(key)
            and key != label_keys.OS
            and (not _is_system(key) or (key in self._selected and "kubernetes.io" not in key))
        }

    def _requirements(self, nodes: Sequence[NodeObject]) -> Iterable[RequirementSpec]:
        values = {
            key: sorted({node.labels[key] for node in nodes if node.labels.get(key)})
            for key in (label_keys.ARCH, label_keys.OS, label_keys.ZONE)
        }
        types = sorted({node.labels[label_keys.INSTANCE_TYPE] for node in nodes})
        values[label_keys.CAPACITY_TYPE] = sorted({get_capacity_type(node.labels)[0] for node in nodes})
        values[label_keys.ARCH] = values[label_keys.ARCH] or sorted(
            {_label_of(self._types[name], label_keys.ARCH) for name in types} - {""}
        )
        for key, allowed in values.items():
            if allowed:
                yield RequirementSpec(key, Operator.IN, tuple(allowed))
        categories = {_label_of(self._types[name], _CATEGORY) for name in types}
        if self._keep_types:
            yield RequirementSpec(label_keys.INSTANCE_TYPE, Operator.IN, tuple(types))
        elif categories <= {*GENERAL_CATEGORIES, "t"}:
            yield RequirementSpec(_CATEGORY, Operator.IN, tuple(sorted(categories | set(GENERAL_CATEGORIES))))
            generations = [_label_of(self._types[name], _GENERATION) for name in types]
            oldest = min((int(value) for value in generations if value.isdigit()), default=3)
            yield RequirementSpec(_GENERATION, Operator.GT, (str(max(oldest, 3) - 1),))
        else:
            # Accelerators, local disks: pods need what this family has.
            families = sorted({_label_of(self._types[name], _FAMILY) for name in types})
            yield RequirementSpec(_FAMILY, Operator.IN, tuple(families))


def encode_inferred_pool(inferred: InferredPool) -> dict[str, Any]:
    """Return the NodePool as a manifest, consolidation included."""
    encoded = encode_nodepool(inferred.pool)
    encoded["spec"]["disruption"] = {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "1m",
        "budgets": [{"nodes": "10%"}],
    }
    return encoded


def encode_inferred_class(alias: str, cluster: str) -> dict[str, Any]:
    """Return the EC2NodeClass of an AMI alias as a manifest."""
    tags = [{"tags": {"karpenter.sh/discovery": cluster}}]
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": alias},
        "spec": {
            "amiSelectorTerms": [{"alias": f"{alias}@latest"}],
            "role": f"KarpenterNodeRole-{cluster}",
            "subnetSelectorTerms": tags,
            "securityGroupSelectorTerms": tags,
        },
    }


def find_cluster_name(nodes: Iterable[NodeObject]) -> str:
    """Return the name of the cluster in the labels of most nodes; empty if there is none."""
    names = Counter(filter(None, (node.labels.get(EKSCTL_CLUSTER) for node in nodes)))
    return min(names, key=lambda name: (-names[name], name), default="")


def _find_alias(nodes: Sequence[NodeObject], images: Mapping[str, str]) -> tuple[str, str]:
    """Return the AMI alias of most nodes, and the image that it was read from."""
    counts = Counter(images.get(node.name, "") for node in nodes)
    image = min(counts, key=lambda name: (-counts[name], name))
    for pattern, alias in _AMI_ALIASES:
        if pattern.search(image):
            return alias, image
    return _DEFAULT_ALIAS, ""


def _common_taints(nodes: Sequence[NodeObject]) -> tuple[Taint, ...]:
    return tuple(
        taint
        for taint in nodes[0].taints
        if all(taint in node.taints for node in nodes)
        and not is_ephemeral(taint)
        and not taint.key.startswith(_TRANSIENT_TAINTS)
    )


def _selected_keys(specs: Iterable[PodSpec]) -> frozenset[str]:
    """Return the node label keys that pods select."""
    keys: set[str] = set()
    for spec in set(specs):
        keys |= set(spec.node_selector)
        keys |= {expression.key for term in spec.node_terms for expression in term.expressions}
    return frozenset(keys)


def _is_system(key: str) -> bool:
    domain = key.rpartition("/")[0]
    return any(domain == system or domain.endswith("." + system) for system in _SYSTEM_DOMAINS)


def _label_of(instance_type: InstanceType, key: str) -> str:
    requirement = instance_type.requirements.get(key)
    return min(requirement.values, default="") if requirement is not None else ""
