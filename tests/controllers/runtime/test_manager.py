"""Changes become keys, keys become reconciles, one failing key stops nobody."""

from collections.abc import Callable
from datetime import datetime, timedelta

from dovetail.controllers.runtime.manager import Registration, Requeue, Runtime
from dovetail.controllers.runtime.workqueue import Backoff
from dovetail.errors import DovetailError
from dovetail.ports.api_resources import NODES, PODS
from dovetail.ports.kube_errors import Conflict
from dovetail.state.cluster.cache import Change
from tests.support import wire
from tests.support.world import World

Work = Callable[[str], Requeue | None]


class Scripted:
    """A controller that keeps a diary and does what a test says."""

    def __init__(self, world: World, work: Work = lambda key: None, takes: float = 0) -> None:
        self.world = world
        self.work = work
        self.takes = takes
        self.diary: list[tuple[str, datetime]] = []
        self.busy: set[str] = set()
        self.most = 0

    async def reconcile(self, key: str) -> Requeue | None:
        assert key not in self.busy
        self.busy.add(key)
        self.most = max(self.most, len(self.busy))
        self.diary.append((key, self.world.now))
        if self.takes:
            await self.world.loop.sleep(timedelta(seconds=self.takes))
        self.busy.remove(key)
        return self.work(key)

    def seconds(self, key: str) -> list[float]:
        """When a key was looked at, since the first time."""
        times = [at for name, at in self.diary if name == key]
        return [(at - times[0]).total_seconds() for at in times]


def started(world: World, controller: Scripted, **fields: object) -> Runtime:
    registration = Registration(
        name="scripted",
        controller=controller,
        watches=[(NODES, lambda change: [change.either.name])],
        **fields,  # type: ignore[arg-type]
    )
    world.run(lambda: registration)
    return world.runtime


def test_what_is_there_and_what_changes_is_looked_at() -> None:
    world = World()
    world.add(NODES, wire.node("before"))
    controller = Scripted(world)

    started(world, controller, at_start=["whole"])
    world.add(NODES, wire.node("after"))
    world.delete(NODES, "before")

    keys = [key for key, _ in controller.diary]
    assert sorted(keys[:2]) == ["before", "whole"]
    assert "after" in keys[2:]
    assert keys[-1] == "before"


def test_no_reconcile_runs_inside_the_call_that_asked_for_it() -> None:
    world = World()
    controller = Scripted(world)
    runtime = started(world, controller)

    runtime.ask("scripted", "now")
    inside = list(controller.diary)
    world.mirror.put(NODES, world.api.create(NODES, wire.node("new")))
    inside += controller.diary
    world.wait(0)

    assert inside == []
    assert {key for key, _ in controller.diary} == {"now", "new"}


def test_a_key_that_fails_does_not_stop_the_others_and_comes_again_later_and_later() -> None:
    def work(key: str) -> None:
        if key == "bad":
            raise RuntimeError("broken")

    world = World()
    controller = Scripted(world, work)
    runtime = started(world, controller, backoff=Backoff(timedelta(seconds=1)))

    for key in ("bad", "good"):
        runtime.ask("scripted", key)
    world.wait(8)

    assert controller.seconds("bad") == [0, 1, 3, 7]
    assert controller.seconds("good") == [0]
    line = world.log.said("reconciler error")[0]
    assert (line["key"], line["error"], line["again_in"]) == ("bad", "RuntimeError: broken", "1s")
    errors = "controller_runtime_reconcile_errors_total"
    assert world.metrics.total(errors, controller="scripted") == 4


def test_an_error_of_ours_is_told_in_its_own_words_and_a_conflict_not_at_all() -> None:
    failures: list[Exception] = [DovetailError("no such pool"), Conflict("written since")]

    def work(key: str) -> None:
        if failures:
            raise failures.pop(0)

    world = World()
    controller = Scripted(world, work)
    started(world, controller).ask("scripted", "a")

    world.wait(5)

    assert [line["error"] for line in world.log.said("reconciler error")] == ["no such pool"]
    assert len(controller.diary) == 3


