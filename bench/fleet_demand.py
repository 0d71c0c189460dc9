"""Snapshot -> demand of the lower bound."""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

import numpy as np

from bench.bound import FleetDemand
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.requirements import Requirements
from dovetail.model.kube.resources import CPU, MEMORY, PODS
from dovetail.model.snapshot import ClusterSnapshot

Selector = tuple[tuple[str, str], ...]
"""Labels and values of a node selector."""
Slot = tuple[str, int]
"""Namespace and selector of a hostname rule, and how many such pods a node takes."""
# A slot is a row of the linear program for each type: only those that need many nodes.
_MAX_SLOTS, _MIN_SLOT_SHARE = 8, 0.02
_RESOURCES = (CPU, MEMORY, PODS)


def reduce_snapshot(snapshot: ClusterSnapshot) -> FleetDemand:
    """Return the demand of a snapshot.

    Limits and most rules between pods are left out, which can only lower the bound. Two
    are known: pods with self anti-affinity on hostname, or a hostname spread that selects
    themselves, take slots of a node. A node has one for each selector, or ``maxSkew``:
    as in Karpenter, the minimum of a hostname spread is 0, for a new node is empty. Node
    selectors are extra resources: pods request 1 of the resource of their selector, and
    types have enough of it for all pods, or none.
    """
    slots = _choose_slots(snapshot.pending_pods)
    counts = Counter(_class_key(pod, slots) for pod in snapshot.pending_pods)
    classes = sorted(counts)
    selectors = sorted({selector for _, selector in classes if selector})
    daemon_requests = np.array([_requests(daemon_set.pod) for daemon_set in snapshot.daemon_sets]).reshape(
        -1, 3
    )
    enough = len(snapshot.pending_pods)
    alloc, price = [], []
    for pool in snapshot.nodepools:
        for instance_type in snapshot.instance_types[pool.name]:
            room = np.array(
                [instance_type.allocatable.get(name, 0) for name in _RESOURCES]
            ) - daemon_requests.sum(axis=0)
            for offerings in _usable_offerings(pool, instance_type):
                if (room > 0).all():
                    admitted = [_admits(pool, instance_type, offerings, s) * enough for s in selectors]
                    alloc.append([*room.tolist(), *(per_node for _, per_node in slots), *admitted])
                    price.append(offerings[0].price)
    sizes = np.array(
        [[*size, *(selector == own for own in selectors)] for size, selector in classes], dtype=np.float64
    )
    room = np.array(alloc, dtype=np.float64)
    requested = (sizes > 0).any(axis=0)
    return FleetDemand(
        sizes[:, requested],
        np.array([counts[key] for key in classes], dtype=np.float64),
        room[:, requested],
        np.array(price),
    )


def _class_key(pod: Pod, slots: Sequence[Slot]) -> tuple[tuple[int, ...], Selector]:
    own = _slots_of(pod)
    size = (*_requests(pod), *(int(slot in own) for slot in slots))
    return size, tuple(sorted(pod.spec.node_selector.items()))


def _requests(pod: Pod) -> tuple[int, ...]:
    return tuple(pod.spec.requests.get(name, 0) for name in _RESOURCES)


def _choose_slots(pods: Sequence[Pod]) -> list[Slot]:
    """Return the slots that need most nodes; leaving out others can only lower the bound."""
    needed = Counter(slot for pod in pods for slot in _slots_of(pod))
    binding = [slot for slot, count in needed.items() if count / slot[1] >= _MIN_SLOT_SHARE * len(pods)]
    return sorted(binding, key=lambda slot: (-needed[slot] / slot[1], slot))[:_MAX_SLOTS]


def _slots_of(pod: Pod) -> set[Slot]:
    """Return the slots of which the pod takes one: it may not share them with its like."""
    terms = [
        (term.topology_key, term.selector, 1)
        for term in pod.spec.anti_affinity
        if not term.namespaces and term.namespace_selector is None
    ]
    terms += [
        (spread.topology_key, spread.selector, spread.max_skew)
        for spread in pod.spec.spreads
        if spread.required and not spread.match_label_keys
    ]
    return {
        (f"{pod.namespace} {selector}", per_node)
        for key, selector, per_node in terms
        if key == label_keys.HOSTNAME and selector is not None and selector.matches(pod.labels)
    }


def _usable_offerings(pool: NodePool, instance_type: InstanceType) -> list[list[Offering]]:
    """Return the offerings that the pool allows, those of one price together."""
    requirements = pool.requirements()
    if instance_type.requirements.find_disjoint_key(requirements) is not None:
        return []
    usable = [
        offering
        for offering in instance_type.offerings
        if offering.available and offering.requirements().find_disjoint_key(requirements) is None
    ]
    usable.sort(key=lambda offering: offering.price)
    return [list(group) for _, group in groupby(usable, key=lambda offering: offering.price)]


def _admits(
    pool: NodePool,
    instance_type: InstanceType,
    offerings: list[Offering],
    selector: tuple[tuple[str, str], ...],
) -> bool:
    """Return True if one of the offerings matches a node selector."""
    wanted = Requirements.from_labels(dict(selector))
    return (
        pool.requirements().find_disjoint_key(wanted) is None
        and instance_type.requirements.find_disjoint_key(wanted) is None
        and any(offering.requirements().find_disjoint_key(wanted) is None for offering in offerings)
    )
