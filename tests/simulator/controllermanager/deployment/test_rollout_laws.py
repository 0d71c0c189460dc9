"""Laws of a rolling update, for any pods that become ready."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from dovetail.simulator.controllermanager.deployment.rollout import (
    ReplicaSetSize,
    RolloutBounds,
    rollout_step,
    scale_replica_sets,
)


class Rollout(NamedTuple):
    bounds: RolloutBounds
    new: ReplicaSetSize
    old_sets: list[ReplicaSetSize]


@st.composite
def rollouts(draw: st.DrawFn) -> Rollout:
    """A Deployment in the middle of a rollout, with any number of pods available."""
    replicas = draw(st.integers(0, 12))
    surge = draw(st.integers(0, 5))
    unavailable = draw(st.integers(0 if surge else 1, 5))
    bounds = RolloutBounds(replicas, surge, min(unavailable, replicas))

    def part(name: str) -> ReplicaSetSize:
        size = draw(st.integers(0, 12))
        return ReplicaSetSize(name, size, draw(st.integers(0, size)), replicas, replicas + surge)

    old_sets = [part(f"old{at}") for at in range(draw(st.integers(0, 3)))]
    return Rollout(bounds, part("new"), old_sets)


def next_rollout(rollout: Rollout) -> Rollout:
    """The rollout after the step, before any pod has become ready."""
    sizes = rollout_step(*rollout)

    def resized(part: ReplicaSetSize) -> ReplicaSetSize:
        size = sizes.get(part.name, part.replicas)
        return part._replace(replicas=size, available=min(size, part.available))

    return Rollout(rollout.bounds, resized(rollout.new), [resized(old) for old in rollout.old_sets])


def total(rollout: Rollout) -> int:
    return rollout.new.replicas + sum(old.replicas for old in rollout.old_sets)


def available(rollout: Rollout) -> int:
    return rollout.new.available + sum(old.available for old in rollout.old_sets)


@given(rollouts())
def test_a_step_never_exceeds_max_surge(rollout: Rollout) -> None:
    bounds = rollout.bounds

    assert total(next_rollout(rollout)) <= max(total(rollout), bounds.replicas + bounds.surge)


@given(rollouts())
def test_a_step_never_goes_below_the_minimum_available(rollout: Rollout) -> None:
    # More new pods than desired is a scale-down, which may delete available ones.
    if rollout.new.replicas > rollout.bounds.replicas:
        return

    assert available(next_rollout(rollout)) >= min(available(rollout), rollout.bounds.min_available)


@given(rollouts())
def test_an_update_whose_pods_become_ready_completes(rollout: Rollout) -> None:
    for _ in range(100):
        rollout = next_rollout(rollout)
        ready = [size._replace(available=size.replicas) for size in (rollout.new, *rollout.old_sets)]
        rollout = Rollout(rollout.bounds, ready[0], ready[1:])

    assert rollout.new.replicas == rollout.bounds.replicas
    assert all(old.replicas == 0 for old in rollout.old_sets)
    assert not rollout_step(*rollout)


@given(rollouts(), st.integers(0, 20))
def test_scaling_during_an_update_reaches_exactly_the_maximum(rollout: Rollout, replicas: int) -> None:
    bounds = RolloutBounds(replicas, rollout.bounds.surge, min(rollout.bounds.unavailable, replicas))
    before = {size.name: size.replicas for size in (rollout.new, *rollout.old_sets)}
    several = sum(size > 0 for size in before.values()) > 1
    saturated = rollout.new.replicas == rollout.new.available == rollout.new.desired_at_resize == replicas

    sizes = {**before, **scale_replica_sets(bounds, rollout.new, rollout.old_sets, rolling=True)}

    assert all(size >= 0 for size in sizes.values())
    if several and not saturated:
        assert sum(sizes.values()) == bounds.max_pods
