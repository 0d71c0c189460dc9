"""Permissions that are missing are all named before anything is done."""

import asyncio

import pytest
from aiohttp import web

from dovetail.kube.connection import Connection
from dovetail.kube.preflight import PreflightError
from dovetail.kube.rate_limit import RateLimiter
from dovetail.kube.rbac_check import WRITE_PERMISSIONS, check_permissions
from dovetail.model.settings import FeatureGates
from dovetail.ports.api_resources import NODES, PODS
from tests.kube.api_server import connected, served
from tests.kube.scripted_server import Answer, Script, a_status, played


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


def checked(script: Script, gates: FeatureGates = FeatureGates()) -> None:  # noqa: B008 - frozen
    async def run() -> None:
        async with played(script) as access, connected(access) as connection:
            await check_permissions(connection, read=(PODS, NODES), gates=gates)

    asyncio.run(run())


def test_with_all_permissions_the_check_passes() -> None:
    checked(Rules())


def test_all_missing_permissions_are_in_one_message() -> None:
    rules = Rules(("watch", "nodes"), ("create", "pods/eviction"), ("patch", "nodeclaims/status"))

    with pytest.raises(PreflightError) as refused:
        checked(rules)

    message = str(refused.value)
    assert (
        "missing permissions: watch nodes, patch nodeclaims/status.karpenter.sh, create pods/eviction"
        in message
    )
    assert "\n" not in message


def test_the_nomination_permission_is_checked_only_with_its_feature_gate() -> None:
    rules = Rules(("patch", "pods/status"))

    with pytest.raises(PreflightError, match="missing permissions: patch pods/status"):
        checked(rules)

    checked(rules, FeatureGates(NominatedNodeName=False))


@pytest.mark.parametrize(
    ("gates", "permission"),
    [
        (FeatureGates(NodeOverlay=True), ("patch", "nodeoverlays/status")),
        (FeatureGates(CapacityBuffer=True), ("patch", "capacitybuffers/status")),
        (FeatureGates(CapacityBuffer=True), ("get", "podtemplates")),
    ],
)
def test_permissions_of_a_feature_gate_are_checked_if_it_is_on(
    gates: FeatureGates, permission: tuple[str, str]
) -> None:
    checked(Rules(permission))

    with pytest.raises(PreflightError, match=f"missing permissions: {' '.join(permission)}"):
        checked(Rules(permission), gates)


@pytest.mark.parametrize("answer", [a_status(403, "Forbidden"), a_status(404, "NotFound")])
def test_without_access_reviews_the_check_passes(answer: Answer) -> None:
    checked(Script(*[answer] * (4 + len(WRITE_PERMISSIONS) + 1)))


def test_the_simulated_server_grants_every_permission() -> None:
    async def run() -> None:
        async with served() as server, connected(server.access) as connection:
            await check_permissions(connection, read=(PODS,))

    asyncio.run(run())


def test_a_standby_may_send_access_reviews() -> None:
    def refuse() -> None:
        raise AssertionError("nothing is written")

    async def run() -> None:
        async with served() as server:
            clock = asyncio.get_running_loop().time
            guarded = Connection(
                server.access, rate_limiter=RateLimiter(clock=clock), user_agent="test", fence=refuse
            )
            try:
                await check_permissions(guarded, read=(PODS,))
            finally:
                await guarded.close()
                await asyncio.sleep(0.01)

    asyncio.run(run())
