"""Answers of real API servers, and of what stands before them, that ours does not give."""

import asyncio
from datetime import timedelta

import pytest

from dovetail.kube.reflector import Reflector, Reflectors
from dovetail.ports.api_resources import PODS
from dovetail.ports.kube_errors import Forbidden, NotFound
from dovetail.simulator.environment import SeededRandomSource
from dovetail.state.cluster.cache import ClusterCache
from tests.kube.api_server import ImpatientLoop, connected, until
from tests.kube.scripted_server import Answer, Script, a_list, a_status, an_event, played, text
from tests.support.telemetry import RecordedLog


def scripted(script: Script, asked: list[str], log: RecordedLog | None = None) -> ClusterCache:
    """Run a reflector of pods against a script until all requests were made."""

    log = log or RecordedLog()

    async def run() -> ClusterCache:
        cache, loop = ClusterCache(), ImpatientLoop()
        async with played(script) as access, connected(access) as connection:
            watcher = Reflector(cache, PODS, connection, loop=loop, random=SeededRandomSource(1), log=log)
            loop.spawn(watcher.run())
            await until(lambda: script.asked == asked, lambda: (script.asked, log.lines))
            await loop.stop()
        return cache

    return asyncio.run(run())


def test_gone_as_response_or_event_causes_a_new_list() -> None:
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    script = Script(
        a_list(5, "a", "b"),
        a_status(410, "Expired"),
        a_list(7, "a"),
        (200, an_event("ADDED", text("c", 8)) + an_event("ERROR", gone)),
        a_list(9, "c"),
    )

    cache = scripted(script, ["list", "watch 5", "list", "watch 7", "list", "watch 9"])

    assert [pod.name for pod in cache.unbound_pods()] == ["c"]


class RecordingLoop(ImpatientLoop):
    """Records the delays between attempts instead of waiting."""

    def __init__(self) -> None:
        super().__init__()
        self.delays: list[float] = []

    async def sleep(self, delay: timedelta) -> None:
        self.delays.append(delay.total_seconds())


def delays(script: Script, requests: int) -> list[float]:
    """Run a reflector of pods until it made so many requests; return its pauses in seconds."""

    async def run() -> list[float]:
        loop = RecordingLoop()
        async with played(script) as access, connected(access) as connection:
            watcher = Reflector(
                ClusterCache(), PODS, connection, loop=loop, random=SeededRandomSource(1), log=RecordedLog()
            )
            loop.spawn(watcher.run())
            await until(lambda: len(script.asked) == requests, lambda: script.asked)
            await loop.stop()
        return loop.delays

    return asyncio.run(run())


def test_the_first_gone_is_answered_with_a_list_at_once_after_any_number_of_failures() -> None:
    failures = [(503, "")] * 12
    script = Script(a_list(5, "a"), *failures, a_status(410, "Expired"), a_list(900, "a"), (503, ""))

    slept = delays(script, 1 + 12 + 1 + 1 + 1 + 1)

    assert len(slept) == 13  # One for each 503, none for 410.
    assert slept[12] < 0.4  # The list was complete: the backoff begins anew.


def test_gone_after_gone_backs_off() -> None:
    gone = a_status(410, "Expired")
    script = Script(*[a_list(5, "a"), gone] * 12)

    slept = delays(script, 25)

    assert len(slept) == 11
    assert slept[0] < 0.4
    assert slept[-1] > 10


def test_an_event_ends_a_series_of_gone() -> None:
    gone, event = a_status(410, "Expired"), (200, an_event("ADDED", text("b", 6)))
    script = Script(a_list(5, "a"), gone, a_list(5, "a"), event, gone, a_list(5, "a"))

    assert [delay for delay in delays(script, 7) if delay] == []


def test_a_watch_is_resumed_within_seconds_after_a_long_outage() -> None:
    script = Script(a_list(5, "a"), *[(503, "")] * 20)

    assert max(delays(script, 22)) <= 7.5


def test_an_outage_is_logged_once_for_each_cause_and_once_when_it_is_over() -> None:
    status = {"kind": "Status", "code": 503, "reason": "ServiceUnavailable", "message": "no certificate"}
    down, also_down, forbidden = (503, ""), (503, status), a_status(403, "Forbidden")
    script = Script(
        a_list(5, "a"),
        *(down, down, down, forbidden, forbidden, down, also_down),
        (200, an_event("ADDED", text("b", 8))),
    )
    log = RecordedLog()

    scripted(script, ["list", *["watch 5"] * 8, "watch 8"], log)

    logged = [(line.level, line.message) for line in log.lines if line.level != "debug"]
    assert logged == [
        ("error", "watch interrupted"),
        ("error", "watch interrupted"),
        ("error", "watch interrupted"),
        ("info", "watch resumed"),
    ]
    assert [line.fields["resource"] for line in log.lines] == ["pods"] * len(log.lines)


