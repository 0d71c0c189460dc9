"""``dovetail explain``: why nodes are kept and pods are pending, and what it costs."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, Final

import click
import msgspec
from rich.text import Text

from dovetail.cli.explain.output import (
    Blockers,
    NodeExplanation,
    Nodes,
    PodExplanation,
    SavingsReport,
    UnpricedNode,
    format_blockers,
    format_node,
    format_nodes,
    format_pod,
    format_savings,
)
from dovetail.cli.lazy_group import CommandGroup
from dovetail.cli.options.cluster_source import (
    ClusterSource,
    ExplainedCluster,
    read_cluster,
    read_savings,
    source_options,
)
from dovetail.cli.options.policy import POLICY_HELP, POLICY_METAVAR, note_clashes
from dovetail.cli.output.console import progress, write, write_lines
from dovetail.core.cost.fleet_gap import measure_fleet
from dovetail.core.cost.node_groups import GroupKind, find_node_group, is_adoptable
from dovetail.core.cost.node_prices import get_capacity_type
from dovetail.core.disruption.command import KeepReason
from dovetail.core.disruption.policy import DEFAULT_POLICY, Policy
from dovetail.core.pod.eligibility import get_blocking_pdbs, get_protection, is_reschedulable
from dovetail.core.provisioning import format_names, is_provisionable
from dovetail.core.scheduling.host_groups import StuckHostGroup
from dovetail.core.scheduling.pod_outlook import PodOutlook, predict_outlook
from dovetail.core.scheduling.work import is_complex
from dovetail.errors import DovetailError
from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.resources import CPU, MEMORY, sum_resources
from dovetail.model.labels import ASSIGNED_PODS_ANNOTATION
from dovetail.model.node import NodeObject
from dovetail.model.savings import LEDGER_CONFIG_MAP
from dovetail.model.snapshot import ClusterSnapshot
from dovetail.policies.process import open_policy
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.explain.blockers import Objects, compute_savings, group_by_blocker, mark_consolidatable
from dovetail.state.explain.nodes import compute_cluster_target, explain_cluster
from dovetail.state.snapshot import build_provisioning_snapshot
from dovetail.view.decisions import build_savings, show_records

_MAX_BLOCKERS: Final = 20
"""Blockers whose savings are computed; each takes an evaluation of the whole cluster."""
_SAVINGS_DUMP_HELP: Final = (
    "Read a dump with the ConfigMap of the ledger instead of a live cluster. May be repeated."
)
_EPILOG: Final = "Exit codes: 0 explained; 1 bad input, or no such node or pod."


@click.group(cls=CommandGroup)
def explain() -> None:
    """Explain why a node is kept, why a pod is pending, and what blocks savings.

    Reads a live cluster (also a sandbox) or a dump. Changes nothing.
    """


@explain.command(epilog=_EPILOG)
@click.argument("name", required=False)
@click.option(
    "--policy", default=DEFAULT_POLICY.name, show_default=True, metavar=POLICY_METAVAR, help=POLICY_HELP
)
@source_options
def node(name: str | None, output: str, policy: str, **options: Any) -> None:
    """Explain why a node is kept, and its price per hour; without NAME, all nodes."""
    cluster = read_cluster(msgspec.convert(options, ClusterSource))
    if name is not None:
        _find_node(cluster, name)
    note_clashes()
    with open_policy(policy) as opened, progress("Evaluating every node"):
        reasons, unpriced = _explain_nodes(cluster, opened)
    if name is None:
        ranked = Nodes(
            nodes=sorted(reasons, key=lambda reason: (-reason.price, reason.node)),
            unpriced=unpriced,
            gap=measure_fleet(_build_snapshot(cluster)),
            target=compute_cluster_target(
                cluster.cache, cluster.get_instance_types, cluster.now, scheduling=cluster.scheduling
            ),
        )
        _show(output, ranked, format_nodes(ranked, cluster.prices), cluster)
        return
    (reason,) = [reason for reason in reasons if reason.node == name]
    explanation = _explain_node(cluster, reason, unpriced)
    _show(output, explanation, format_node(explanation, cluster.prices), cluster)


@explain.command(epilog=_EPILOG)
@click.argument("name")
@click.option("-n", "--namespace", default="", help="Default: the one that has such a pod.")
@source_options
def pod(name: str, namespace: str, output: str, **options: Any) -> None:
    """Explain where a pod runs or why it is pending, and if it keeps its node.

    For a pending pod: the node that would be launched for it, or why there is none.
    """
    cluster = read_cluster(msgspec.convert(options, ClusterSource))
    selected = _find_pod(cluster, name, namespace)
    with progress("Evaluating the cluster"):
        explanation = _explain_pod(cluster, selected)
    _show(output, explanation, format_pod(explanation, cluster.prices), cluster)


@explain.command(epilog=_EPILOG)
@source_options
def blockers(output: str, **options: Any) -> None:
    """Rank what prevents nodes from being terminated, by the cost of the nodes.

    For each blocker: the price of the nodes that it keeps, and the saving if only
    this blocker were removed.
    """
    cluster = read_cluster(msgspec.convert(options, ClusterSource))
    objects = mark_consolidatable(cluster.cache.objects())

    def evaluate(objects: Objects) -> tuple[KeepReason, ...]:
        cache = ClusterCache.from_objects(objects)
        return explain_cluster(
            cache, cluster.get_instance_types, cluster.now, scheduling=cluster.scheduling, ignore_limits=True
        )

    def compute_saving(objects: Objects) -> float:
        return sum(reason.saving for reason in evaluate(objects))

    with progress("Evaluating every blocker"):
        reasons, unpriced = _price_nodes(cluster, evaluate(objects))
        ranked = compute_savings(group_by_blocker(reasons), compute_saving, objects, _MAX_BLOCKERS)
    report = Blockers(
        blockers=ranked,
        nodes=len(reasons),
        price=sum(reason.price for reason in reasons),
        saving=sum(reason.saving for reason in reasons),
        node_cost=sum(reason.node_cost for reason in reasons),
        unmanaged=sum(reason.code == "unmanaged" for reason in reasons),
        adoptable=sum(_is_adoptable(cluster, reason) for reason in reasons),
        unpriced=unpriced,
    )
    _show(output, report, format_blockers(report, cluster.prices), cluster)


@explain.command(epilog="Exit codes: 0 explained; 1 bad input, or no savings ledger.")
@click.option("--cluster", multiple=True, metavar="DUMP", type=click.Path(), help=_SAVINGS_DUMP_HELP)
@click.option("--kubeconfig", metavar="FILE", help="Default: as for `explain node`.")
@click.option("--context", default="", help="Of the kubeconfig. Default: the current one.")
@click.option("-n", "--namespace", default="", help="Of the controller. Default: any.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), default="table", show_default=True)
def savings(
    cluster: tuple[str, ...], kubeconfig: str | None, context: str, namespace: str, output: str
) -> None:
    """Show what disruption commands expected to save, and what they really saved.

    The controller keeps both in the ConfigMap dovetail-savings of its namespace.
    """
    with progress("Reading the ledger"):
        ledger, now = read_savings(cluster, kubeconfig, context, namespace)
    if ledger is None:
        where = f"in {', '.join(cluster)}" if cluster else f"in namespace {namespace}" if namespace else ""
        raise DovetailError(
            f"there is no ConfigMap {LEDGER_CONFIG_MAP} {where}".rstrip()
            + "; Dovetail's chart installs it, and a dump needs: kubectl get configmap "
            + f"{LEDGER_CONFIG_MAP} -n NAMESPACE -o json"
        )
    report = SavingsReport(at=now, savings=build_savings(ledger, now), decisions=show_records(ledger, now))
    if output == "json":
        write(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        write_lines(list(format_savings(report)))


def _explain_nodes(
    cluster: ExplainedCluster, policy: Policy = DEFAULT_POLICY
) -> tuple[tuple[KeepReason, ...], list[UnpricedNode]]:
    reasons = explain_cluster(
        cluster.cache, cluster.get_instance_types, cluster.now, scheduling=cluster.scheduling, policy=policy
    )
    return _price_nodes(cluster, reasons)


def _price_nodes(
    cluster: ExplainedCluster, reasons: Iterable[KeepReason]
) -> tuple[tuple[KeepReason, ...], list[UnpricedNode]]:
    """Return reasons with the prices of all nodes, and the nodes that are in no sum.

    Nodes without an offering of a NodePool are priced by their labels, as in ``top`` and
    ``savings``. Reserved capacity costs nothing.
    """
    priced_reasons: list[KeepReason] = []
    unpriced: list[UnpricedNode] = []
    for reason in reasons:
        node = cluster.cache.node(reason.node)
        if node is None or reason.price or get_capacity_type(node.labels)[0] == label_keys.RESERVED:
            priced_reasons.append(reason)
            continue
        priced = cluster.node_prices.price(node, cluster.cache.pods_on(node.name))
        priced_reasons.append(msgspec.structs.replace(reason, price=priced.price or 0.0))
        if priced.price is None:
            unpriced.append(UnpricedNode(node=node.name, message=priced.note))
    return tuple(priced_reasons), unpriced


def _is_adoptable(cluster: ExplainedCluster, reason: KeepReason) -> bool:
    """Return True if no NodePool manages a node, and one could."""
    node = cluster.cache.node(reason.node)
    if node is None or reason.code != "unmanaged":
        return False
    return is_adoptable(node.labels, find_node_group(node.labels, node.provider_id))


def _build_snapshot(cluster: ExplainedCluster) -> ClusterSnapshot:
    types = {pool.name: cluster.get_instance_types(pool) for pool in cluster.cache.pools()}
    return build_provisioning_snapshot(cluster.cache, types, cluster.now)


def _show(output: str, data: msgspec.Struct, lines: Iterable[Text], cluster: ExplainedCluster) -> None:
    if output == "json":
        document = {**msgspec.to_builtins(data), "prices": cluster.price_source}
        write(msgspec.json.format(msgspec.json.encode(document)).decode())
    else:
        write_lines(list(lines))


def _find_node(cluster: ExplainedCluster, name: str) -> NodeObject:
    node = cluster.cache.node(name)
    if node is None:
        names = [node.name for node in cluster.cache.nodes()]
        raise DovetailError(f"there is no node {name!r}{_suggest(name, names)}")
    return node


def _find_pod(cluster: ExplainedCluster, name: str, namespace: str) -> Pod:
    namespace, _, bare = name.rpartition("/") if "/" in name else (namespace, "", name)
    cache = cluster.cache
    pods = [pod for node in cache.nodes() for pod in cache.pods_on(node.name)]
    pods += cache.unbound_pods()
    matches = [pod for pod in pods if pod.name == bare and namespace in ("", pod.namespace)]
    if len(matches) > 1:
        namespaces = ", ".join(pod.namespace for pod in matches)
        raise DovetailError(f"several namespaces have a pod {bare!r}: {namespaces}; choose one with -n")
    if not matches:
        elsewhere = sorted({pod.namespace for pod in pods if pod.name == bare})
        if elsewhere:
            raise DovetailError(f"there is no pod {namespace}/{bare}; it is in {', '.join(elsewhere)}")
        where = f" in namespace {namespace}" if namespace else ""
        names = [pod.name for pod in pods if namespace in ("", pod.namespace)]
        raise DovetailError(f"there is no pod {bare!r}{where}{_suggest(bare, names)}")
    return matches[0]


def _suggest(name: str, names: list[str]) -> str:
    close = get_close_matches(name, names, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _explain_node(
    cluster: ExplainedCluster, reason: KeepReason, unpriced: Iterable[UnpricedNode]
) -> NodeExplanation:
    cache = cluster.cache
    node = _find_node(cluster, reason.node)
    pods = cache.pods_on(node.name)
    claims = cache.claims_of(node.provider_id)
    joined = cache.joined_node(node.provider_id or node.name)
    priced = cluster.node_prices.price(node, pods)
    _, is_assumed = get_capacity_type(node.labels)
    is_fargate = priced.group.kind is GroupKind.FARGATE
    return NodeExplanation(
        stay=reason,
        claim=claims[0].name if claims else "",
        nodepool=claims[0].pool if claims else node.labels.get(label_keys.NODEPOOL, ""),
        instance_type=priced.instance_type,
        capacity_type=priced.capacity_type if is_fargate or not is_assumed else "",
        zone=priced.zone,
        unpriced=next((entry.message for entry in unpriced if entry.node == node.name), ""),
        labels=dict(node.labels),
        pods=[pod.key for pod in pods if is_reschedulable(pod)],
        others=sum(not is_reschedulable(pod) for pod in pods),
        allocatable=node.allocatable.to_quantities(),
        free=joined.available().to_quantities() if joined is not None else {},
        burstable=_describe_burstable(cluster, node, pods),
    )


def _describe_burstable(cluster: ExplainedCluster, node: NodeObject, pods: Iterable[Pod]) -> str:
    """Return the CPU credits of a node; empty: it is not burstable, or its type is unknown."""
    pool = cluster.cache.pool(node.labels.get(label_keys.NODEPOOL, ""))
    types = cluster.get_instance_types(pool) if pool is not None else ()
    name = node.labels.get(label_keys.INSTANCE_TYPE, "")
    instance_type = next((known for known in types if known.name == name), None)
    if instance_type is None or instance_type.cpu_credits is None:
        return ""
    requested = sum_resources(pod.spec.requests for pod in pods if not pod.is_terminal)
    return instance_type.cpu_credits.describe([instance_type.expected_cpu(requested)])


def _describe_host_group(group: StuckHostGroup | None) -> str:
    if group is None:
        return ""
    members = format_names(pod.key for pod in group.members)
    return f"it must share a host with Pod {members} on Node {group.node}, which has no room for it"


def _explain_pod(cluster: ExplainedCluster, pod: Pod) -> PodExplanation:
    cache = cluster.cache
    pdbs = cache.pdbs_for(pod)
    blocking = get_blocking_pdbs(pod, pdbs, cluster.now)
    is_protected = get_protection(pod, cluster.now).active
    explanation = PodExplanation(
        pod=pod.key,
        node=pod.node_name,
        budgets=[f"{pdb.namespace}/{pdb.name}" for pdb in pdbs],
        blocking=[f"{pdb.namespace}/{pdb.name}" for pdb in blocking],
        protected=is_protected,
    )
    if pod.node_name:
        return _explain_running(cluster, pod, explanation)
    if not is_provisionable(pod):
        return explanation
    assigned = (
        claim for claim in cache.claims() if pod.uid in claim.annotations.get(ASSIGNED_PODS_ANNOTATION, "")
    )
    claim = next(assigned, None)
    if claim is not None and not claim.deleting:
        return msgspec.structs.replace(explanation, claim=claim.name, waiting=True)
    outlook = predict_outlook(pod, _build_snapshot(cluster), cluster.scheduling)
    explanation = msgspec.structs.replace(explanation, waiting=True)
    return _with_outlook(explanation, pod, outlook)


def _explain_running(cluster: ExplainedCluster, pod: Pod, explanation: PodExplanation) -> PodExplanation:
    """Add the share of the node's price, and the node that the pod could move to."""
    reasons, _ = _explain_nodes(cluster)
    reason = next((reason for reason in reasons if reason.node == pod.node_name), None)
    node = cluster.cache.node(pod.node_name)
    price = reason.price if reason is not None else 0.0
    is_blocker = bool(explanation.blocking) or explanation.protected
    on_fargate = node is not None and find_node_group(node.labels, node.provider_id).kind is GroupKind.FARGATE
    share = _dominant_share(pod, node) if node is not None else 0.0
    explanation = msgspec.structs.replace(
        explanation,
        stay=reason if is_blocker else None,
        node_price=price,
        node_share=1.0 if on_fargate else share,
        on_fargate=on_fargate,
    )
    if on_fargate or pod.is_owned_by_daemon_set or pod.is_static or pod.is_terminal or pod.deleting:
        return explanation
    snapshot = _build_snapshot(cluster)
    others = tuple(other for other in snapshot.nodes if other.name != pod.node_name)
    moved = msgspec.structs.replace(pod, node_name="", nominated_node_name="")
    pending = (*snapshot.pending_pods, moved)
    without_node = msgspec.structs.replace(snapshot, nodes=others, pending_pods=pending)
    outlook = predict_outlook(moved, without_node, cluster.scheduling)
    return _with_outlook(explanation, pod, outlook)


def _dominant_share(pod: Pod, node: NodeObject) -> float:
    """Return the larger share of the node's CPU and memory that the pod requests."""
    shares = (
        pod.spec.requests.get(name, 0) / node.allocatable[name]
        for name in (CPU, MEMORY)
        if node.allocatable.get(name)
    )
    return max(shares, default=0.0)


def _with_outlook(explanation: PodExplanation, pod: Pod, outlook: PodOutlook) -> PodExplanation:
    explanation = msgspec.structs.replace(
        explanation,
        existing=outlook.existing,
        refusals=list(outlook.reasons),
        complex=is_complex(pod.spec),
        host_group=_describe_host_group(outlook.host_group),
        remedy=outlook.remedy,
    )
    if outlook.new is None:
        return explanation
    return msgspec.structs.replace(
        explanation,
        new=outlook.new.instance_type.name,
        new_nodepool=outlook.new.nodepool,
        new_price=outlook.new.price,
        new_burstable=outlook.new.describe_burstable(),
        new_node_cost=outlook.new.node_cost,
    )
