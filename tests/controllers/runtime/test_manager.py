"""Controller manager: watch events become keys, and keys become reconciles."""

from collections.abc import Callable
from datetime import datetime, timedelta

from dovetail.controllers.runtime.manager import Controller, ControllerManager, RequeueAfter
from dovetail.controllers.runtime.workqueue import Backoff
from dovetail.errors import DovetailError
from dovetail.ports.api_resources import NODES, PODS
from dovetail.ports.kube_errors import Conflict
from dovetail.state.cluster.cache import ObjectChange
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.kube import manifests

Work = Callable[[str], RequeueAfter | None]


class FakeReconciler:
    """Reconciler that records its calls and runs a function of the test."""

    def __init__(
        self, env: ControllerEnvironment, work: Work = lambda key: None, duration: float = 0
    ) -> None:
        self.env = env
        self.work = work
        self.duration = duration
        self.calls: list[tuple[str, datetime]] = []
        self.busy: set[str] = set()
        self.max_active = 0

    async def reconcile(self, key: str) -> RequeueAfter | None:
        assert key not in self.busy
        self.busy.add(key)
        self.max_active = max(self.max_active, len(self.busy))
        self.calls.append((key, self.env.now))
        if self.duration:
            await self.env.loop.sleep(timedelta(seconds=self.duration))
        self.busy.remove(key)
        return self.work(key)

    def seconds(self, key: str) -> list[float]:
        """Return when a key was reconciled, in seconds since the first time."""
        times = [at for name, at in self.calls if name == key]
        return [(at - times[0]).total_seconds() for at in times]


def started(env: ControllerEnvironment, controller: FakeReconciler, **fields: object) -> ControllerManager:
    registration = Controller(
        name="fake",
        reconciler=controller,
        watches=[(NODES, lambda change: [change.latest.name])],
        **fields,  # type: ignore[arg-type]
    )
    env.run(lambda _: registration)
    return env.manager


def test_existing_and_changed_objects_are_reconciled() -> None:
    env = ControllerEnvironment()
    env.add(NODES, manifests.node("before"))
    controller = FakeReconciler(env)

    started(env, controller, initial_keys=["singleton"])
    env.add(NODES, manifests.node("after"))
    env.delete(NODES, "before")

    keys = [key for key, _ in controller.calls]
    assert sorted(keys[:2]) == ["before", "singleton"]
    assert "after" in keys[2:]
    assert keys[-1] == "before"


def test_no_reconcile_runs_inside_the_call_that_enqueued_it() -> None:
    env = ControllerEnvironment()
    controller = FakeReconciler(env)
    manager = started(env, controller)

    manager.enqueue("fake", "now")
    inside = list(controller.calls)
    env.cache.apply_event(NODES, env.api.create(NODES, manifests.node("new")))
    inside += controller.calls
    env.wait(0)

    assert inside == []
    assert {key for key, _ in controller.calls} == {"now", "new"}


def test_failed_key_is_retried_with_backoff_and_does_not_stop_others() -> None:
    def work(key: str) -> None:
        if key == "bad":
            raise RuntimeError("broken")

    env = ControllerEnvironment()
    controller = FakeReconciler(env, work)
    manager = started(env, controller, backoff=Backoff(timedelta(seconds=1)))

    for key in ("bad", "good"):
        manager.enqueue("fake", key)
    env.wait(8)

    assert controller.seconds("bad") == [0, 1, 3, 7]
    assert controller.seconds("good") == [0]
    line = env.log.entries("reconciler error")[0]
    assert (line["key"], line["error"], line["again_in"]) == ("bad", "RuntimeError: broken", "1s")
    errors = "controller_runtime_reconcile_errors_total"
    assert env.metrics.total(errors, controller="fake") == 4


def test_dovetail_error_is_logged_by_its_message_and_a_conflict_is_not_logged() -> None:
    failures: list[Exception] = [DovetailError("no such pool"), Conflict("written since")]

    def work(key: str) -> None:
        if failures:
            raise failures.pop(0)

    env = ControllerEnvironment()
    controller = FakeReconciler(env, work)
    started(env, controller).enqueue("fake", "a")

    env.wait(5)

    assert [line["error"] for line in env.log.entries("reconciler error")] == ["no such pool"]
    assert len(controller.calls) == 3


