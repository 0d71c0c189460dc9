"""Lower bound of the bill: no fleet of these NodePools is cheaper for these pods."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import numpy as np

from dovetail.core.scheduling.arrays.claim_states import INFEASIBLE, ClaimStateSpace
from dovetail.core.scheduling.arrays.nodepools import NodePoolTable, to_vector
from dovetail.core.scheduling.arrays.types import Bools, Floats, Ints
from dovetail.core.scheduling.constraints.daemonsets import subtract_daemonsets
from dovetail.core.scheduling.fleet.bound import Surcharge, bound_fleet
from dovetail.core.scheduling.fleet.problem import Demand
from dovetail.core.scheduling.pods.pending import drop_empty_terms, find_invalid_spec
from dovetail.core.scheduling.pods.relaxation import node_requirements, relax
from dovetail.core.scheduling.problem import usable_nodepools
from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import Pod, PodSpec
from dovetail.model.kube.resources import CPU
from dovetail.model.kube.taints import TOLERATE_PREFER_NO_SCHEDULE
from dovetail.model.settings import PreferencePolicy
from dovetail.model.snapshot import ClusterSnapshot

FLUID: Final = "fluid"
DESCRIPTION: Final = (
    "fluid relaxation: nodes and pods are divisible; requests, DaemonSets, surplus CPU credits, node "
    "selectors, taints and one pod per node by anti-affinity count; spread, limits, minValues and volumes "
    "do not"
)
"""The constraints that the bound takes into account, for users."""

_MAX_EXCLUSIVE: Final = 12
"""Classes with at most one pod per node that get a resource of their own: the largest."""
_Key = tuple[PodSpec, str, bool]
"""Spec, namespace and labels (empty without anti-affinity), and if pods exclude each other."""


class LowerBound(msgspec.Struct, frozen=True, kw_only=True):
    """Lower bound of what instances cost, and the pods that it is proven for."""

    price: float
    """USD per hour."""
    pods: int
    """Number of pods in the bound."""
    left_out: int = 0
    """Number of pods that no NodePool can hold; they count nothing."""
    kind: str = FLUID
    """Relaxation that proves the bound."""

    def ratio(self, price: float) -> float | None:
        """Return a bill divided by the bound; None without a bound."""
        return price / self.price if self.price > 0 else None


def compute_lower_bound(snapshot: ClusterSnapshot, pods: Iterable[Pod]) -> LowerBound:
    """Return a lower bound of the price of every fleet for pods.

    Pods of DaemonSets and static pods must not be among ``pods``. Prices are without
    node costs, and with surplus CPU credits for the requests. Reserved instances count as
    if all free slots were in use. Grows with the number of distinct pod specs, not of pods.
    """
    counts = _count_classes(pods)
    keys = [key for key in counts if find_invalid_spec(key[0]) is None]
    left_out = counts.total() - sum(counts[key] for key in keys)
    names = tuple(sorted({name for key in keys for name, amount in key[0].requests.items() if amount > 0}))
    types = snapshot.instance_types
    tables = [NodePoolTable(pool, types.get(pool.name, ()), names) for pool in usable_nodepools(snapshot)]
    for table in tables:
        subtract_daemonsets(table, snapshot.daemon_sets, only_certain=True)
    if not keys or not tables or not sum(len(table.rows) for table in tables):
        return LowerBound(price=0.0, pods=0, left_out=counts.total())
    prices, codes = _price_signatures(ClaimStateSpace(tables), [key[0] for key in keys])
    credit = _credit_reservations(tables, prices)
    demand, surcharge = _create_demand(keys, [counts[key] for key in keys], names, tables, prices, codes)
    bound = bound_fleet(demand, surcharge)
    placed = int(demand.counts[bound.placeable].sum())
    return LowerBound(
        price=max(0.0, bound.price - credit),
        pods=placed,
        left_out=left_out + int(demand.counts.sum()) - placed,
    )


def _count_classes(pods: Iterable[Pod]) -> Counter[_Key]:
    counts: Counter[_Key] = Counter()
    for pod in pods:
        spec = pod.spec
        if not spec.anti_affinity:
            counts[(spec, "", False)] += 1
            continue
        excludes = _excludes_itself(pod)
        counts[(spec, f"{pod.namespace} {sorted(pod.labels.items())}" if excludes else "", excludes)] += 1
    return counts


def _excludes_itself(pod: Pod) -> bool:
    """Return True if required anti-affinity allows one pod of the class per node."""
    return any(
        term.topology_key == label_keys.HOSTNAME
        and term.selector is not None
        and term.namespace_selector is None
        and (not term.namespaces or pod.namespace in term.namespaces)
        and term.selector.matches(pod.labels)
        for term in pod.spec.anti_affinity
    )


def _price_signatures(space: ClaimStateSpace, specs: Sequence[PodSpec]) -> tuple[Floats, Ints]:
    """Return [signatures, rows] prices and [specs] signatures.

    Specs of one signature are admitted by the same types at the same prices. Rows of all
    NodePools are in one axis; the price is infinite where a type does not admit a pod.
    """
    by_constraint: dict[object, int] = {}
    distinct: list[Floats] = []
    codes = np.empty(len(specs), dtype=np.int64)
    for at, spec in enumerate(specs):
        constraints = frozenset(_constraints_of(space, drop_empty_terms(spec)))
        code = by_constraint.get(constraints)
        if code is None:
            row = _cheapest_prices(space, constraints)
            # Many selectors come down to the same types.
            code = by_constraint.setdefault(row.tobytes(), len(distinct))
            if code == len(distinct):
                distinct.append(row)
            by_constraint[constraints] = code
        codes[at] = code
    return np.array(distinct), codes


def _constraints_of(space: ClaimStateSpace, spec: PodSpec) -> Iterable[int]:
    """Yield a node constraint for each required node term; preferences do not count."""
    for relaxed in relax(spec, PreferencePolicy.IGNORE, soft_taints=False):
        tolerations = (*relaxed.tolerations, TOLERATE_PREFER_NO_SCHEDULE)
        yield space.intern_constraint(node_requirements(relaxed), tolerations)


def _cheapest_prices(space: ClaimStateSpace, constraints: Iterable[int]) -> Floats:
    """Return [rows]: list price of the cheapest offering that a constraint allows.

    The rows of a burstable type differ in CPU and surcharge, not in the list price.
    """
    parts = []
    for root, table in zip(space.roots, space.tables, strict=True):
        best = np.full(len(table.rows), np.inf)
        for constraint in constraints:
            state = space.narrow(root, constraint)
            if state != INFEASIBLE:
                best = np.minimum(best, space.cost[state][: len(table.rows)] - table.surcharge)
        parts.append(best)
    return np.concatenate(parts)


def _credit_reservations(tables: Sequence[NodePoolTable], prices: Floats) -> float:
    """Return what free reserved instances can save, in USD per hour.

    A type that is only available as reserved gets that price in ``prices``, which is changed.
    """
    credits: dict[str, float] = {}
    first = 0
    for table in tables:
        for row, offering in table.reserved:
            column = prices[:, first + row]
            listed = column[np.isfinite(column)]
            if len(listed):
                saving = (float(listed.max()) - offering.price) * offering.reservation_capacity
                credits[offering.reservation_id] = max(credits.get(offering.reservation_id, 0.0), saving)
            else:
                prices[:, first + row] = offering.price
        first += len(table.rows)
    return sum(credits.values())


def _create_demand(
    keys: Sequence[_Key],
    counts: Sequence[int],
    names: Sequence[str],
    tables: Sequence[NodePoolTable],
    prices: Floats,
    codes: Ints,
) -> tuple[Demand, Surcharge | None]:
    """Return the demand and the price of CPU credits.

    A type has an entry for each of its prices. A node of one price takes only
    pods that accept an offering of at most that price.
    """
    sizes = np.array([to_vector(key[0].requests, names) for key in keys])
    alloc = np.concatenate([table.alloc for table in tables])
    exclusive = sorted((at for at, key in enumerate(keys) if key[2]), key=lambda at: -counts[at])
    exclusive = exclusive[:_MAX_EXCLUSIVE]
    slots = np.zeros((len(keys), len(exclusive)))
    slots[exclusive, np.arange(len(exclusive))] = 1.0
    included = np.concatenate([table.included_cpu(np.arange(len(table.rows))) for table in tables])
    credit_price = np.concatenate([table.credit_price(np.arange(len(table.rows))) for table in tables])
    # [entries]: row and price. Of the rows of a burstable type the largest has all of its CPU.
    ascending = np.sort(prices.T, axis=1)
    is_level = np.isfinite(ascending) & np.concatenate([_has_all_cpu(table) for table in tables])[:, None]
    is_level[:, 1:] &= ascending[:, 1:] != ascending[:, :-1]
    rows, levels = np.nonzero(is_level)[0], ascending[is_level]
    accepted: Bools = prices[:, rows].T <= levels[:, None]  # [entries, signatures]
    distinct, admission = np.unique(accepted, axis=0, return_inverse=True)
    demand = Demand(
        sizes=np.hstack([sizes, slots]),
        counts=np.array(counts, dtype=np.int64),
        alloc=np.hstack([alloc[rows], np.ones((len(rows), len(exclusive)))]),
        # DaemonSets and the system may need more CPU than is included, without any pod.
        price=levels + credit_price[rows] * np.maximum(0.0, -included[rows]),
        admission=admission.ravel(),
        admits=distinct[:, codes],
    )
    if CPU not in names or not credit_price[rows].any():
        return demand, None
    return demand, Surcharge(names.index(CPU), np.maximum(0.0, included[rows]), credit_price[rows])


def _has_all_cpu(table: NodePoolTable) -> Bools:
    """Return [rows]: False for rows of a burstable type that have a part of its CPU."""
    following = (*table.rows[1:], None)
    return np.array(
        [
            after is None or row.type is not after.type or row.offerings is not after.offerings
            for row, after in zip(table.rows, following, strict=True)
        ],
        dtype=np.bool_,
    )
