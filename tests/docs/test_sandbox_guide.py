"""The guide to the sandbox: every option is in it, and its scenario can be played."""

import re
from pathlib import Path

from dovetail.cli.sandbox import sandbox
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.simulator.cluster import Box
from dovetail.simulator.scenario.load import read_scenario
from dovetail.simulator.scenario_runner import Driver

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "sandbox.md").read_text(encoding="utf-8")


def test_every_option_is_explained() -> None:
    options = [name for option in sandbox.params for name in option.opts if name.startswith("--")]

    assert [one for one in options if f"`{one} " not in GUIDE] == []


def test_the_scenario_of_the_guide_reaches_its_goals() -> None:
    (written,) = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
    story = read_scenario("mine.yaml", written.encode())

    box = Box(story, catalog=bundled_catalog(), prices=bundled_prices())
    report = Driver(box, story).run()

    assert [phase.reached for phase in report.phases] == [True, True]
    assert box.invariants.violations == []