def test_requeue_after_reconciles_again() -> None:
    results = [RequeueAfter(timedelta(seconds=5)), RequeueAfter(timedelta(seconds=2)), None]
    env = ControllerEnvironment()
    controller = FakeReconciler(env, lambda key: results.pop(0))

    started(env, controller).enqueue("fake", "a")
    env.wait(60)

    assert controller.seconds("a") == [0, 5, 7]


def test_workers_limit_concurrent_reconciles_and_no_key_is_lost() -> None:
    env = ControllerEnvironment()
    controller = FakeReconciler(env, duration=1)
    manager = started(env, controller, workers=3)

    for number in range(10):
        manager.enqueue("fake", str(number))
    env.wait(10)

    assert controller.max_active == 3
    assert {key for key, _ in controller.calls} == {str(number) for number in range(10)}


def test_key_enqueued_during_its_reconcile_is_not_reconciled_concurrently() -> None:
    env = ControllerEnvironment()
    controller = FakeReconciler(env, duration=1)
    manager = started(env, controller)

    for _ in range(5):
        manager.enqueue("fake", "a")
        env.wait(0.3)
    env.wait(10)

    assert controller.max_active == 1
    assert controller.seconds("a") == [0, 1, 2]


def test_sources_other_than_watches_can_enqueue_keys() -> None:
    sources: list[Callable[[str], None]] = []
    env = ControllerEnvironment()
    controller = FakeReconciler(env)
    started(env, controller, sources=[sources.append])

    sources[0]("from elsewhere")
    env.wait(0)

    assert [key for key, _ in controller.calls] == ["from elsewhere"]


def test_stopped_manager_finishes_running_reconciles_and_starts_none() -> None:
    env = ControllerEnvironment()
    controller = FakeReconciler(env, lambda key: RequeueAfter(timedelta(seconds=1)), duration=2)
    manager = started(env, controller)
    manager.enqueue("fake", "a")
    env.wait(1)

    manager.stop()
    manager.enqueue("fake", "b")
    before = manager.active_count()
    env.wait(60)

    assert before == 1
    assert manager.active_count() == 0
    assert [key for key, _ in controller.calls] == ["a"]


def test_long_poll_is_not_awaited() -> None:
    env = ControllerEnvironment()
    manager = started(env, FakeReconciler(env, duration=20), long_poll=True)

    manager.enqueue("fake", "a")
    env.wait(1)

    assert manager.active_count() == 0


def test_manager_does_nothing_after_a_crash() -> None:
    env = ControllerEnvironment()
    controller = FakeReconciler(env, lambda key: RequeueAfter(timedelta(seconds=1)), duration=0.5)
    started(env, controller).enqueue("fake", "a")
    env.wait(2)
    before = list(controller.calls)

    env.crash()
    env.add(PODS, manifests.pod(node=""))
    env.wait(60)

    assert controller.calls == before


def test_change_has_the_current_or_the_last_object() -> None:
    assert ObjectChange(NODES, None, "new").latest == "new"
    assert ObjectChange(NODES, "old", None).latest == "old"


def test_queue_depth_and_active_workers_are_reported() -> None:
    env = ControllerEnvironment()
    manager = started(env, FakeReconciler(env, duration=60), workers=2)

    for key in "abcde":
        manager.enqueue("fake", key)
    env.wait(1)
    while_busy = manager.queue_metrics()
    env.wait(200)

    assert while_busy == [("fake", 3, 2)]
    assert manager.queue_metrics() == [("fake", 0, 0)]


def test_stuck_controller_is_reported_unless_it_long_polls() -> None:
    for long_poll, expected in ((False, ["fake"]), (True, [])):
        env = ControllerEnvironment()
        manager = started(env, FakeReconciler(env, duration=3600), long_poll=long_poll)

        manager.enqueue("fake", "endless")
        env.wait(14 * 60)
        too_soon = manager.stuck_controllers()
        env.wait(2 * 60)

        assert too_soon == []
        assert manager.stuck_controllers() == expected
