"""Scenarios run to their end, once a process, and what they came to."""

from functools import cache
from pathlib import Path

import msgspec
from click.testing import CliRunner, Result

from dovetail.cli.demo.report import Outcome, outcome_json, outcome_lines
from dovetail.cli.main import cli
from dovetail.data.bundled import bundled_catalog, bundled_prices, scenario
from dovetail.simulator.cluster import Box
from dovetail.simulator.scenario.load import read_scenario
from dovetail.simulator.scenario.model import Scenario
from dovetail.simulator.scenario_runner import Driver, PhaseReport

SMALL = """\
name: small
about: One pod comes and goes.
home: {count: 1, instanceType: m5.large}
manifests:
  - apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web, namespace: default}
    spec:
      replicas: 0
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec: {containers: [{name: web, image: web, resources: {requests: {cpu: 100m}}}]}
phases:
  - name: one
    do: [{scale: {name: web, replicas: 1}}]
    until: {running: 1}
"""
"""Needs no NodePool, and hardly any time."""


def bundled(name: str) -> Scenario:
    return read_scenario(name, scenario(name))


def a_box(story: Scenario) -> Box:
    return Box(story, catalog=bundled_catalog(), prices=bundled_prices())


def played(story: Scenario) -> Outcome:
    """Run a scenario in a box of its own."""
    box = a_box(story)
    report = Driver(box, story).run()
    return Outcome(
        scenario=story,
        report=report,
        violations=tuple(box.invariants.violations),
        wall_seconds=0.0,
    )


@cache
def outcome_of(name: str) -> Outcome:
    return played(bundled(name))


def phase_of(outcome: Outcome, name: str) -> PhaseReport:
    return next(one for one in outcome.report.phases if one.name == name)


def as_golden(outcome: Outcome) -> str:
    """Return all that is told of a run, but for the time that it took in reality."""
    prices = bundled_prices()
    table = "\n".join(line.plain.rstrip() for line in outcome_lines(outcome, prices))
    told = msgspec.json.decode(outcome_json(outcome, prices))
    del told["wall_seconds"]
    data = msgspec.json.format(msgspec.json.encode(told), indent=2).decode()
    return f"{table}\n\n{data}\n"


def demo(*args: str, stdin: str = "") -> Result:
    return CliRunner().invoke(cli, ["demo", *args], input=stdin)


def demo_of(tmp_path: Path, text: str, *args: str) -> Result:
    """Run the command on a scenario of one's own."""
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    return demo(str(file), *args)
