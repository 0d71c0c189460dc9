"""Judges each pod against the node it gets: labels, taints, room, ports, volumes.

Part of the checker: shares no code with the solver.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations as pairs

from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import HostPort, Pod
from dovetail.model.kube.resources import Resources, total
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.hosts import Host, Values, always_holds, may_hold, tolerates
from tests.support.purchases import Finding, Shop
from tests.support.volumes import Storage, over_attached, volumes_reachable


def judge_placements(
    snapshot: ClusterSnapshot, hosts: Iterable[Host], shop: Shop
) -> Iterator[Finding]:
    """Find pods that kube-scheduler or the kubelet would not let onto their node."""
    storage = Storage(snapshot)
    remembered: dict[tuple[object, ...], bool] = {}
    for host in hosts:
        if not host.arriving:
            continue
        frozen = FrozenDict(host.possible) if host.planned is None else _relevant(host)
        for pod in host.arriving:
            yield from _judge_pod(pod, host, frozen, storage, remembered)
        yield from _judge_ports(host, shop)
        yield from _judge_room(snapshot, host)
        driver = over_attached(host, storage)
        if driver is not None:
            yield "volume-limit", host.name, f"too many volumes of {driver}"


def _relevant(host: Host) -> FrozenDict[str, Values]:
    """Labels without the hostname, so that alike nodes are judged once."""
    return FrozenDict(
        {key: values for key, values in host.possible.items() if values != {host.name}}
    )


def _judge_pod(
    pod: Pod,
    host: Host,
    labels: FrozenDict[str, Values],
    storage: Storage,
    remembered: dict[tuple[object, ...], bool],
) -> Iterator[Finding]:
    spec = pod.spec
    question = (spec.node_selector, spec.node_terms, spec.tolerations, labels, host.taints)
    if question not in remembered:
        fits = always_holds(spec, host.possible) and tolerates(spec.tolerations, host.taints)
        remembered[question] = fits
    if not remembered[question]:
        if not tolerates(spec.tolerations, host.taints):
            yield "taint", pod.key, f"does not tolerate the taints of {host.name}"
        if not always_holds(spec, host.possible):
            yield "node-affinity", pod.key, f"does not want the labels of {host.name}"
    if spec.volumes:
        if not storage.usable(pod):
            yield "volume", pod.key, "has a volume that no node can help with"
        if not volumes_reachable(storage.demands(pod), host.possible):
            yield "volume", pod.key, f"cannot reach its volumes from {host.name}"
    if spec.needs_devices:
        yield "devices", pod.key, "asks for devices, which nobody hands out"


def _judge_ports(host: Host, shop: Shop) -> Iterator[Finding]:
    holders: list[tuple[str, Sequence[HostPort]]] = [
        (pod.key, pod.spec.host_ports)
        for pod in [*host.resident, *host.arriving]
        if pod.spec.host_ports
    ]
    if not any(pod.spec.host_ports for pod in host.arriving):
        return
    if host.planned is not None and host.planned.nodepool in shop.pools:
        ports = {
            port
            for kind in host.planned.instance_types
            for port in shop.way(host.planned, kind).daemon_ports
        }
        holders.append(("a DaemonSet", tuple(ports)))
    for (one, mine), (other, theirs) in pairs(holders, 2):
        if any(port.clashes(taken) for port in mine for taken in theirs):
            yield "host-port", one, f"clashes with {other} on {host.name}"


def _judge_room(snapshot: ClusterSnapshot, host: Host) -> Iterator[Finding]:
    """Existing nodes only; what a new one holds depends on how it is bought."""
    if host.node is None:
        return
    if host.node.deleting:
        yield "deleting", host.name, "is on its way out and takes no pods"
    arriving = total(pod.spec.requests for pod in host.arriving)
    running = total(pod.spec.requests for pod in host.resident)
    room = host.node.effective_allocatable() - running - _daemons_to_come(snapshot, host)
    if not arriving.fits_in(room):
        yield "resources", host.name, f"{arriving.spelled()} does not fit {room.spelled()}"


def _daemons_to_come(snapshot: ClusterSnapshot, host: Host) -> Mapping[str, int]:
    expected = total(
        (one.newest or one.pod).spec.requests
        for one in snapshot.daemon_sets
        if tolerates(one.pod.spec.tolerations, host.taints)
        and may_hold(one.pod.spec, host.possible)
        and not one.pod.spec.needs_devices
    )
    there = total(pod.spec.requests for pod in host.resident if pod.of_daemon_set)
    return Resources(expected - there).never_negative()
