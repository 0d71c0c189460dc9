"""Doing what a scenario says."""

from functools import singledispatch

from dovetail.model.labels import SPOT
from dovetail.ports.kubeerrors import NotFound
from dovetail.ports.resources import RESOURCES, Resource
from dovetail.sim.apiserver.options import ListOptions, PatchType
from dovetail.sim.box import Box
from dovetail.sim.cloud.instances import State
from dovetail.sim.cloud.stock import Shortage
from dovetail.sim.scenario.model import Action, Apply, Delete, Interrupt, Scale, SellOut


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


def _resource(kind: str) -> Resource:
    return next(one for one in RESOURCES if one.kind == kind)


def _oldest(resource: Resource, namespace: str, count: int, box: Box) -> list[str]:
    """Return the names of the oldest objects; of Nodes, of those that we bought."""
    labels = "karpenter.sh/nodepool" if resource.kind == "Node" else ""
    items = box.api.list(resource, ListOptions(namespace=namespace, labels=labels)).items
    metas = [one["metadata"] for one in items]
    metas.sort(key=lambda meta: (meta["creationTimestamp"], meta["name"]))
    return [meta["name"] for meta in metas[:count]]
