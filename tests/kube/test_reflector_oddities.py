"""Answers of real API servers, and of what stands before them, that ours does not give."""

import asyncio
from datetime import timedelta

import pytest

from dovetail.kube.reflector import Feed, Watcher
from dovetail.ports.api_resources import PODS
from dovetail.ports.kube_errors import Forbidden, NotFound
from dovetail.simulator.randomness import SeededChance
from dovetail.state.cluster.cache import Mirror
from tests.kube.scripted import Answer, Script, a_list, a_status, an_event, played, told
from tests.kube.serving import ImpatientLoop, connected, until
from tests.support.telling import KeptLog


def scripted(script: Script, asked: list[str]) -> Mirror:
    """Let a watcher of pods meet the script until it has asked all this."""

    async def run() -> Mirror:
        mirror, loop, log = Mirror(), ImpatientLoop(), KeptLog()
        async with played(script) as access, connected(access) as connection:
            watcher = Watcher(mirror, PODS, connection, loop=loop, chance=SeededChance(1), log=log)
            loop.spawn(watcher.run())
            await until(lambda: script.asked == asked, lambda: (script.asked, log.lines))
            await loop.stop()
        return mirror

    return asyncio.run(run())


def test_gone_as_an_answer_and_as_an_event_both_lead_to_a_new_list() -> None:
    gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    script = Script(
        a_list(5, "a", "b"),
        a_status(410, "Expired"),
        a_list(7, "a"),
        (200, an_event("ADDED", told("c", 8)) + an_event("ERROR", gone)),
        a_list(9, "c"),
    )

    mirror = scripted(script, ["list", "watch 5", "list", "watch 7", "list", "watch 9"])

    assert [pod.name for pod in mirror.unbound_pods()] == ["c"]


def test_a_storage_that_is_initialising_is_waited_for_without_listing_again() -> None:
    busy = a_status(429, "TooManyRequests", retryAfterSeconds=1)
    script = Script(a_list(5, "a"), busy, busy, (503, "<html>proxy</html>"), (500, ""))

    scripted(script, ["list", *["watch 5"] * 5])


def test_a_bookmark_moves_the_place_to_go_on_from() -> None:
    mark = {"kind": "Pod", "metadata": {"resourceVersion": "90"}}
    script = Script(a_list(5, "a"), (200, an_event("BOOKMARK", mark)))

    mirror = scripted(script, ["list", "watch 5", "watch 90"])

    assert [pod.name for pod in mirror.unbound_pods()] == ["a"]


def test_half_a_line_at_the_end_of_a_watch_is_no_event() -> None:
    line = an_event("ADDED", told("b", 6))
    script = Script(a_list(5, "a"), (200, line + an_event("ADDED", told("c", 7))[:40]))

    mirror = scripted(script, ["list", "watch 5", "watch 6"])

    assert [pod.name for pod in mirror.unbound_pods()] == ["a", "b"]


def test_a_list_that_outlives_its_continue_token_is_read_anew_in_one_piece() -> None:
    script = Script(a_list(5, "a", more="next"), a_status(410, "Expired"), a_list(6, "b"))

    mirror = scripted(script, ["list", "list", "list", "watch 6"])

    assert [pod.name for pod in mirror.unbound_pods()] == ["b"]


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
def test_what_is_no_list_is_asked_for_again(odd: str) -> None:
    script = Script((200, odd), a_list(5, "a"))

    mirror = scripted(script, ["list", "list", "watch 5"])

    assert [pod.name for pod in mirror.unbound_pods()] == ["a"]


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
def test_what_is_no_event_is_passed_over_and_the_watch_goes_on_from_before_it(odd: str) -> None:
    line = an_event("ADDED", told("b", 6))
    script = Script(a_list(5, "a"), (200, line + odd + an_event("ADDED", told("c", 7))))

    mirror = scripted(script, ["list", "watch 5", "watch 6"])

    assert [pod.name for pod in mirror.unbound_pods()] == ["a", "b"]


@pytest.mark.parametrize("wish", [86_400, 10**15, -(10**15)])
def test_a_server_that_wants_to_be_left_alone_for_a_day_is_asked_again_within_a_minute(
    wish: int,
) -> None:
    slept: list[timedelta] = []

    class Noting(ImpatientLoop):
        async def sleep(self, delay: timedelta) -> None:
            slept.append(delay)

    async def run() -> None:
        script = Script(a_list(5, "a"), a_status(429, "TooManyRequests", retryAfterSeconds=wish))
        async with played(script) as access, connected(access) as connection:
            loop = Noting()
            watcher = Watcher(
                Mirror(), PODS, connection, loop=loop, chance=SeededChance(1), log=KeptLog()
            )
            loop.spawn(watcher.run())
            await until(lambda: len(script.asked) == 3, lambda: script.asked)
            await loop.stop()

    asyncio.run(run())

    assert timedelta() < slept[0] <= timedelta(minutes=1)


@pytest.mark.parametrize(
    ("answer", "error"),
    [(a_status(403, "Forbidden"), Forbidden), ((404, "page not found"), NotFound)],
)
def test_what_is_forbidden_or_not_served_from_the_start_is_said_and_not_waited_for(
    answer: Answer, error: type[Exception]
) -> None:
    async def run() -> None:
        mirror, loop = Mirror(), ImpatientLoop()
        script = Script(*[answer] * len(mirror.tables))
        async with played(script) as access, connected(access) as connection:
            feed = Feed(mirror, connection, loop=loop, chance=SeededChance(1), log=KeptLog())
            with pytest.raises(error):
                await asyncio.wait_for(feed.start(), 5)
            await loop.stop()

    asyncio.run(run())
