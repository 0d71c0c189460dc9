"""Design of a sweep: which combinations are tried."""

from collections import Counter

import pytest

from dovetail.errors import DovetailError
from dovetail.replay.sweep.design import combine, sample

VARIED = {"a": ["1", "2", "3"], "b": ["x", "y"], "c": [str(number) for number in range(10)]}


def test_every_combination_appears_once_in_order() -> None:
    points = combine({"a": ["1", "2"], "b": ["x", "y"]})

    assert points == [
        (("a", "1"), ("b", "x")),
        (("a", "1"), ("b", "y")),
        (("a", "2"), ("b", "x")),
        (("a", "2"), ("b", "y")),
    ]


def test_too_many_combinations_are_refused_with_the_way_out() -> None:
    with pytest.raises(DovetailError, match=r"10,000 combinations are more than 5,000.*--samples"):
        combine({key: [str(number) for number in range(10)] for key in "abcd"})


@pytest.mark.parametrize("seed", range(5))
def test_a_latin_hypercube_uses_the_values_of_each_key_equally_often(seed: int) -> None:
    points = sample(VARIED, 30, seed=seed)

    for position, values in enumerate(VARIED.values()):
        counts = Counter(point[position][1] for point in points)
        assert counts.keys() == set(values)
        # Up to a few repetitions are removed.
        assert max(counts.values()) <= 30 // len(values)


def test_a_sample_smaller_than_a_key_has_as_many_different_values() -> None:
    points = sample({"c": VARIED["c"]}, 4, seed=3)

    assert len({value for ((_, value),) in points}) == 4


def test_equal_seeds_give_equal_samples() -> None:
    assert sample(VARIED, 12, seed=7) == sample(VARIED, 12, seed=7)
    assert sample(VARIED, 12, seed=7) != sample(VARIED, 12, seed=8)
