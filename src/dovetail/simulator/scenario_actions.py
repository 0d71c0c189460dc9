"""Doing what a scenario says."""

from functools import singledispatch

from dovetail.model.labels import POD_DELETION_COST, SPOT
from dovetail.ports.api_resources import DEPLOYMENTS, PODS, RESOURCES, Resource
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.options import ListOptions, PatchType
from dovetail.simulator.cluster import Box
from dovetail.simulator.ec2.capacity import Shortage
from dovetail.simulator.ec2.instances import State
from dovetail.simulator.scenario.model import (
    Action,
    Apply,
    Delete,
    Interrupt,
    Release,
    Scale,
    SellOut,
    Thin,
)


@singledispatch
def act(action: Action, box: Box) -> None:
    """Do something to the cluster in a box, now."""
    raise TypeError(f"{action!r} is no action")


@act.register
def _(action: Apply, box: Box) -> None:
    box.apply(action.objects)


@act.register
def _(action: Scale, box: Box) -> None:
    resource = _resource(action.kind)
    namespace = action.namespace if resource.namespaced else ""
    wanted = {"spec": {"replicas": action.replicas}}
    box.api.patch(resource, action.name, wanted, PatchType.MERGE, namespace, subresource="scale")


@act.register
def _(action: Delete, box: Box) -> None:
    resource = _resource(action.kind)
    namespace = (action.namespace or "default") if resource.namespaced else ""
    names = [action.name] if action.name else _oldest(resource, namespace, action.count, box)
    if not names:
        raise NotFound(f"there is no {action.kind} to delete")
    for name in names:
        box.api.delete(resource, name, namespace)


@act.register
def _(action: Interrupt, box: Box) -> None:
    spot = [
        one
        for one in box.ec2.instances()
        if one.state is State.RUNNING and one.choice.offering.capacity_type == SPOT
    ]
    # Every third and so on, so that the storm hits all over the cluster; and never nobody.
    count = min(len(spot), max(1, round(len(spot) * action.share)))
    for number in range(count):
        box.ec2.interrupt(spot[number * len(spot) // count].id)


@act.register
def _(action: SellOut, box: Box) -> None:
    until = None if action.lasts is None else box.engine.now() + action.lasts
    box.ec2.stock.run_short(
        Shortage(
            instance_type=action.types,
            zone=action.zones,
            capacity_type=action.capacity_types,
            until=until,
        )
    )


@act.register
def _(action: Thin, box: Box) -> None:
    for deployment in box.api.list(DEPLOYMENTS).items:
        meta, spec = deployment["metadata"], deployment["spec"]
        wanted = ",".join(
            f"{key}={value}" for key, value in spec["selector"]["matchLabels"].items()
        )
        listed = box.api.list(PODS, ListOptions(namespace=meta["namespace"], labels=wanted)).items
        names = sorted(one["metadata"]["name"] for one in listed)
        leaving = round(len(names) * action.share)
        for name in _drawn(names, leaving, box):
            # So that its ReplicaSet picks this one, as users have it pick.
            note = {"metadata": {"annotations": {POD_DELETION_COST: "-1000"}}}
            box.api.patch(PODS, name, note, PatchType.MERGE, meta["namespace"])
        smaller = {"spec": {"replicas": len(names) - leaving}}
        box.api.patch(DEPLOYMENTS, meta["name"], smaller, PatchType.MERGE, meta["namespace"])


def _drawn(names: list[str], count: int, box: Box) -> list[str]:
    """Draw some of them, each as likely as the others."""
    left = list(names)
    return [left.pop(int(box.chance.fraction() * len(left))) for _ in range(count)]


@act.register
def _(action: Release, box: Box) -> None:
    released = box.ec2.latest.get(action.family, "v0")
    box.ec2.latest[action.family] = f"v{int(released[1:]) + 1}"


def _resource(kind: str) -> Resource:
    return next(one for one in RESOURCES if one.kind == kind)


def _oldest(resource: Resource, namespace: str, count: int, box: Box) -> list[str]:
    """Return the names of the oldest objects; of Nodes, of those that we bought."""
    labels = "karpenter.sh/nodepool" if resource.kind == "Node" else ""
    items = box.api.list(resource, ListOptions(namespace=namespace, labels=labels)).items
    metas = [one["metadata"] for one in items]
    metas.sort(key=lambda meta: (meta["creationTimestamp"], meta["name"]))
    return [meta["name"] for meta in metas[:count]]
