"""The mirror of a real API server, through its restarts and its forgetting."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from dovetail.ports.api_resources import PODS
from dovetail.state.cluster.cache import Change, Mirror
from tests.kube.serving import mirrored
from tests.live.crds import install_crds
from tests.live.plane import ControlPlane
from tests.live.replicas import a_deployment

PATIENCE = 60.0


@pytest.fixture
def plane(control_plane: ControlPlane) -> ControlPlane:
    install_crds(control_plane)
    return control_plane


def following(plane: ControlPlane, work: Callable[[Mirror], Awaitable[None]]) -> None:
    async def run() -> None:
        async with mirrored(plane.access()) as (mirror, _):
            await work(mirror)
            await agree(plane, mirror)
        # Until a busy server, too, has said goodbye to a dozen watches under TLS.
        await asyncio.sleep(1)

    asyncio.run(run())


async def agree(plane: ControlPlane, mirror: Mirror) -> None:
    """Wait until the mirror shows what somebody who looks for the first time sees."""
    end = asyncio.get_running_loop().time() + PATIENCE
    differing = ["everything"]
    while differing:
        assert asyncio.get_running_loop().time() < end, f"the mirror is wrong about {differing}"
        async with mirrored(plane.access()) as (fresh, _):
            differing = [
                resource.qualified
                for resource, table in mirror.tables.items()
                if table.all() != fresh.tables[resource].all()
            ]


async def scale(plane: ControlPlane, name: str, replicas: int) -> None:
    await asyncio.to_thread(plane.kubectl, "scale", f"deployment/{name}", f"--replicas={replicas}")


async def has_pods(mirror: Mirror, count: int) -> None:
    end = asyncio.get_running_loop().time() + PATIENCE
    while len(mirror.tables[PODS].all()) != count:
        assert asyncio.get_running_loop().time() < end, len(mirror.tables[PODS].all())
        await asyncio.sleep(0.05)


def test_what_controllers_and_scheduler_do_is_mirrored(plane: ControlPlane) -> None:
    async def work(mirror: Mirror) -> None:
        await asyncio.to_thread(plane.apply, a_deployment("web", replicas=30))
        await has_pods(mirror, 30)
        await scale(plane, "web", 3)
        await has_pods(mirror, 3)

    following(plane, work)


@pytest.mark.parametrize("forgetting", [False, True])
def test_a_restart_in_the_middle_of_a_scale_up_is_made_good(
    plane: ControlPlane, forgetting: bool
) -> None:
    async def work(mirror: Mirror) -> None:
        await asyncio.to_thread(plane.apply, a_deployment("web", replicas=3))
        await has_pods(mirror, 3)
        changes: list[Change] = []
        mirror.subscribe(PODS, changes.append)
        changes.clear()

        await scale(plane, "web", 60)
        await asyncio.to_thread(plane.restart_apiserver, forgetting=forgetting)
        await has_pods(mirror, 60)

        begun = [one.new.name for one in changes if one.new is not None and one.old is None]
        assert len(begun) == len(set(begun)) == 57
        await scale(plane, "web", 3)
        await has_pods(mirror, 3)

    following(plane, work)
