"""Estimates for all candidates at once.

In a well filled cluster the pods of nearly every node need a new node of the same
price. To estimate nodes one by one takes most of a pass. A batch estimates
hundreds of nodes together, each with its own copy of the free resources.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from dovetail.core.disruption.consolidation.estimate import INFINITE_PRICE, Estimate, Estimator
from dovetail.core.scheduling.arrays.types import Bools, Floats, Ints

_WINDOW: Final = 32
"""Nodes tried for each pod shape; a removed node that needs more is estimated alone."""
_MAX_BATCH_VALUES: Final = 2**20
"""Size limit of the array of free resources of one batch (8 MiB)."""


class BatchEstimator:
    """Estimates the replacement for each node, removed alone.

    Only the first nodes with room for any shape matter. They are columns; each
    shape has a window of columns, filled up with a last column without room.
    """

    def __init__(self, estimator: Estimator, nodes: Sequence[int], *, with_spreads: bool = False) -> None:
        self._estimator = estimator
        # First, because it adds shapes.
        self._counts = {node: estimator.count_pods([node], with_spreads=with_spreads) for node in nodes}
        requests = estimator.requests
        candidates = [estimator.get_nodes_with_room(shape) for shape in range(len(requests))]
        windows = [nodes[:_WINDOW] for nodes in candidates]
        used = np.unique(np.concatenate([np.zeros(0, int), *windows]))
        self._nodes: Ints = used.astype(np.int64)  # [columns]
        # [shapes, window]
        width = max([1, *map(len, windows)])
        self._columns: Ints = np.full((len(windows), width), len(used), dtype=np.int64)
        for shape, window in enumerate(windows):
            self._columns[shape, : len(window)] = used.searchsorted(window)
        self._truncated: Bools = np.array([len(nodes) > _WINDOW for nodes in candidates], dtype=bool)
        # A resource that is not requested allows infinitely many pods. [resources, shapes]
        is_requested = requests.T > 0
        self._divisors: Floats = np.where(is_requested, requests.T, 1.0)
        self._unrequested: Floats = np.where(is_requested, 0.0, np.inf)
        self._uninitialized: Bools = np.isin([*self._nodes, -1], sorted(estimator.uninitialized_nodes))

    def estimate_all(self) -> dict[int, Estimate]:
        """Return estimates for removing each node alone, without placements.

        They equal those of ``Estimator.estimate``, without placements and, if an
        uninitialized node is needed, without a price. Nodes are left out if the
        window was too small, or if the estimate is exact and no new node is needed:
        then the placements are the result.
        """
        nodes, estimates = list(self._counts), dict[int, Estimate]()
        width = max(1, (len(self._nodes) + 1) * self._estimator.requests.shape[1])
        step = max(1, _MAX_BATCH_VALUES // width)
        for first in range(0, len(nodes), step):
            estimates.update(self._estimate_batch(nodes[first : first + step]))
        return estimates

    def _estimate_batch(self, nodes: Sequence[int]) -> Iterator[tuple[int, Estimate]]:
        estimator = self._estimator
        unplaced, is_truncated, uninitialized = self._place_batch(nodes)
        for row in np.flatnonzero(uninitialized >= 0).tolist():
            node = int(uninitialized[row])
            yield nodes[row], Estimate(INFINITE_PRICE, [], uninitialized_node=node)
        is_complete = ~is_truncated & (uninitialized < 0)
        for row in np.flatnonzero(~unplaced.any(axis=1) & is_complete).tolist():
            if not estimator.is_exact([nodes[row]], needs_new_node=False):
                yield nodes[row], Estimate(0.0, [])
        # Loads with equal constraints are priced together.
        rows_by_constraints: dict[tuple[int, ...], list[int]] = {}
        for row in np.flatnonzero(unplaced.any(axis=1) & is_complete).tolist():
            shapes = np.flatnonzero(unplaced[row]).tolist()
            key = tuple(sorted(set(map(estimator.get_constraint, shapes))))
            rows_by_constraints.setdefault(key, []).append(row)
        for constraints, rows in rows_by_constraints.items():
            estimates = estimator.estimate_prices(constraints, unplaced[rows] @ estimator.requests)
            for row, estimate in zip(rows, estimates, strict=True):
                if estimate.price != INFINITE_PRICE:
                    yield nodes[row], estimate

    def _place_batch(self, nodes: Sequence[int]) -> tuple[Floats, Bools, Ints]:
        """Place the pods of each removed node by first fit, shape by shape.

        Returns unplaced pods [removed, shapes], whether the window was too small
        [removed], and the first uninitialized node that is needed or -1 [removed].
        """
        requests = self._estimator.requests
        counts = self._count_pods(nodes)  # [removed, shapes]
        free = self._get_free(nodes)  # [resources, removed × columns]
        width = len(self._nodes) + 1
        is_truncated = np.zeros(len(nodes), dtype=bool)
        uninitialized: Ints = np.full(len(nodes), -1)
        unplaced = np.zeros_like(counts)
        order = self._order_shapes(counts)
        # Step n places the n-th largest shape of every removed node that has so many shapes.
        for step in range(int((counts > 0).sum(axis=1).max(initial=0))):
            shapes = order[:, step]
            active = np.flatnonzero(counts[np.arange(len(nodes)), shapes])
            shapes = shapes[active]
            pods = counts[active, shapes]
            columns = self._columns[shapes]  # [active, window]
            cells = active[:, None] * width + columns  # index into the second axis of ``free``
            slots = np.full(columns.shape, np.inf)  # pods: [active, window]
            rooms = []
            for of_resource, divisor, unrequested in zip(
                free, self._divisors[:, shapes], self._unrequested[:, shapes], strict=True
            ):
                room = of_resource.take(cells)
                rooms.append(room)
                np.minimum(slots, room / divisor[:, None] + unrequested[:, None], out=slots)
            slots = np.floor(np.maximum(slots, 0.0))
            before = slots.cumsum(axis=1) - slots
            placed = np.clip(pods[:, None] - before, 0.0, slots)
            for of_resource, room, amounts in zip(free, rooms, requests.T[:, shapes], strict=True):
                of_resource[cells] = room - placed * amounts[:, None]
            remaining = pods - placed.sum(axis=1)
            unplaced[active, shapes] = remaining
            needed = (placed > 0) & self._uninitialized[columns]
            is_first = needed.any(axis=1) & ~is_truncated[active] & (uninitialized[active] < 0)
            column = columns[is_first, needed[is_first].argmax(axis=1)]
            uninitialized[active[is_first]] = self._nodes[column]
            is_truncated[active] |= (remaining > 0) & self._truncated[shapes]
        return unplaced, is_truncated, uninitialized

    def _count_pods(self, nodes: Sequence[int]) -> Floats:
        """Return the number of pods: [removed, shapes]."""
        shapes = len(self._estimator.requests)
        counts = []
        for node in nodes:
            of_node = [0.0] * shapes
            for shape, count in self._counts[node].items():
                of_node[shape] = count
            counts.append(of_node)
        return np.array(counts, dtype=float).reshape((len(nodes), shapes))

    def _get_free(self, nodes: Sequence[int]) -> Floats:
        """Return free resources without the removed node: [resources, removed × columns]."""
        free = self._estimator.free[:, self._nodes]
        padded = np.concatenate([free, np.full((len(free), 1), -1.0)], axis=1)
        copies = np.repeat(padded[:, None], len(nodes), axis=1)  # [resources, removed, columns]
        own = self._nodes.searchsorted(nodes)
        for row, (node, column) in enumerate(zip(nodes, own.tolist(), strict=True)):
            if column < len(self._nodes) and self._nodes[column] == node:
                copies[:, row, column] = -1.0
        return copies.reshape((len(free), len(nodes) * padded.shape[1]))

    def _order_shapes(self, counts: Floats) -> Ints:
        """Return shapes, largest share of the total requests first: [removed, shapes]."""
        requests = self._estimator.requests
        total = np.maximum(counts @ requests, 1.0)
        share = (requests[None] / total[:, None]).sum(axis=2)
        order: Ints = np.argsort(np.where(counts > 0, -share, np.inf), axis=1, kind="stable")
        return order