def test_a_controller_is_asked_again_when_it_said_so() -> None:
    answers = [Requeue(timedelta(seconds=5)), Requeue(timedelta(seconds=2)), None]
    world = World()
    controller = Scripted(world, lambda key: answers.pop(0))

    started(world, controller).ask("scripted", "a")
    world.wait(60)

    assert controller.seconds("a") == [0, 5, 7]


def test_only_so_many_work_at_once_and_nobody_is_forgotten() -> None:
    world = World()
    controller = Scripted(world, takes=1)
    runtime = started(world, controller, workers=3)

    for number in range(10):
        runtime.ask("scripted", str(number))
    world.wait(10)

    assert controller.most == 3
    assert {key for key, _ in controller.diary} == {str(number) for number in range(10)}


def test_a_key_asked_for_while_it_is_worked_on_is_never_in_two_hands() -> None:
    world = World()
    controller = Scripted(world, takes=1)
    runtime = started(world, controller)

    for _ in range(5):
        runtime.ask("scripted", "a")
        world.wait(0.3)
    world.wait(10)

    assert controller.most == 1
    assert controller.seconds("a") == [0, 1, 2]


def test_other_sources_than_the_mirror_may_ask() -> None:
    askers: list[Callable[[str], None]] = []
    world = World()
    controller = Scripted(world)
    started(world, controller, sources=[askers.append])

    askers[0]("from elsewhere")
    world.wait(0)

    assert [key for key, _ in controller.diary] == ["from elsewhere"]


def test_a_runtime_that_rests_ends_what_it_has_begun_and_begins_nothing() -> None:
    world = World()
    controller = Scripted(world, lambda key: Requeue(timedelta(seconds=1)), takes=2)
    runtime = started(world, controller)
    runtime.ask("scripted", "a")
    world.wait(1)

    runtime.rest()
    runtime.ask("scripted", "b")
    before = runtime.busy()
    world.wait(60)

    assert before == 1
    assert runtime.busy() == 0
    assert [key for key, _ in controller.diary] == ["a"]


def test_a_controller_that_listens_is_never_waited_for() -> None:
    world = World()
    runtime = started(world, Scripted(world, takes=20), listens=True)

    runtime.ask("scripted", "a")
    world.wait(1)

    assert runtime.busy() == 0


def test_a_killed_runtime_does_nothing_more() -> None:
    world = World()
    controller = Scripted(world, lambda key: Requeue(timedelta(seconds=1)), takes=0.5)
    started(world, controller).ask("scripted", "a")
    world.wait(2)
    before = list(controller.diary)

    world.crash()
    world.add(PODS, wire.pod(node=""))
    world.wait(60)

    assert controller.diary == before


def test_a_change_knows_the_object_as_it_is_or_as_it_was_last() -> None:
    assert Change(NODES, None, "new").either == "new"
    assert Change(NODES, "old", None).either == "old"


def test_how_much_waits_and_is_worked_on_is_told() -> None:
    world = World()
    runtime = started(world, Scripted(world, takes=60), workers=2)

    for key in "abcde":
        runtime.ask("scripted", key)
    world.wait(1)
    while_working = runtime.loads()
    world.wait(200)

    assert while_working == [("scripted", 3, 2)]
    assert runtime.loads() == [("scripted", 0, 0)]


def test_a_controller_that_does_not_come_to_an_end_is_found_out_unless_it_listens() -> None:
    for listens, found in ((False, ["scripted"]), (True, [])):
        world = World()
        runtime = started(world, Scripted(world, takes=3600), listens=listens)

        runtime.ask("scripted", "endless")
        world.wait(14 * 60)
        too_soon = runtime.stuck()
        world.wait(2 * 60)

        assert too_soon == []
        assert runtime.stuck() == found
