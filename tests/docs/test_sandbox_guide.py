"""The sandbox guide lists every option, and its scenario runs."""

import re
from pathlib import Path

from dovetail.cli.sandbox import sandbox
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.scenario.load import read_scenario
from dovetail.simulator.scenario_runner import ScenarioRunner

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "sandbox.md").read_text(encoding="utf-8")


def test_every_option_is_in_the_guide() -> None:
    options = [name for option in sandbox.params for name in option.opts if name.startswith("--")]

    assert [name for name in options if f"`{name} " not in GUIDE] == []


def test_scenario_of_the_guide_reaches_its_goals() -> None:
    (written,) = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
    scenario = read_scenario("mine.yaml", written.encode())

    cluster = SimulatedCluster(scenario, catalog=bundled_catalog(), prices=bundled_prices())
    report = ScenarioRunner(cluster, scenario).run()

    assert [phase.reached for phase in report.phases] == [True, True]
    assert cluster.invariants.violations == []
