"""Judges a plan as kube-scheduler would; shares no code with the solver.

``check`` says what is wrong with a plan. Inter-pod rules are judged by replay:
some order must exist in which every pod binds to the node that the plan gives
it. ``final_state`` is the stricter question whether every pod, taken out,
would be let in again beside all the others.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import Pod
from dovetail.model.plan import Plan, PlannedNode
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.hosts import Host, existing_host
from tests.support.neighbours import Neighbourhood, is_bound_by_neighbours
from tests.support.ordering import Arrivals, Search, Stuck, series
from tests.support.outcome import expected_labels
from tests.support.placements import judge_placements
from tests.support.purchases import Finding, Shop, judge_purchases

FEW = 100
"""Up to so many pods the replay looks for an order thoroughly."""


class Violation(msgspec.Struct, frozen=True):
    """A rule that the plan breaks."""

    rule: str
    about: str
    """The pod, node, NodePool or reservation."""
    message: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.about}: {self.message}"


def check(snapshot: ClusterSnapshot, plan: Plan) -> list[Violation]:
    """Return everything that is wrong with a plan; empty for a good one."""
    findings = list(_judge_bookkeeping(snapshot, plan))
    if not findings:  # With pods lost or doubled the rest means nothing.
        shop = Shop(snapshot)
        hosts = _hosts(snapshot, plan, shop)
        findings += judge_purchases(snapshot, hosts, shop)
        findings += judge_placements(snapshot, hosts, shop)
        findings += _judge_neighbours(snapshot, hosts)
    return [Violation(*finding) for finding in findings]


def final_state(snapshot: ClusterSnapshot, plan: Plan) -> list[Violation]:
    """Return the pods that would not be let in again, were they taken out alone."""
    hosts = _hosts(snapshot, plan, Shop(snapshot))
    return [
        Violation("final", pod.key, f"{host}: {why}")
        for pod, host, why in _not_let_in_again(_arrivals(hosts), _neighbourhood(snapshot, hosts))
    ]


# --- Every pod once --------------------------------------------------------------------------


def _judge_bookkeeping(snapshot: ClusterSnapshot, plan: Plan) -> Iterator[Finding]:
    expected = {pod.key: pod for pod in snapshot.pending}
    leaving = {pod.key: pod for node in snapshot.nodes if node.deleting for pod in node.pods}
    seen = Counter(pod.key for pod in _all_pods(plan))
    for key in expected:
        if key not in seen:
            yield "lost", key, "is neither placed nor refused"
    for key, times in seen.items():
        if times > 1:
            yield "doubled", key, f"appears {times} times"
        if key not in expected and key not in leaving:
            yield "stranger", key, "was never pending"
    yield from _judge_identity(plan, {**leaving, **expected})
    yield from _judge_names(snapshot, plan)


def _judge_identity(plan: Plan, known: Mapping[str, Pod]) -> Iterator[Finding]:
    for pod in _all_pods(plan):
        original = known.get(pod.key)
        if original is not None and (pod.spec, pod.labels) != (original.spec, original.labels):
            yield "changed", pod.key, "is not the pod that was pending"


def _judge_names(snapshot: ClusterSnapshot, plan: Plan) -> Iterator[Finding]:
    names = Counter([node.name for node in plan.nodes] + [node.name for node in snapshot.nodes])
    for name, times in names.items():
        if times > 1:
            yield "name", name, "is the name of several nodes"
    known = {node.name for node in snapshot.nodes}
    for taken in plan.existing:
        if taken.node not in known:
            yield "stranger", taken.node, "is no existing node"
    for node in plan.nodes:
        if not node.pods:
            yield "empty", node.name, "is bought for no pod"


def _all_pods(plan: Plan) -> Iterator[Pod]:
    for node in plan.nodes:
        yield from node.pods
    for taken in plan.existing:
        yield from taken.pods
    for refused in plan.unplaced:
        yield refused.pod


# --- The world after the plan ----------------------------------------------------------------


def _hosts(snapshot: ClusterSnapshot, plan: Plan, shop: Shop) -> list[Host]:
    moved = {pod.key for pod in _all_pods(plan)}
    hosts = {node.name: existing_host(node) for node in snapshot.nodes}
    for node in snapshot.nodes:
        if node.deleting:
            host = hosts[node.name]
            host.resident = [pod for pod in host.resident if pod.key not in moved]
            if not host.resident:
                del hosts[node.name]
    for taken in plan.existing:
        if taken.node not in hosts:
            hosts[taken.node] = next(
                existing_host(node) for node in snapshot.nodes if node.name == taken.node
            )
        hosts[taken.node].arriving = list(taken.pods)
    return [*hosts.values(), *(_planned_host(node, shop) for node in plan.nodes)]


def _planned_host(node: PlannedNode, shop: Shop) -> Host:
    known = node.nodepool in shop.pools and node.instance_types
    return Host(
        name=node.name,
        labels=expected_labels(node) if known else {},
        possible=shop.labels(node) if known else {},
        taints=shop.pools[node.nodepool].template.taints if known else (),
        resident=[],
        arriving=list(node.pods),
        planned=node,
    )


def _arrivals(hosts: Iterable[Host]) -> list[tuple[Pod, str]]:
    return [(pod, host.name) for host in hosts for pod in host.arriving]


def _neighbourhood(snapshot: ClusterSnapshot, hosts: Sequence[Host]) -> Neighbourhood:
    """Know all pods' rules; those that run already are in place."""
    # Pods that are being deleted will be gone; nobody waits for or avoids them.
    running = [(pod, host.name) for host in hosts for pod in host.resident if not pod.deleting]
    arriving = [pod for pod, _ in _arrivals(hosts)]
    return Neighbourhood(hosts, running, arriving, snapshot.namespaces)


