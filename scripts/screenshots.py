"""Make the screenshots of the dashboard in docs/images: demos with a fixed seed at a fixed moment."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Final

import msgspec
from playwright.async_api import Browser, async_playwright

from dovetail.dashboard.server import DashboardServer
from dovetail.dashboard.sources.producer import Pricing, ViewProducer
from dovetail.dashboard.sources.source import ViewUpdate
from dovetail.data.bundled import bundled_catalog, bundled_prices, bundled_scenario
from dovetail.ports.api_resources import EVENTS
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.scenario.load import read_scenario
from dovetail.simulator.scenario_runner import ScenarioRunner
from dovetail.view.prices import OfferingPrices

IMAGES: Final = Path(__file__).parents[1] / "docs" / "images"
CHROMIUM: Final = os.environ.get("CHROMIUM", "/usr/bin/chromium")
TOKEN: Final = "a-token-for-screenshots"  # noqa: S105
STEP: Final = timedelta(seconds=2)
EVALUATE_EVERY: Final = 20
"""Steps; the last one is always evaluated."""


class Screenshot(msgspec.Struct, frozen=True, kw_only=True):
    """A view of a scenario at one moment."""

    name: str
    scenario: str
    seconds: float
    """Virtual time since the start of the scenario."""
    route: str
    scheme: str = "light"
    width: int = 1280
    height: int = 800


SCREENSHOTS: Final = (
    Screenshot(name="dashboard", scenario="consolidate", seconds=116, route="#/cluster", height=760),
    Screenshot(
        name="dashboard-timeline", scenario="consolidate", seconds=330, route="#/timeline", scheme="dark"
    ),
    Screenshot(
        name="dashboard-decisions", scenario="consolidate", seconds=330, route="#/decisions", height=620
    ),
)


class SteppedSource:
    """Documents of a scenario that runs to a moment and stops there."""

    def __init__(self, scenario_name: str, seconds: float) -> None:
        scenario = read_scenario(scenario_name, bundled_scenario(scenario_name))
        prices = bundled_prices()
        self._seconds = seconds
        self._cluster = SimulatedCluster(scenario, catalog=bundled_catalog(), prices=prices)
        self._steps = ScenarioRunner(self._cluster, scenario).steps(every=STEP)
        context = self._cluster.operator.context
        get_types = context.cloud_provider.instance_types
        pricing = Pricing(
            get_instance_types=get_types,
            find_price=OfferingPrices(lambda: map(get_types, context.cache.pools())),
            description=prices.describe(scenario.region),
            region=scenario.region,
        )
        self._builder = ViewProducer(
            self._cluster.operator.cache,
            pricing,
            source="simulation",
            name=f"demo {scenario.name}",
            get_ledger=lambda: context.savings.ledger,
        )
        self._builder.autoscaler = "dovetail"

    async def start(self) -> None:
        await self._builder.publish(self._cluster.clock.now())

    async def run(self) -> None:
        """Run to the moment; every step is a point of the timeline."""
        clock = self._cluster.clock
        end = clock.now() + timedelta(seconds=self._seconds)
        count = 0
        while clock.now() < end:
            next(self._steps, None)
            count += 1
            self._builder.decisions.add_events(list(self._cluster.api.list(EVENTS).items))
            if count % EVALUATE_EVERY == 0 or clock.now() >= end:
                self._builder.evaluate_now(clock.now())
            await self._builder.publish(clock.now())
            await asyncio.sleep(0)  # The server takes the document.
            await asyncio.sleep(0)

    def current(self) -> ViewUpdate:
        return self._builder.publisher.current()

    def updates(self) -> AsyncIterator[ViewUpdate]:
        return self._builder.publisher.updates()

    async def close(self) -> None:
        self._cluster.operator.kill()
        await self._builder.close()


async def take_screenshots(browser: Browser, shots: list[Screenshot]) -> None:
    """Take the screenshots of one scenario and moment."""
    source = SteppedSource(shots[0].scenario, shots[0].seconds)
    await source.start()
    async with DashboardServer(source, get_token=lambda: TOKEN).serving() as port:
        await source.run()
        for shot in shots:
            context = await browser.new_context(
                viewport={"width": shot.width, "height": shot.height},
                color_scheme="dark" if shot.scheme == "dark" else "light",
                timezone_id="UTC",
                reduced_motion="reduce",
            )
            page = await context.new_page()
            await page.goto(f"http://127.0.0.1:{port}/#token={TOKEN}")
            await page.wait_for_selector("time.clock")
            await page.evaluate("route => { location.hash = route; }", shot.route)
            await page.wait_for_timeout(500)
            await page.screenshot(path=IMAGES / f"{shot.name}.png")
            await context.close()
            sys.stdout.write(f"docs/images/{shot.name}.png\n")
    await source.close()


async def main() -> None:
    """Take all screenshots; each scenario runs once per moment."""
    IMAGES.mkdir(parents=True, exist_ok=True)
    moments: dict[tuple[str, float], list[Screenshot]] = {}
    for shot in SCREENSHOTS:
        moments.setdefault((shot.scenario, shot.seconds), []).append(shot)
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for shots in moments.values():
            await take_screenshots(browser, shots)
        await browser.close()


if __name__ == "__main__":
    asyncio.run(main())
