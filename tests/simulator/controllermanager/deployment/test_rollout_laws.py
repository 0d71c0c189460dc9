"""Laws of a rolling update, whatever becomes ready when."""

from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from dovetail.simulator.controllermanager.deployment.rollout import Part, Room, rescale, roll


class Scene(NamedTuple):
    room: Room
    new: Part
    olds: list[Part]


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    """A Deployment somewhere on the way, with any number of pods available."""
    replicas = draw(st.integers(0, 12))
    surge = draw(st.integers(0, 5))
    unavailable = draw(st.integers(0 if surge else 1, 5))
    room = Room(replicas, surge, min(unavailable, replicas))

    def part(name: str) -> Part:
        size = draw(st.integers(0, 12))
        return Part(name, size, draw(st.integers(0, size)), replicas, replicas + surge)

    olds = [part(f"old{at}") for at in range(draw(st.integers(0, 3)))]
    return Scene(room, part("new"), olds)


def after(scene: Scene) -> Scene:
    """The scene when the step is taken and no pod has become ready since."""
    sizes = roll(*scene)

    def resized(part: Part) -> Part:
        size = sizes.get(part.name, part.replicas)
        return part._replace(replicas=size, available=min(size, part.available))

    return Scene(scene.room, resized(scene.new), [resized(one) for one in scene.olds])


def total(scene: Scene) -> int:
    return scene.new.replicas + sum(one.replicas for one in scene.olds)


def available(scene: Scene) -> int:
    return scene.new.available + sum(one.available for one in scene.olds)


@given(scenes())
def test_a_step_never_asks_for_more_pods_than_the_surge_allows(scene: Scene) -> None:
    room = scene.room

    assert total(after(scene)) <= max(total(scene), room.replicas + room.surge)


@given(scenes())
def test_a_step_takes_no_pod_that_must_stay_available(scene: Scene) -> None:
    # More of the new than asked for is a scale down, which takes what it is told to.
    if scene.new.replicas > scene.room.replicas:
        return

    assert available(after(scene)) >= min(available(scene), scene.room.least_available)


@given(scenes())
def test_an_update_whose_pods_all_become_ready_comes_to_its_end(scene: Scene) -> None:
    for _ in range(100):
        scene = after(scene)
        ready = [one._replace(available=one.replicas) for one in (scene.new, *scene.olds)]
        scene = Scene(scene.room, ready[0], ready[1:])

    assert scene.new.replicas == scene.room.replicas
    assert all(one.replicas == 0 for one in scene.olds)
    assert not roll(*scene)


@given(scenes(), st.integers(0, 20))
def test_a_rescale_in_the_middle_fills_what_is_allowed_exactly(scene: Scene, wanted: int) -> None:
    room = Room(wanted, scene.room.surge, min(scene.room.unavailable, wanted))
    before = {one.name: one.replicas for one in (scene.new, *scene.olds)}
    several = sum(size > 0 for size in before.values()) > 1
    saturated = scene.new.replicas == scene.new.available == scene.new.desired_then == wanted

    sizes = {**before, **rescale(room, scene.new, scene.olds, rolling=True)}

    assert all(size >= 0 for size in sizes.values())
    if several and not saturated:
        assert sum(sizes.values()) == room.most
