"""Existing nodes and new claims as columns of arrays.

Index 0 to ``existing_count`` are existing nodes, in the order in which they are
offered pods; ``existing_count`` to ``count`` are the claims opened so far, in
the order of opening. Existing nodes never change type. A claim has a *nominal*
type: the cheapest that holds its pods.

Invariants, for every index i < ``count``:

- ``used[:, i]`` is the sum of the requests of the pods placed on i by this plan;
- ``used[:, i] <= available[:, i]``, except on nodes that take no pods (-1);
- ``fitting_pods[i]`` is up to date for the requests counted last;
- ``claim_state[i]`` is never INFEASIBLE for a claim (unused for existing nodes).

Arrays are longer than ``count`` and doubled when they are full.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dovetail.core.scheduling.arrays.claim_states import ClaimStateSpace
from dovetail.core.scheduling.arrays.types import Bools, Floats, Ints
from dovetail.core.scheduling.constraints.compiled_class import CompiledClass
from dovetail.core.scheduling.constraints.daemonsets import DaemonSetOverhead
from dovetail.core.scheduling.constraints.topology import Topology, no_pods_on
from dovetail.core.scheduling.fleet.native import kernel as _kernel
from dovetail.core.scheduling.placement.node_columns import NodeProfile, get_layout
from dovetail.model.kube.taints import find_untolerated_taint
from dovetail.model.node import Node

_MIN_SIZE = 64
"""Columns allocated at least."""


class NodeArrays:
    """Existing nodes and new claims, and the pods that this plan adds to them."""

    def __init__(
        self,
        space: ClaimStateSpace,
        topology: Topology,
        nodes: Sequence[Node],
        resource_names: Sequence[str],
        daemonsets: DaemonSetOverhead,
        watched_keys: frozenset[str],
        order: Callable[[Node], Any],
    ) -> None:
        self.space = space
        self.existing_nodes = sorted((node for node in nodes if not node.deleting), key=order)
        self.index_by_name = {node.name: index for index, node in enumerate(self.existing_nodes)}
        self.existing_count = len(self.existing_nodes)
        self.count = self.existing_count
        self._topology = topology
        size = max(_MIN_SIZE, 2 * self.existing_count)
        self.used: Floats = np.zeros((len(resource_names), size))
        """[resources, nodes]: requests of the pods placed by this plan."""
        self.available: Floats = np.zeros((len(resource_names), size))
        """[resources, nodes]: what pods of this plan may use in total.

        Existing node: allocatable minus running pods and pending DaemonSet pods.
        Claim: allocatable of the nominal type minus DaemonSet pods.
        """
        self.claim_state: Ints = np.zeros(size, dtype=np.int64)
        """[nodes]: claim state of each claim."""
        self.nominal_row: Ints = np.zeros(size, dtype=np.int64)
        """[nodes]: row of each claim's nominal type in its NodePoolTable."""
        self.port_bits: list[int] = [0] * self.existing_count
        """[nodes]: host ports in use, as a bit set."""
        self.fitting_pods: Floats = np.zeros(size)
        """[nodes]: how many more pods with the current requests fit; whole numbers."""
        self._counted_requests: Floats | None = None
        self._requested: list[int] = []
        """Indexes of the resources in the current requests."""
        # Nodes with equal watched labels and taints share a profile: constraints
        # are matched once per profile, not once per node.
        layout = get_layout(tuple(resource_names), watched_keys, daemonsets)
        columns = [layout.get_column(node) for node in self.existing_nodes]
        if columns:
            self.available[:, : self.existing_count] = np.array([column.available for column in columns]).T
        profile_ids: dict[NodeProfile, int] = {}
        profile_index = [profile_ids.setdefault(column.profile, len(profile_ids)) for column in columns]
        self.profile_index: Ints = np.array(profile_index, dtype=np.int64)
        """[existing nodes]: index into ``profiles``."""
        self.profiles = [(profile.labels, profile.taints) for profile in profile_ids]
        self._matching: dict[int, Bools] = {}
        self._resize(size)

    def nodes_matching(self, constraint: int) -> Bools:
        """Return [existing nodes]: True where labels and taints meet a constraint."""
        matching = self._matching.get(constraint)
        if matching is None:
            required = self.space.constraints[constraint]
            matches = [
                find_untolerated_taint(taints, required.tolerations) is None
                and labels.find_conflict(required.requirements) is None
                for labels, taints in self.profiles
            ]
            flags = np.array(matches, dtype=bool)
            matching = flags[self.profile_index] if matches else flags
            self._matching[constraint] = matching
        return matching

    def count_fitting(self, requests: Floats) -> None:
        """Compute ``fitting_pods`` for pods with these requests [resources].

        Requests are interned, so identity means that the counts are up to date.
        """
        if self._counted_requests is requests:
            return
        self._counted_requests = requests
        self._requested = [r for r in range(len(requests)) if requests[r] > 0]
        end = self.count
        if _kernel is not None:
            shape = (*self.used.shape, end)
            _kernel.count_fitting(shape, requests, self.available, self.used, self.fitting_pods)
            return
        fitting = self.fitting_pods[:end]
        fitting.fill(np.inf)
        for r in self._requested:
            np.minimum(fitting, (self.available[r, :end] - self.used[r, :end]) / requests[r], out=fitting)
        np.floor(fitting, out=fitting)

    def invalidate_fitting(self) -> None:
        """Force the next ``count_fitting``, after a change from outside."""
        self._counted_requests = None

    def recount_fitting(self, indexes: Ints) -> None:
        """Update ``fitting_pods`` of nodes whose available or used amounts changed."""
        requests = self._counted_requests
        if requests is None:
            return
        fitting = np.full(len(indexes), np.inf)
        for r in self._requested:
            np.minimum(
                fitting, (self.available[r, indexes] - self.used[r, indexes]) / requests[r], out=fitting
            )
        self.fitting_pods[indexes] = np.floor(fitting)

    def add_pods(self, compiled: CompiledClass, indexes: Ints, counts: Ints) -> None:
        """Add ``counts[i]`` pods of a class to node ``indexes[i]``.

        Indexes must be distinct: NumPy applies only one of several in-place
        additions to the same index.
        """
        self.used[:, indexes] += compiled.requests[:, None] * counts
        if self._counted_requests is compiled.requests:
            self.fitting_pods[indexes] -= counts
        else:
            self.recount_fitting(indexes)
        for group in compiled.hostname_groups:
            group.add_to_nodes(indexes, counts)
        for rule, _ in compiled.hostname_rules:
            rule.add_owners_to_nodes(indexes, counts)
        if compiled.port_bits:
            for index in indexes.tolist():
                self.port_bits[index] |= compiled.port_bits

    def open_claims(self, state: int, row: int, copies: int) -> Ints:
        """Open claims with one nominal type; return their indexes [copies]."""
        start, end = self.count, self.count + copies
        if end > len(self.claim_state):
            self._resize(max(end, 2 * len(self.claim_state)))
        self.count = end
        pool = self.space.states[state].pool
        self.claim_state[start:end] = state
        self.nominal_row[start:end] = row
        self.available[:, start:end] = self.space.tables[pool].alloc[row][:, None]
        self.port_bits.extend([0] * copies)
        opened = np.arange(start, end)
        self.recount_fitting(opened)
        return opened

    def change_types(self, claims: Ints, states: Ints, rows: Ints) -> None:
        """Move claims to claim states and new nominal types, both [claims]."""
        self.claim_state[claims] = states
        self.nominal_row[claims] = rows
        pools = self.space.pool_of[states]
        for pool in set(pools.tolist()):
            of_pool = (pools == pool).nonzero()[0]
            self.available[:, claims[of_pool]] = self.space.tables[pool].alloc[rows[of_pool]].T
        self.recount_fitting(claims)

    def count_claim_states(self) -> int:
        """Return the number of distinct claim states."""
        return len(set(self.claim_state[self.existing_count : self.count].tolist()))

    def _resize(self, size: int) -> None:
        """Extend all arrays over nodes to ``size`` columns, those of topology too."""

        def extend(array: Floats | Ints) -> Floats | Ints:
            shape = (*array.shape[:-1], size - array.shape[-1])
            return np.concatenate([array, np.zeros(shape, dtype=array.dtype)], axis=-1)

        self.used, self.available = extend(self.used), extend(self.available)  # type: ignore[assignment]
        self.claim_state = extend(self.claim_state)  # type: ignore[assignment]
        self.nominal_row = extend(self.nominal_row)  # type: ignore[assignment]
        self.fitting_pods = extend(self.fitting_pods)  # type: ignore[assignment]
        nothing = no_pods_on(size)

        def extend_counts(counts: Ints) -> Ints:
            return extend(counts) if counts.flags.writeable else nothing  # type: ignore[return-value]

        for group in self._topology.groups:
            if group.is_hostname:
                group.node_counts = extend_counts(group.node_counts)
                for rule in group.rules:
                    rule.node_owners = extend_counts(rule.node_owners)
