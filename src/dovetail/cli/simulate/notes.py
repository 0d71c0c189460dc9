"""Notes below a plan: on prices, on operating systems, and on files that another command fits better."""

from collections import Counter
from collections.abc import Iterator, Sequence
from shlex import quote
from typing import Final

import msgspec

from dovetail.cli.output.plan_report import has_estimated_price, is_job_node, is_job_pod
from dovetail.cli.simulate.table import get_workload
from dovetail.codec.inputs.cluster_inputs import Inputs
from dovetail.codec.text.suggestions import join_first, pluralize
from dovetail.core.nodeclaim.drift import get_nodepool_drift_reason
from dovetail.core.nodepool.hash import compute_nodepool_hash_annotations
from dovetail.model import labels as label_keys
from dovetail.model.cloud.prices import PriceBook
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import PodSpec
from dovetail.model.plan import Plan, PlannedNode

_WINDOWS_KEYS: Final = frozenset({label_keys.OS, label_keys.WINDOWS_BUILD, label_keys.NODEPOOL})
"""A pod that selects one of them is meant for Windows."""


def note_inputs(inputs: Inputs, manifests: Sequence[str], cluster: Sequence[str]) -> Iterator[str]:
    """Yield notes on nodes that drift, and on a dump among the manifests."""
    if manifests and cluster:
        yield from _note_drift(inputs, manifests, cluster)
    if inputs.nodes and not cluster:
        yield (
            "the manifests have nodes; a plan for a live cluster, with the pods that run on them, "
            f"needs its dump: dovetail simulate --cluster {quote(manifests[0])}"
        )


def _note_drift(inputs: Inputs, manifests: Sequence[str], cluster: Sequence[str]) -> Iterator[str]:
    """Yield how many nodes differ from the NodePools as changed, and how to preview that."""
    drifted = _count_drifted(inputs)
    if not drifted:
        return
    pools = ", ".join(f"{pluralize(count, 'node')} of NodePool {name}" for name, count in drifted.items())
    files = [part for path in cluster for part in ("--cluster", quote(path))]
    files += [part for path in manifests for part in ("-f", quote(path))]
    yield f"drift replaces {pools}; preview it with: dovetail preview {' '.join(files)}"


def _count_drifted(inputs: Inputs) -> dict[str, int]:
    """Return NodePool → number of NodeClaims that manifests make drift, by name.

    NodeClaims that had drifted before do not count.
    """
    pools = {pool.name: pool for pool in inputs.nodepools if pool.name in inputs.changed_nodepools}
    names = (
        name
        for claim in inputs.claims
        if (name := claim.labels.get(label_keys.NODEPOOL, "")) in pools
        and _drifts(claim, pools[name])
        and not _drifts(claim, inputs.changed_nodepools[name])
    )
    return dict(sorted(Counter(names).items()))


def _drifts(claim: NodeClaim, pool: NodePool | None) -> bool:
    """Return True if a NodeClaim no longer matches a NodePool, with the hash of its spec as given."""
    if pool is None:
        return False
    annotations = pool.annotations.with_items(compute_nodepool_hash_annotations(pool))
    return (
        get_nodepool_drift_reason(claim, msgspec.structs.replace(pool, annotations=annotations)) is not None
    )


def note_prices(plan: Plan, prices: PriceBook, region: str) -> list[str]:
    """Return notes on prices that are estimated, or not those of the given price book."""
    related = {
        node.instance_type.name for node in plan.nodes if has_estimated_price(node, prices, region)
    } & prices.estimated
    notes = [f"prices estimated from related types: {', '.join(sorted(related))}"] if related else []
    if prices.rows and prices.has_prices_of(region):
        names = {node.instance_type.name for node in plan.nodes}
        if missing := sorted(name for name in names if (name, region) not in prices.rows):
            notes.append(f"not in {prices.source}: {join_first(missing)}; used {prices.list_source}")
    if prices.list_prices and any(_runs_windows(node) for node in plan.nodes):
        notes.append("prices are those of Linux; Windows nodes also need licences")
    return notes


def note_jobs(plan: Plan) -> list[str]:
    """Return a note on pods of Jobs whose new nodes cannot be priced for a run alone."""
    shared = [node for node in plan.nodes if any(map(is_job_pod, node.pods)) and not is_job_node(node)]
    if not shared:
        return []
    pods = [pod for node in shared for pod in node.pods if is_job_pod(pod)]
    names = sorted({get_workload(pod) for pod in pods})
    return [
        f"{pluralize(len(pods), 'pod')} of Jobs on new nodes with other pods: {join_first(names)}; "
        "amounts per month count these nodes in full, also after the Jobs end"
    ]


def note_operating_systems(plan: Plan) -> list[str]:
    """Return a note on pods that no selector keeps from the Windows nodes they are planned on."""
    pods = [
        pod
        for node in plan.nodes
        if _runs_windows(node)
        for pod in node.pods
        if not _selected_keys(pod.spec) & _WINDOWS_KEYS
    ]
    if not pods:
        return []
    names = sorted({get_workload(pod) for pod in pods})
    return [
        f"{pluralize(len(pods), 'pod')} without an operating system on Windows nodes: {join_first(names)}; "
        "Linux pods need nodeSelector kubernetes.io/os: linux, or spec.os"
    ]


def _selected_keys(spec: PodSpec) -> set[str]:
    expressions = (expression.key for term in spec.node_terms for expression in term.expressions)
    return {*spec.node_selector, *expressions}


def _runs_windows(node: PlannedNode) -> bool:
    system = node.instance_type.requirements.get(label_keys.OS)
    return system is not None and "windows" in system.values
