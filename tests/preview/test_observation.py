"""State of a cluster: counts, price, utilization and distance to the lower bound."""

from dovetail.preview.observation import measure_state
from dovetail.preview.report import Sample, thin_samples
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


def test_few_samples_are_all_kept() -> None:
    samples = tuple(Sample(float(at), at, 1.0, 0) for at in range(50))

    assert thin_samples(samples) == samples


def test_of_many_samples_the_extremes_are_kept_in_order() -> None:
    peaks = {
        777: Sample(777.0, 900, 1.0, 0),
        4_321: Sample(4_321.0, 5, 1.0, 66),
        8_888: Sample(8_888.0, 5, 9.0, 0),
    }
    samples = tuple(peaks.get(at, Sample(float(at), 5, 1.0, at % 3)) for at in range(10_000))

    thinned = thin_samples(samples)

    assert len(thinned) < 1_700
    assert {*peaks.values(), samples[0], samples[-1]} <= set(thinned)
    assert [sample.at for sample in thinned] == sorted(sample.at for sample in thinned)
