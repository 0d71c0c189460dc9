"""Permissions that are missing are all named before anything is done."""

import asyncio

import pytest
from aiohttp import web

from dovetail.kube.connection import Connection
from dovetail.kube.preflight import Unsuitable
from dovetail.kube.rate_limit import RateLimit
from dovetail.kube.rbac_check import WRITES, check_rights
from dovetail.model.settings import Gates
from dovetail.ports.api_resources import NODES, PODS
from tests.kube.scripted import Answer, Script, a_status, played
from tests.kube.serving import connected, served


class Rules(Script):
    """Answers reviews by a list of what is not allowed."""

    def __init__(self, *forbidden: tuple[str, str]) -> None:
        super().__init__()
        self._forbidden = forbidden

    async def answer(self, request: web.Request) -> web.StreamResponse:
        asked = (await request.json())["spec"]["resourceAttributes"]
        plural = "/".join(filter(None, (asked["resource"], asked["subresource"])))
        allowed = (asked["verb"], plural) not in self._forbidden
        return web.json_response({"status": {"allowed": allowed}}, status=201)


def checked(script: Script, gates: Gates = Gates()) -> None:  # noqa: B008 - frozen
    async def run() -> None:
        async with played(script) as access, connected(access) as connection:
            await check_rights(connection, read=(PODS, NODES), gates=gates)

    asyncio.run(run())


def test_who_may_do_everything_may_begin() -> None:
    checked(Rules())


def test_all_that_is_missing_is_said_in_one_sentence() -> None:
    rules = Rules(("watch", "nodes"), ("create", "pods/eviction"), ("patch", "nodeclaims/status"))

    with pytest.raises(Unsuitable) as refused:
        checked(rules)

    told = str(refused.value)
    assert "may not watch nodes, patch nodeclaims/status.karpenter.sh, create pods/eviction" in told
    assert "\n" not in told


def test_the_right_to_nominate_pods_is_asked_for_only_where_they_are_nominated() -> None:
    rules = Rules(("patch", "pods/status"))

    with pytest.raises(Unsuitable, match="may not patch pods/status"):
        checked(rules)

    checked(rules, Gates(NominatedNodeName=False))


@pytest.mark.parametrize(
    ("gates", "right"),
    [
        (Gates(NodeOverlay=True), ("patch", "nodeoverlays/status")),
        (Gates(CapacityBuffer=True), ("patch", "capacitybuffers/status")),
        (Gates(CapacityBuffer=True), ("get", "podtemplates")),
    ],
)
def test_what_a_feature_needs_is_asked_for_where_it_is_switched_on(
    gates: Gates, right: tuple[str, str]
) -> None:
    checked(Rules(right))

    with pytest.raises(Unsuitable, match=f"may not {' '.join(right)}"):
        checked(Rules(right), gates)


@pytest.mark.parametrize("answer", [a_status(403, "Forbidden"), a_status(404, "NotFound")])
def test_a_server_that_does_not_tell_is_taken_at_its_word_later(answer: Answer) -> None:
    checked(Script(*[answer] * (4 + len(WRITES) + 1)))


def test_our_own_server_allows_everything() -> None:
    async def run() -> None:
        async with served() as server, connected(server.access) as connection:
            await check_rights(connection, read=(PODS,))

    asyncio.run(run())


def test_those_who_do_not_lead_may_ask() -> None:
    def refuse() -> None:
        raise AssertionError("nothing is written")

    async def run() -> None:
        async with served() as server:
            clock = asyncio.get_running_loop().time
            guarded = Connection(
                server.access, limit=RateLimit(clock=clock), agent="test", guard=refuse
            )
            try:
                await check_rights(guarded, read=(PODS,))
            finally:
                await guarded.close()
                await asyncio.sleep(0.01)

    asyncio.run(run())
