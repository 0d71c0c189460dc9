"""Hand-made plans, to test their output."""

from typing import Any

from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.requirements import NO_REQUIREMENTS
from dovetail.model.kube.resources import NO_RESOURCES, Resources, sum_resources
from dovetail.model.plan import Constraint, PlannedNode, UnschedulablePod, UnschedulableReason
from tests.support.scheduling.builders import a_pod, owned_by


def a_type(name: str, *, cpu: int = 4, memory: str = "16Gi", price: float = 0.2) -> InstanceType:
    offering = Offering(zone="us-east-1a", capacity_type="on-demand", price=price)
    return InstanceType(
        name=name,
        requirements=NO_REQUIREMENTS,
        capacity=Resources.parse({"cpu": cpu, "memory": memory, "pods": 58}),
        overhead=Resources.parse({"cpu": "80m", "memory": "1Gi"}),
        offerings=(offering,),
    )


M5 = a_type("m5.xlarge", price=0.192)
M6I = a_type("m6i.xlarge", price=0.192)
M7I = a_type("m7i.xlarge", price=0.2016)
R5 = a_type("r5.xlarge", memory="32Gi", price=0.252)
C5 = a_type("c5.2xlarge", cpu=8, price=0.34)


def replicas(workload: str, count: int, **like: Any) -> list[Pod]:
    """Pods of one Deployment."""
    same: dict[str, Any] = {"cpu": 1, "memory": "2Gi", **like}
    owner = owned_by("ReplicaSet", workload)
    return [a_pod(f"{workload}-{i}", owner=owner, **same) for i in range(count)]


def a_planned_node(
    name: str,
    pods: list[Pod],
    *types: InstanceType,
    zone: str = "us-east-1a",
    capacity_type: str = "on-demand",
) -> PlannedNode:
    types = types or (M5,)
    [offering] = types[0].offerings
    return PlannedNode(
        name=name,
        nodepool=name.rpartition("-")[0],
        instance_types=types,
        offering=Offering(zone=zone, capacity_type=capacity_type, price=offering.price),
        pods=pods,
        requirements=NO_REQUIREMENTS,
        requested=sum_resources(pod.spec.requests for pod in pods),
        daemon_requests=NO_RESOURCES,
    )


def refused(pod: Pod, *reasons: tuple[str, Constraint, str]) -> UnschedulablePod:
    return UnschedulablePod(pod, tuple(UnschedulableReason(*reason) for reason in reasons))
