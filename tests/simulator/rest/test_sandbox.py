"""A box on a port: where it is, how it is asked, and that its story is played meanwhile."""

import asyncio
import base64
import ssl
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import aiohttp

from dovetail.host.clock import RealClock
from dovetail.simulator.cluster import Box
from dovetail.simulator.rest.sandbox import Sandbox, Served
from dovetail.simulator.scenario.model import Phase, Until, Wait
from tests.simulator.rest.serving import TOKEN
from tests.support.boxes import a_box, a_story, scaled
from tests.support.cluster import a_pod, run_pod

STORY = a_story(
    Phase(name="wait", actions=(Wait(timedelta(seconds=5)),)),
    Phase(name="up", actions=(scaled(1),), until=Until(running=1)),
)
Ask = Callable[[str], Awaitable[Any]]


def served(box: Box, visit: Callable[[Ask], Awaitable[None]], *, speed: float = 1.0) -> Served:
    """Serve a box for as long as a visit takes."""
    sandbox = Sandbox(box, token=TOKEN, clock=RealClock().seconds, scenario=STORY, speed=speed)

    async def run() -> Served:
        stop, where = asyncio.Event(), asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(sandbox.run(port=0, ready=where.set_result, stop=stop))
        found: Served = await where
        async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {TOKEN}"}) as session:

            async def ask(path: str) -> Any:
                async with session.get(found.url + path, ssl=trusting(found)) as answer:
                    assert answer.status == 200, await answer.text()
                    return await answer.text()

            await visit(ask)
        stop.set()
        await serving
        return found

    return asyncio.run(asyncio.wait_for(run(), 60))


def trusting(found: Served) -> ssl.SSLContext:
    [cluster] = found.kubeconfig["clusters"]
    certificate = base64.b64decode(cluster["cluster"]["certificate-authority-data"])
    return ssl.create_default_context(cadata=certificate.decode())


def test_it_is_on_loopback_and_its_kubeconfig_leads_there() -> None:
    async def visit(ask: Ask) -> None:
        assert "t3.small" in await ask("/api/v1/nodes")

    found = served(a_box(STORY), visit)

    [cluster] = found.kubeconfig["clusters"]
    assert cluster["cluster"]["server"] == found.url
    assert found.url.startswith("https://127.0.0.1:")


def test_the_story_is_played_while_somebody_looks_on() -> None:
    box = a_box(STORY)

    async def visit(ask: Ask) -> None:
        while box.chronicle.running < 1:
            await asyncio.sleep(0.01)
            await ask("/api/v1/pods")

    served(box, visit, speed=100)

    assert box.ec2.ledger.machines == 2


def test_the_log_of_the_controllers_is_that_of_their_pod_and_of_no_other() -> None:
    box = a_box(STORY)
    labels = {"karpenter": "controller"}
    home = next(iter(box.chronicle.node_ready))
    for name, its in (("ours", labels), ("other", {})):
        run_pod(box.api, a_pod(name, labels=its), node=home)
    logs = {"ours": "", "other": ""}

    async def visit(ask: Ask) -> None:
        while "created nodeclaim" not in logs["ours"]:
            await asyncio.sleep(0.01)
            for name in logs:
                logs[name] = await ask(f"/api/v1/namespaces/default/pods/{name}/log")

    served(box, visit, speed=100)

    assert '"message":"created nodeclaim"' in logs["ours"]
    assert '"level":"DEBUG"' not in logs["ours"]
    assert "nodeclaim" not in logs["other"]