def test_a_watch_that_is_resumed_at_once_is_not_logged() -> None:
    script = Script(a_list(5, "a"), (503, ""), (200, an_event("ADDED", text("b", 8))))
    log = RecordedLog()

    scripted(script, ["list", "watch 5", "watch 5", "watch 8"], log)

    assert {line.level for line in log.lines} <= {"debug"}


def test_an_initializing_storage_is_retried_without_a_list() -> None:
    busy = a_status(429, "TooManyRequests", retryAfterSeconds=1)
    script = Script(a_list(5, "a"), busy, busy, (503, "<html>proxy</html>"), (500, ""))

    scripted(script, ["list", *["watch 5"] * 5])


def test_a_bookmark_advances_the_resource_version() -> None:
    mark = {"kind": "Pod", "metadata": {"resourceVersion": "90"}}
    script = Script(a_list(5, "a"), (200, an_event("BOOKMARK", mark)))

    cache = scripted(script, ["list", "watch 5", "watch 90"])

    assert [pod.name for pod in cache.unbound_pods()] == ["a"]


def test_a_truncated_line_is_not_an_event() -> None:
    line = an_event("ADDED", text("b", 6))
    script = Script(a_list(5, "a"), (200, line + an_event("ADDED", text("c", 7))[:40]))

    cache = scripted(script, ["list", "watch 5", "watch 6"])

    assert [pod.name for pod in cache.unbound_pods()] == ["a", "b"]


def test_an_expired_continue_token_falls_back_to_a_list_without_pages() -> None:
    script = Script(a_list(5, "a", more="next"), a_status(410, "Expired"), a_list(6, "b"))

    cache = scripted(script, ["list", "list", "list", "watch 6"])

    assert [pod.name for pod in cache.unbound_pods()] == ["b"]


@pytest.mark.parametrize(
    "odd",
    [
        "null",
        "[]",
        '"text"',
        '{"kind": "Status", "status": "Success"}',
        '{"metadata": null}',
        '{"metadata": {"resourceVersion": 5}}',
    ],
)
def test_an_invalid_list_is_retried(odd: str) -> None:
    script = Script((200, odd), a_list(5, "a"))

    cache = scripted(script, ["list", "list", "watch 5"])

    assert [pod.name for pod in cache.unbound_pods()] == ["a"]


@pytest.mark.parametrize(
    "odd",
    [
        '{"type": "ADDED", "object": {}}\n',
        '{"type": "BOOKMARK", "object": {"metadata": {}}}\n',
        '{"type": "ADDED"}\n',
        '{"type": "ADDED", "object": {"metadata": {"name": "x"}}}\n',
        "<html>gateway</html>\n",
    ],
)
def test_an_invalid_event_resumes_the_watch_before_it(odd: str) -> None:
    line = an_event("ADDED", text("b", 6))
    script = Script(a_list(5, "a"), (200, line + odd + an_event("ADDED", text("c", 7))))

    cache = scripted(script, ["list", "watch 5", "watch 6"])

    assert [pod.name for pod in cache.unbound_pods()] == ["a", "b"]


@pytest.mark.parametrize("seconds", [86_400, 10**15, -(10**15)])
def test_a_long_retry_after_is_limited_to_a_minute(seconds: int) -> None:
    slept: list[timedelta] = []

    class Noting(ImpatientLoop):
        async def sleep(self, delay: timedelta) -> None:
            slept.append(delay)

    async def run() -> None:
        script = Script(a_list(5, "a"), a_status(429, "TooManyRequests", retryAfterSeconds=seconds))
        async with played(script) as access, connected(access) as connection:
            loop = Noting()
            watcher = Reflector(
                ClusterCache(), PODS, connection, loop=loop, random=SeededRandomSource(1), log=RecordedLog()
            )
            loop.spawn(watcher.run())
            await until(lambda: len(script.asked) == 3, lambda: script.asked)
            await loop.stop()

    asyncio.run(run())

    assert timedelta() < slept[0] <= timedelta(minutes=1)


@pytest.mark.parametrize(
    ("answer", "error"), [(a_status(403, "Forbidden"), Forbidden), ((404, "page not found"), NotFound)]
)
def test_permanent_errors_of_the_first_list_are_raised(answer: Answer, error: type[Exception]) -> None:
    async def run() -> None:
        cache, loop = ClusterCache(), ImpatientLoop()
        script = Script(*[answer] * len(cache.stores))
        async with played(script) as access, connected(access) as connection:
            feed = Reflectors(cache, connection, loop=loop, random=SeededRandomSource(1), log=RecordedLog())
            with pytest.raises(error):
                await asyncio.wait_for(feed.start(), 5)
            await loop.stop()

    asyncio.run(run())
