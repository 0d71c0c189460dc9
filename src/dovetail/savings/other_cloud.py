"""Clusters of another cloud: no bill is known, but what the same pods would cost on EC2."""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from dovetail.core.cost.node_groups import find_other_cloud
from dovetail.core.pod.eligibility import is_reschedulable
from dovetail.core.scheduling.solver import solve
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import NodeClassRef, NodePool, NodeTemplate
from dovetail.model.kube.pod import Pod, PodSpec
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.node import NodeObject
from dovetail.model.settings import SchedulingSettings
from dovetail.model.snapshot import ClusterSnapshot
from dovetail.savings.inferred_pools import GENERAL_CATEGORIES
from dovetail.savings.report import OtherCloud

_POOL: Final = "on-ec2"
_MIN_GENERATION: Final = "4"
_KEPT_LABELS: Final = (label_keys.ARCH, label_keys.OS)
"""Node labels of other clouds that EC2 nodes have with the same values."""


def plan_on_ec2(
    snapshot: ClusterSnapshot,
    nodes: Iterable[NodeObject],
    bound: Iterable[Pod],
    types: Sequence[InstanceType],
    settings: SchedulingSettings,
) -> OtherCloud:
    """Plan EC2 instances for all pods of a cluster of another cloud, bound to nodes or not."""
    nodes = list(nodes)
    pool = _create_pool(nodes)
    pods = [
        replace(_release(pod), node_name="", nominated_node_name="")
        for pod in (*bound, *snapshot.pending_pods)
        if is_reschedulable(pod)
    ]
    moved = replace(
        snapshot,
        nodes=(),
        pending_pods=tuple(pods),
        nodepools=(pool,),
        instance_types=FrozenDict({pool.name: tuple(types)}),
    )
    plan = solve(moved, settings)
    message = ""
    if plan.unschedulable:
        first = plan.unschedulable[0]
        message = f"pod {first.pod.key}: " + "; ".join(reason.message for reason in first.reasons[:2])
    return OtherCloud(
        clouds=sorted({find_other_cloud(node.labels, node.provider_id) for node in nodes}),
        pods=len(pods) - len(plan.unschedulable),
        nodes_on_ec2=len(plan.nodes),
        price_on_ec2=plan.price,
        unschedulable=len(plan.unschedulable),
        message=message,
    )


def _create_pool(nodes: Sequence[NodeObject]) -> NodePool:
    """Return a NodePool of general purpose types with the architectures of the nodes."""
    architectures = sorted({node.labels.get(label_keys.ARCH) or "amd64" for node in nodes})
    domain = label_keys.AWS_DOMAIN
    return NodePool(
        name=_POOL,
        template=NodeTemplate(
            requirements=(
                RequirementSpec(label_keys.ARCH, Operator.IN, tuple(architectures)),
                RequirementSpec(label_keys.CAPACITY_TYPE, Operator.IN, (label_keys.ON_DEMAND,)),
                RequirementSpec(f"{domain}/instance-category", Operator.IN, GENERAL_CATEGORIES),
                RequirementSpec(f"{domain}/instance-generation", Operator.GT, (_MIN_GENERATION,)),
            ),
            node_class=NodeClassRef("karpenter.k8s.aws", "EC2NodeClass", "default"),
        ),
    )


def _release(pod: Pod) -> Pod:
    """Return a pod without the constraints that only nodes of its cloud can meet."""
    spec = pod.spec
    if not (spec.node_selector or spec.node_terms or spec.preferred_node_terms or spec.volumes):
        return pod
    return replace(pod, spec=_release_spec(spec))


def _release_spec(spec: PodSpec) -> PodSpec:
    selector = {key: value for key, value in spec.node_selector.items() if key in _KEPT_LABELS}
    return replace(
        spec, node_selector=FrozenDict(selector), node_terms=(), preferred_node_terms=(), volumes=()
    )
