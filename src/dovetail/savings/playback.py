"""Playback: consolidation of a cluster, played in a simulated copy to its end.

Only consolidation is played: drifted nodes are not replaced. Pods of inferred NodePools
keep their capacity type and architecture, as in plans (``planning.PodHolds``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from dovetail.model import labels as label_keys
from dovetail.savings.adoption import AdoptedCluster
from dovetail.savings.analysis import ConsolidatedFleet, SavingsInput
from dovetail.savings.planning import PodHolds
from dovetail.simulator.cluster import SimulatedCluster

LIMIT: Final = timedelta(hours=24)
"""Simulated time after which playback ends in any case."""
_STEP: Final = timedelta(minutes=10)
_QUIET_STEPS: Final = 4
"""Steps without a change of the bill that end playback: budgets and backoffs are shorter."""
_NO_DRIFT: Final = {"nodes": "0", "reasons": ["Drifted"]}

Object = dict[str, Any]
Labels = dict[str, str]


def play_consolidation(source: SavingsInput, adopted: AdoptedCluster) -> ConsolidatedFleet:
    """Return the bill after the controllers have consolidated a copy."""
    cluster = SimulatedCluster.from_snapshot(
        prepare_objects(adopted),
        now=source.now,
        catalog=source.catalog,
        prices=source.prices,
        settings=source.scheduling,
        region=source.region.name,
        missing=source.missing,
    )
    unmanaged = sum(record.price for record in cluster.unmanaged.values())
    billing = cluster.ec2.billing
    price, quiet, played = billing.price_per_hour(), 0, timedelta()
    while quiet < _QUIET_STEPS and played < LIMIT:
        played += _STEP
        cluster.clock.run(until=source.now + played)
        current = billing.price_per_hour()
        quiet = quiet + 1 if abs(current - price) < 1e-9 else 0
        price = current
    return ConsolidatedFleet(price=price + unmanaged, nodes=billing.instance_count + len(cluster.unmanaged))


def prepare_objects(adopted: AdoptedCluster) -> Iterator[Object]:
    """Yield the objects with budgets against drift, and with node selectors that hold pods."""
    selectors = _find_selectors(adopted)
    for obj in adopted.objects:
        if obj.get("kind") == "NodePool":
            disruption = (obj.get("spec") or {}).get("disruption") or {}
            # Without budgets the default applies, which a budget for one reason would replace.
            budgets = disruption.get("budgets") or [{"nodes": "10%"}]
            yield _merge(obj, ("spec", "disruption"), {"budgets": [*budgets, _NO_DRIFT]})
            continue
        selector = selectors.get(_uid(obj))
        if not selector:
            yield obj
        elif obj.get("kind") == "Pod":
            yield _merge(obj, ("spec", "nodeSelector"), selector)
        else:
            yield _merge(obj, ("spec", "template", "spec", "nodeSelector"), selector)


def _find_selectors(adopted: AdoptedCluster) -> dict[str, Labels]:
    """Return UID → node labels that a pod, or all pods of a controller, keep.

    A controller with pods on nodes with different values of a label is not held to it.
    """
    pools = {inferred.pool.name for inferred in adopted.inferred}
    nodes = {
        obj["metadata"]["name"]: _labels(obj)
        for obj in adopted.objects
        if obj.get("kind") == "Node" and _labels(obj).get(label_keys.NODEPOOL) in pools
    }
    owners = {_uid(obj): _owner(obj) for obj in adopted.objects if obj.get("kind") == "ReplicaSet"}
    daemon_sets = {_uid(obj) for obj in adopted.objects if obj.get("kind") == "DaemonSet"}
    families: dict[str, list[tuple[Object, Labels]]] = {}
    for obj in adopted.objects:
        if obj.get("kind") != "Pod" or not _uid(obj) or _owner(obj) in daemon_sets:
            continue
        owner = _owner(obj)
        root = owners.get(owner) or owner or _uid(obj)
        node = nodes.get((obj.get("spec") or {}).get("nodeName", ""), {})
        families.setdefault(root, []).append((obj, node))
    selectors: dict[str, Labels] = {}
    for root, members in families.items():
        held = {key: value for key in PodHolds.KEYS if (value := _common(key, (at for _, at in members)))}
        if held:
            selectors |= {_uid(pod): held for pod, _ in members}
            selectors[root] = held
    selectors |= {replica_set: selectors[root] for replica_set, root in owners.items() if root in selectors}
    return selectors


def _common(key: str, nodes: Iterable[Labels]) -> str:
    values = {labels.get(key, "") for labels in nodes}
    return values.pop() if len(values) == 1 else ""


def _merge(obj: Object, path: Sequence[str], added: Mapping[str, Any]) -> Object:
    """Return a copy with more fields at a path."""
    if not path:
        return {**obj, **added}
    return {**obj, path[0]: _merge(obj.get(path[0]) or {}, path[1:], added)}


def _uid(obj: Object) -> str:
    return str((obj.get("metadata") or {}).get("uid") or "")


def _owner(obj: Object) -> str:
    references = (obj.get("metadata") or {}).get("ownerReferences") or ()
    return next((str(each.get("uid") or "") for each in references if each.get("controller")), "")


def _labels(obj: Object) -> Labels:
    return (obj.get("metadata") or {}).get("labels") or {}
