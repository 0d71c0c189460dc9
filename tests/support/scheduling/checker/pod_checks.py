"""Checks each pod against its node: labels, taints, resources, ports, volumes.

Part of the checker: shares no code with the solver.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations as pairs

from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import HostPort, Pod
from dovetail.model.kube.resources import Resources, sum_resources
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.scheduling.checker.claim_checks import Finding, LaunchOptions
from tests.support.scheduling.checker.nodes import CheckedNode, Values, always_matches, may_match, tolerates
from tests.support.scheduling.checker.volumes import Storage, are_volumes_reachable, find_exceeded_driver


def check_pods(
    snapshot: ClusterSnapshot, nodes: Iterable[CheckedNode], options: LaunchOptions
) -> Iterator[Finding]:
    """Yield pods that kube-scheduler or the kubelet would reject on their node."""
    storage = Storage(snapshot)
    cache: dict[tuple[object, ...], bool] = {}
    for node in nodes:
        if not node.arriving:
            continue
        frozen = FrozenDict(node.possible) if node.planned is None else _relevant(node)
        for pod in node.arriving:
            yield from _check_pod(pod, node, frozen, storage, cache)
        yield from _check_ports(node, options)
        yield from _check_resources(snapshot, node)
        driver = find_exceeded_driver(node, storage)
        if driver is not None:
            yield "volume-limit", node.name, f"too many volumes of {driver}"


def _relevant(node: CheckedNode) -> FrozenDict[str, Values]:
    """Return labels without the hostname, so that identical nodes are checked once."""
    return FrozenDict({key: values for key, values in node.possible.items() if values != {node.name}})


def _check_pod(
    pod: Pod,
    node: CheckedNode,
    labels: FrozenDict[str, Values],
    storage: Storage,
    cache: dict[tuple[object, ...], bool],
) -> Iterator[Finding]:
    spec = pod.spec
    key = (spec.node_selector, spec.node_terms, spec.tolerations, labels, node.taints)
    if key not in cache:
        fits = always_matches(spec, node.possible) and tolerates(spec.tolerations, node.taints)
        cache[key] = fits
    if not cache[key]:
        if not tolerates(spec.tolerations, node.taints):
            yield "taint", pod.key, f"does not tolerate the taints of {node.name}"
        if not always_matches(spec, node.possible):
            yield "node-affinity", pod.key, f"does not match the labels of {node.name}"
    if spec.volumes:
        if not storage.is_usable(pod):
            yield "volume", pod.key, "has a volume that no node can provide"
        if not are_volumes_reachable(storage.node_terms_of(pod), node.possible):
            yield "volume", pod.key, f"cannot attach its volumes on {node.name}"
    if spec.needs_devices:
        yield "devices", pod.key, "requests devices, which are not supported"


def _check_ports(node: CheckedNode, options: LaunchOptions) -> Iterator[Finding]:
    holders: list[tuple[str, Sequence[HostPort]]] = [
        (pod.key, pod.spec.host_ports) for pod in [*node.resident, *node.arriving] if pod.spec.host_ports
    ]
    if not any(pod.spec.host_ports for pod in node.arriving):
        return
    if node.planned is not None and node.planned.nodepool in options.pools:
        ports = {
            port
            for kind in node.planned.instance_types
            for port in options.option(node.planned, kind).daemon_ports
        }
        holders.append(("a DaemonSet", tuple(ports)))
    for (name, used), (other, other_used) in pairs(holders, 2):
        if any(port.conflicts_with(taken) for port in used for taken in other_used):
            yield "host-port", name, f"conflicts with {other} on {node.name}"


def _check_resources(snapshot: ClusterSnapshot, node: CheckedNode) -> Iterator[Finding]:
    """Check existing nodes; the resources of new ones depend on their launch."""
    if node.existing is None:
        return
    if node.existing.deleting:
        yield "deleting", node.name, "is being deleted and takes no pods"
    arriving = sum_resources(pod.spec.requests for pod in node.arriving)
    running = sum_resources(pod.spec.requests for pod in node.resident)
    allocatable = node.existing.effective_allocatable() - running - _missing_daemons(snapshot, node)
    if not arriving.fits_in(allocatable):
        yield "resources", node.name, f"{arriving.to_quantities()} does not fit {allocatable.to_quantities()}"


def _missing_daemons(snapshot: ClusterSnapshot, node: CheckedNode) -> Mapping[str, int]:
    expected = sum_resources(
        (daemon_set.newest_pod or daemon_set.pod).spec.requests
        for daemon_set in snapshot.daemon_sets
        if tolerates(daemon_set.pod.spec.tolerations, node.taints)
        and may_match(daemon_set.pod.spec, node.possible)
        and not daemon_set.pod.spec.needs_devices
    )
    running = sum_resources(pod.spec.requests for pod in node.resident if pod.is_owned_by_daemon_set)
    return Resources(expected - running).clamp_at_zero()
