"""Pods that are as large as the API server accepts: memory grows with their size, not its square."""

import tracemalloc

from dovetail.core.scheduling import solve
from tests.support.scheduling.builders import a_pod, cluster, node_term
from tests.support.scheduling.plans import unplaced

VALUES = [f"value-{number}" for number in range(5)]


def solve_with_terms(count: int) -> int:
    """Return the peak memory, in bytes, of planning a pod with so many node affinity terms."""
    terms = [
        node_term(
            *(
                (f"key-{term}-{number}", "NotIn", [f"value-{value}" for value in range(5)])
                for number in range(8)
            ),
            (f"own-{term}", "Exists"),
        )
        for term in range(count)
    ]
    snapshot = cluster([a_pod("large", node_terms=terms)])
    tracemalloc.start()
    try:
        plan = solve(snapshot)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        assert unplaced(plan) == ["large"]


def test_memory_is_linear_in_the_terms_of_a_node_affinity() -> None:
    solve_with_terms(10)  # Fills the caches that do not depend on the pod.

    assert solve_with_terms(160) < 3 * solve_with_terms(80)
