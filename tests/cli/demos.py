"""Bundled scenarios, run once per process, and their results."""

from functools import cache
from pathlib import Path

import msgspec
from click.testing import CliRunner, Result

from dovetail.cli.demo.report import Outcome, outcome_json, outcome_lines
from dovetail.cli.main import cli
from dovetail.data.bundled import bundled_catalog, bundled_prices, bundled_scenario
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.scenario.load import read_scenario
from dovetail.simulator.scenario.model import Scenario
from dovetail.simulator.scenario_runner import PhaseReport, ScenarioRunner

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
"""Needs no NodePool and takes seconds."""


def bundled(name: str) -> Scenario:
    return read_scenario(name, bundled_scenario(name))


def build_cluster(scenario: Scenario) -> SimulatedCluster:
    return SimulatedCluster(scenario, catalog=bundled_catalog(), prices=bundled_prices())


def played(scenario: Scenario) -> Outcome:
    """Run a scenario in a cluster of its own."""
    cluster = build_cluster(scenario)
    report = ScenarioRunner(cluster, scenario).run()
    return Outcome(
        scenario=scenario, report=report, violations=tuple(cluster.invariants.violations), wall_seconds=0.0
    )


@cache
def outcome_of(name: str) -> Outcome:
    return played(bundled(name))


def phase_of(outcome: Outcome, name: str) -> PhaseReport:
    return next(phase for phase in outcome.report.phases if phase.name == name)


def as_golden(outcome: Outcome) -> str:
    """Return the whole output of a run without the real time it took."""
    prices = bundled_prices()
    table = "\n".join(line.plain.rstrip() for line in outcome_lines(outcome, prices))
    report = msgspec.json.decode(outcome_json(outcome, prices))
    del report["wall_seconds"]
    data = msgspec.json.format(msgspec.json.encode(report), indent=2).decode()
    return f"{table}\n\n{data}\n"


def demo(*args: str, stdin: str = "") -> Result:
    return CliRunner().invoke(cli, ["demo", *args], input=stdin)


def demo_of(tmp_path: Path, text: str, *args: str) -> Result:
    """Run the command on a scenario file with this text."""
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    return demo(str(file), *args)