# --- Spread, affinity, anti-affinity ---------------------------------------------------------


def _judge_neighbours(snapshot: ClusterSnapshot, hosts: Sequence[Host]) -> Iterator[Finding]:
    around = _neighbourhood(snapshot, hosts)
    for host in hosts:
        if host.planned is not None:
            yield from _judge_open_domains(host, around)
    for pod, name, why in _never_bound(snapshot, hosts):
        yield "neighbours", pod.key, f"could not bind to {name}: {why}"


def _never_bound(snapshot: ClusterSnapshot, hosts: Sequence[Host]) -> list[Stuck]:
    """Look for an order in which all pods bind; return who is stuck in the best one."""
    arrivals = _taking_turns(_arrivals(hosts), {host.name: host for host in hosts})
    around = _neighbourhood(snapshot, hosts)
    if len(arrivals) <= FEW:
        return Search(arrivals, around).stuck()
    # With many pods one order is tried, and only where the final state leaves a doubt.
    if not _not_let_in_again(arrivals, around):
        return []
    return _bind(arrivals, _neighbourhood(snapshot, hosts))


def _not_let_in_again(arrivals: Arrivals, around: Neighbourhood) -> list[Stuck]:
    """Bind all, whatever the rules say, then ask for each beside all the others."""
    for pod, host in arrivals:
        around.add(pod, host)
    found = []
    for pod, host in arrivals:
        around.add(pod, host, -1)
        objection = around.objection(pod, host)
        around.add(pod, host)
        if objection is not None:
            found.append((pod, host, objection))
    return found


def _judge_open_domains(host: Host, around: Neighbourhood) -> Iterator[Finding]:
    """A pod that a rule counts must know its domain before the node is bought."""
    for pod in host.arriving:
        key = around.undecided(pod, host)
        if key is not None:
            values = ", ".join(sorted(map(str, host.values(key))))
            yield "open-domain", pod.key, f"{host.name} leaves {key} open: {values}"


def _bind(arrivals: Arrivals, around: Neighbourhood) -> list[Stuck]:
    """Bind whoever can be bound, again and again; return those who never can."""
    waiting = list(arrivals)
    while waiting:
        refused: list[Stuck] = []
        for pod, host in waiting:
            objection = around.objection(pod, host)
            if objection is None:
                around.add(pod, host)
            else:
                refused.append((pod, host, objection))
        if len(refused) == len(waiting):
            return refused
        waiting = [(pod, host) for pod, host, _ in refused]
    return []


def _taking_turns(
    arrivals: Sequence[tuple[Pod, str]], hosts: Mapping[str, Host]
) -> list[tuple[Pod, str]]:
    """Let alike pods take turns over zones, so that their skew stays low."""
    ranks: Counter[object] = Counter()
    ranked = []
    for pod, host in arrivals:
        row = (series(pod), hosts[host].domain(label_keys.ZONE))
        ranks[row] += 1
        ranked.append((not is_bound_by_neighbours(pod.spec), ranks[row], pod, host))
    ranked.sort(key=lambda one: one[:2])
    return [(pod, host) for _, _, pod, host in ranked]
