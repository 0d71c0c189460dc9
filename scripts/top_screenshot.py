"""Write a screenshot of ``dovetail top`` (SVG), from a demo with a fixed seed.

Equal inputs give an equal file:

    python scripts/top_screenshot.py docs/images/top.svg
"""

import argparse
import asyncio
import re
from datetime import timedelta
from pathlib import Path

from dovetail.cli.top.app import TopApp
from dovetail.dashboard.sources.producer import Pricing, ViewProducer
from dovetail.dashboard.sources.static import StaticSource
from dovetail.data.bundled import bundled_catalog, bundled_prices, bundled_scenario
from dovetail.ports.api_resources import EVENTS
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.scenario.load import read_scenario
from dovetail.simulator.scenario_runner import ScenarioRunner
from dovetail.view.document import View
from dovetail.view.prices import find_in_book


def build_view(name: str, after: timedelta) -> View:
    """Return the document of a bundled scenario, some virtual time after its beginning."""
    scenario = read_scenario(name, bundled_scenario(name))
    cluster = SimulatedCluster(scenario, catalog=bundled_catalog(), prices=bundled_prices())
    start = cluster.clock.now()
    for now in ScenarioRunner(cluster, scenario).steps(every=timedelta(seconds=1)):
        if now - start >= after:
            break
    context, prices = cluster.operator.context, bundled_prices()
    pricing = Pricing(
        get_instance_types=context.cloud_provider.instance_types,
        find_price=find_in_book(prices, scenario.region),
        description=prices.describe(scenario.region),
        region=scenario.region,
        scheduling=context.scheduling_settings,
    )
    builder = ViewProducer(context.cache, pricing, source="simulation", name=name)
    builder.autoscaler = "dovetail"
    builder.decisions.add_events(cluster.api.list(EVENTS).items)
    builder.evaluate_now(cluster.clock.now())
    return builder.build(cluster.clock.now())


async def draw(view: View, size: tuple[int, int], keys: list[str]) -> str:
    """Return the screen after these keys, without references to fonts on other hosts."""

    async def open_source() -> StaticSource:
        return StaticSource(view)

    app = TopApp(open_source)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        for key in keys:
            await pilot.press(key)
        image = app.export_screenshot(title="dovetail top")
    return re.sub(r"@font-face \{.*?\}\s*", "", image, flags=re.DOTALL)


def main() -> None:
    """Parse arguments and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--scenario", default="consolidate")
    parser.add_argument("--after", type=int, default=116, help="virtual seconds")
    parser.add_argument("--keys", nargs="*", default=[], help="keys to press first, for example enter")
    parser.add_argument("--size", nargs=2, type=int, default=(130, 22), help="columns and rows")
    options = parser.parse_args()
    view = build_view(options.scenario, timedelta(seconds=options.after))
    options.file.write_text(asyncio.run(draw(view, tuple(options.size), options.keys)))


if __name__ == "__main__":
    main()
