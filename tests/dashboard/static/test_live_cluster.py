"""The page beside a simulated cluster in which things happen."""

from collections.abc import AsyncIterator, Callable
from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from dovetail.dashboard.sources.process import ProcessSource
from dovetail.dashboard.sources.source import ViewUpdate
from dovetail.data.bundled import bundled_catalog, bundled_prices, bundled_sandbox_scenario
from dovetail.ports.api_resources import NODES
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.scenario.load import read_scenario
from tests.dashboard.static.conftest import Dashboard, Loop, Watched

pytestmark = pytest.mark.browser
Serve = Callable[[Any], Dashboard]


class Simulation:
    """A sandbox whose clock a test advances; a source of documents."""

    def __init__(self) -> None:
        scenario = read_scenario("sandbox", bundled_sandbox_scenario())
        self.cluster = SimulatedCluster(scenario, catalog=bundled_catalog(), prices=bundled_prices())
        self._source: ProcessSource | None = None

    async def start(self) -> None:
        # Created on the loop that serves it.
        self._source = ProcessSource(
            self.cluster.operator.context, source="simulation", name="test", interval=timedelta(hours=1)
        )
        await self._source.start()

    def current(self) -> ViewUpdate:
        assert self._source is not None
        return self._source.current()

    def updates(self) -> AsyncIterator[ViewUpdate]:
        assert self._source is not None
        return self._source.updates()

    async def close(self) -> None:
        assert self._source is not None
        await self._source.close()
        self.cluster.operator.kill()

    async def advance(self, seconds: float) -> str:
        """Run the cluster, publish, and return the time of the document."""
        assert self._source is not None
        clock = self.cluster.clock
        clock.run(until=clock.now() + timedelta(seconds=seconds))
        await self._source.refresh()
        return self.current().view.at.isoformat().replace("+00:00", "Z")

    async def deploy(self, replicas: int, **spec: Any) -> None:
        container = {"name": "web", "image": "web", "resources": {"requests": {"cpu": "1"}}}
        self.cluster.apply(
            [
                {
                    "apiVersion": "apps/v1",
                    "kind": "Deployment",
                    "metadata": {"name": "web", "namespace": "shop"},
                    "spec": {
                        "replicas": replicas,
                        "selector": {"matchLabels": {"app": "web"}},
                        "template": {
                            "metadata": {"labels": {"app": "web"}},
                            "spec": {"containers": [container], **spec},
                        },
                    },
                }
            ]
        )

    async def delete_node(self, name: str) -> None:
        self.cluster.api.delete(NODES, name)


def advance(loop: Loop, simulation: Simulation, page: Page, seconds: float) -> dict[str, str]:
    """Run the cluster; return the state of each card once the page shows that moment."""
    at = loop.run(simulation.advance(seconds))
    page.wait_for_function("at => document.querySelector('time.clock')?.dateTime === at", arg=at)
    return page.evaluate(
        """() => Object.fromEntries([...document.querySelectorAll(".card")].map((card) => [
          card.firstChild.dataset.node, card.className.match(/state-(\\w+)/)[1]]))"""
    )


def test_a_node_appears_fills_drains_and_goes_while_the_page_is_open(
    serve: Serve, watched: Watched, loop: Loop
) -> None:
    simulation = Simulation()
    page = watched.open(serve(simulation))
    before = advance(loop, simulation, page, 1)

    loop.run(simulation.deploy(10))
    history: dict[str, list[str]] = {}
    for _ in range(60):
        for key, state in advance(loop, simulation, page, 1.5).items():
            states = history.setdefault(key, [])
            if states[-1:] != [state]:
                states.append(state)
        if any(states[-1] == "ready" for key, states in history.items() if key not in before):
            break
    new = [key for key in history if key not in before]
    advance(loop, simulation, page, 20)  # Pods start.
    link = page.locator(f"[data-node='{new[0]}']")
    label = link.get_attribute("aria-label") or ""
    name = label.split(",")[0]

    assert history[new[0]][-2:] == ["joining", "ready"]
    assert any(states[0] == "launching" for states in (history[key] for key in new))
    assert " 0 pods" not in label
    assert link.locator(".cells path").count() > 0

    loop.run(simulation.delete_node(name))
    seen = []
    for _ in range(90):
        state = advance(loop, simulation, page, 2).get(new[0])
        if seen[-1:] != [state]:
            seen.append(state)
        if state is None:
            break

    assert "draining" in seen
    assert seen[-1] is None


def test_a_pod_that_fits_nowhere_shows_the_reason_of_each_nodepool(
    serve: Serve, watched: Watched, loop: Loop
) -> None:
    simulation = Simulation()
    loop.run(simulation.deploy(1, nodeSelector={"topology.kubernetes.io/zone": "nowhere"}))
    simulation.cluster.clock.run(until=simulation.cluster.clock.now() + timedelta(seconds=5))
    page = watched.open(serve(simulation))
    page.wait_for_timeout(1500)  # The plan for pending pods is computed in a thread.
    advance(loop, simulation, page, 1)

    row = page.locator(".pending li")
    expect(row).to_contain_text("Cannot be scheduled")
    expect(row).to_contain_text("default")
    row.locator("a").click()
    expect(page.locator(".answer .messages")).to_contain_text("topology.kubernetes.io/zone")
