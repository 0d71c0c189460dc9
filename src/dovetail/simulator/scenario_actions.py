"""Actions of a scenario, performed on a simulated cluster."""

from functools import singledispatch

import msgspec

from dovetail.model.labels import POD_DELETION_COST, SPOT
from dovetail.ports.api_resources import DEPLOYMENTS, HORIZONTAL_POD_AUTOSCALERS, PODS, RESOURCES, Resource
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.options import ListOptions, PatchType
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.controllermanager.autoscaling.metrics import LOAD_PREFIX
from dovetail.simulator.ec2.capacity import CapacityLimit
from dovetail.simulator.ec2.instances import InstanceState
from dovetail.simulator.ec2.nodeclass_resolver import selects_by_alias, selects_latest_image
from dovetail.simulator.scenario.model import (
    Action,
    Apply,
    CapacityOutage,
    Delete,
    Interrupt,
    Load,
    NewImages,
    Release,
    Scale,
    ScaleDown,
    Upgrade,
    ZoneOutage,
)


@singledispatch
def perform(action: Action, cluster: SimulatedCluster) -> None:
    """Perform an action on a simulated cluster, now."""
    raise TypeError(f"{action!r} is not an action")


@perform.register
def _(action: Apply, cluster: SimulatedCluster) -> None:
    cluster.apply(action.objects)


@perform.register
def _(action: Scale, cluster: SimulatedCluster) -> None:
    resource = _resource(action.kind)
    namespace = action.namespace if resource.namespaced else ""
    scale = {"spec": {"replicas": action.replicas}}
    cluster.api.patch(resource, action.name, scale, PatchType.MERGE, namespace, subresource="scale")


@perform.register
def _(action: Load, cluster: SimulatedCluster) -> None:
    annotations = {f"{LOAD_PREFIX}{name}": amount for name, amount in action.metrics.items()}
    patch = {"metadata": {"annotations": annotations}}
    cluster.api.patch(HORIZONTAL_POD_AUTOSCALERS, action.name, patch, PatchType.MERGE, action.namespace)


@perform.register
def _(action: Delete, cluster: SimulatedCluster) -> None:
    resource = _resource(action.kind)
    namespace = (action.namespace or "default") if resource.namespaced else ""
    names = [action.name] if action.name else _oldest(resource, namespace, action.count, cluster)
    if not names:
        raise NotFound(f"there is no {action.kind} to delete")
    for name in names:
        cluster.api.delete(resource, name, namespace)


@perform.register
def _(action: Interrupt, cluster: SimulatedCluster) -> None:
    spot = [
        instance
        for instance in cluster.ec2.instances()
        if instance.state is InstanceState.RUNNING and instance.choice.offering.capacity_type == SPOT
    ]
    # At least one, spread evenly over the instances by launch time.
    count = min(len(spot), max(1, round(len(spot) * action.share)))
    for number in range(count):
        cluster.ec2.interrupt(spot[number * len(spot) // count].id)


@perform.register
def _(action: CapacityOutage, cluster: SimulatedCluster) -> None:
    until = None if action.duration is None else cluster.clock.now() + action.duration
    cluster.ec2.capacity.add_limit(
        CapacityLimit(
            instance_type=action.types, zone=action.zones, capacity_type=action.capacity_types, until=until
        )
    )


@perform.register
def _(action: ScaleDown, cluster: SimulatedCluster) -> None:
    for deployment in cluster.api.list(DEPLOYMENTS).items:
        meta, spec = deployment["metadata"], deployment["spec"]
        selector = ",".join(f"{key}={value}" for key, value in spec["selector"]["matchLabels"].items())
        options = ListOptions(namespace=meta["namespace"], label_selector=selector)
        pods = cluster.api.list(PODS, options).items
        names = sorted(pod["metadata"]["name"] for pod in pods)
        removed = round(len(names) * action.share)
        for name in _sample(names, removed, cluster):
            # A low deletion cost makes the ReplicaSet delete this pod first.
            low_cost = {"metadata": {"annotations": {POD_DELETION_COST: "-1000"}}}
            cluster.api.patch(PODS, name, low_cost, PatchType.MERGE, meta["namespace"])
        scale = {"spec": {"replicas": len(names) - removed}}
        cluster.api.patch(DEPLOYMENTS, meta["name"], scale, PatchType.MERGE, meta["namespace"])


def _sample(names: list[str], count: int, cluster: SimulatedCluster) -> list[str]:
    """Return ``count`` names, drawn at random without replacement."""
    remaining = list(names)
    return [remaining.pop(int(cluster.random.random() * len(remaining))) for _ in range(count)]


@perform.register
def _(action: Release, cluster: SimulatedCluster) -> None:
    current = cluster.ec2.latest_image_versions.get(action.family, "v0")
    cluster.ec2.latest_image_versions[action.family] = f"v{int(current[1:]) + 1}"


@perform.register
def _(action: NewImages, cluster: SimulatedCluster) -> None:
    for name, recorded in cluster.ec2.recorded_nodeclasses.items():
        if selects_latest_image(recorded.spec) and (not action.node_classes or name in action.node_classes):
            _release_images(name, cluster)


@perform.register
def _(action: Upgrade, cluster: SimulatedCluster) -> None:
    version = action.version.removeprefix("v")
    if f"v{version}.".startswith(cluster.kubelets.version.rpartition(".")[0] + "."):
        return  # EKS has one version of each minor version.
    cluster.kubelets.version = f"v{version}.0" if version.count(".") == 1 else f"v{version}"
    for name, recorded in cluster.ec2.recorded_nodeclasses.items():
        if selects_by_alias(recorded.spec):
            _release_images(name, cluster)


def _release_images(name: str, cluster: SimulatedCluster) -> None:
    recorded = cluster.ec2.recorded_nodeclasses[name]
    released = msgspec.structs.replace(recorded, release=recorded.release + 1)
    cluster.ec2.recorded_nodeclasses[name] = released


@perform.register
def _(action: ZoneOutage, cluster: SimulatedCluster) -> None:
    cluster.ec2.capacity.add_limit(CapacityLimit(zone=action.zone))
    now = cluster.clock.now()
    for instance in tuple(cluster.ec2.instances()):
        if instance.choice.offering.zone == action.zone:
            cluster.ec2.fail(instance.id)
    for provider_id, launch in cluster.unmanaged.items():
        if launch.zone == action.zone and launch.terminated is None:
            launch.terminated = now
            cluster.ec2.billing.record_shutdown(launch, now=now)
            cluster.kubelets.stop(provider_id)


def _resource(kind: str) -> Resource:
    return next(resource for resource in RESOURCES if resource.kind == kind)


def _oldest(resource: Resource, namespace: str, count: int, cluster: SimulatedCluster) -> list[str]:
    """Return the names of the oldest objects; Nodes only if a NodePool owns them."""
    labels = "karpenter.sh/nodepool" if resource.kind == "Node" else ""
    items = cluster.api.list(resource, ListOptions(namespace=namespace, label_selector=labels)).items
    metas = [item["metadata"] for item in items]
    metas.sort(key=lambda meta: (meta["creationTimestamp"], meta["name"]))
    return [meta["name"] for meta in metas[:count]]
