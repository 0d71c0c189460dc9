"""State of a cluster: counts, price, utilization and distance to the lower bound."""

from dovetail.preview.observation import measure_state
from tests.preview.truth import a_shop, build_real_cluster


def test_the_state_of_a_cluster_at_rest_is_measured() -> None:
    state = measure_state(build_real_cluster(a_shop()))

    assert (state.nodes, state.pods, state.pods_without_node) == (7, 17, 0)
    assert 0.5 < state.cpu_utilization < 1
    assert 0.5 < state.memory_utilization < 1
    assert state.lower_bound is not None
    assert state.over_bound is not None
    # The node group is part of the price, not of what the bound is compared with.
    assert 1 <= state.over_bound < state.price_per_hour / state.lower_bound
