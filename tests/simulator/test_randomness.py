"""Dice that fall the same way for the same seed."""

from hypothesis import given
from hypothesis import strategies as st

from dovetail.simulator.randomness import SeededChance

SEEDS = st.integers(-(2**70), 2**70)


@given(SEEDS, st.integers(0, 30))
def test_the_same_seed_gives_the_same_names_and_numbers(seed: int, count: int) -> None:
    one, other = SeededChance(seed), SeededChance(seed)

    assert one.letters(count) == other.letters(count)
    assert one.fraction() == other.fraction()


@given(SEEDS)
def test_fractions_stay_within_nought_and_one(seed: int) -> None:
    chance = SeededChance(seed)

    assert all(0 <= chance.fraction() < 1 for _ in range(50))


def test_names_make_no_words_and_hardly_ever_meet() -> None:
    chance = SeededChance(7)

    names = [chance.letters(5) for _ in range(2000)]

    assert not set("".join(names)) & set("aeiou013y")
    assert len(set(names)) > 1998


def test_fractions_are_spread_evenly() -> None:
    chance = SeededChance(7)

    tenths = [int(chance.fraction() * 10) for _ in range(10_000)]

    assert all(900 < tenths.count(tenth) < 1100 for tenth in range(10))
