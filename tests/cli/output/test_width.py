"""A terminal of 80 columns: help, tables and errors fit, and no word is broken."""

from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from dovetail.cli.main import cli
from dovetail.trace.model import Interruption, Scale, Set
from tests.replay.traces import deployment, write_trace

ROOT = Path(__file__).resolve().parents[3]
DUMP = "--cluster examples/preview/cluster.json"
COMMANDS = (
    "simulate -f examples/manifests",
    "simulate -f examples/accelerators",
    "simulate -f examples/manifests/nodepools.yaml -f examples/manifests/nodeclass.yaml"
    " -f examples/unschedulable",
    "simulate -f examples/invalid",
    f"explain node {DUMP}",
    f"explain blockers {DUMP}",
    f"explain savings {DUMP}",
    f"explain pod web {DUMP}",
    f"migrate check {DUMP}",
    f"top --once {DUMP}",
    "catalog show",
    "catalog show m5.large",
    "cluster plan --offline -f examples/windows-gpu.yaml",
    "demo --list",
    "doctor -f examples/managed-node-group.yaml --no-aws --no-kubernetes",
    f"savings {DUMP}",
    f"preview {DUMP} -f examples/preview/on-demand.yaml",
)
TRACE_COMMANDS = (
    "trace show {trace}",
    "replay {trace}",
    "replay {trace} --set consolidation-min-saving=1",
    pytest.param(
        "sweep {trace} --vary consolidateAfter=30s,10m --vary consolidation-min-saving-per-pod=0,1"
        " --workers 1 --results {trace}.results",
        marks=pytest.mark.slow,
    ),
)
LONG_NAME = "recommendations-of-the-personalisation-service-for-returning-customers"


class _Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if isinstance(command, click.Group):
                yield from commands(command, (*path, name))
            else:
                yield (*path, name)


def run_on_terminal(monkeypatch: pytest.MonkeyPatch, command: str) -> list[str]:
    terminal = _Terminal()
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    with redirect_stdout(terminal), redirect_stderr(terminal), pytest.raises(SystemExit):
        cli(command.split(), prog_name="dovetail")
    return click.unstyle(terminal.getvalue()).splitlines()


def too_long(lines: list[str]) -> list[str]:
    """Return the lines of more than 80 columns that are not one long word."""
    return [line for line in lines if len(line) > 80 and len(line.split()) > 1]


def test_help_of_every_command_fits_80_columns() -> None:
    paths = list(commands(cli))

    helps = {path: CliRunner().invoke(cli, [*path, "--help"], terminal_width=80).output for path in paths}

    assert len(helps) > 30
    assert {path: too_long(text.splitlines()) for path, text in helps.items()} == {path: [] for path in paths}


@pytest.mark.parametrize("command", COMMANDS)
def test_output_of_a_command_fits_80_columns(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    lines = run_on_terminal(monkeypatch, command)

    assert lines
    assert too_long(lines) == []


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quarter of an hour of a cluster whose workload has a long name."""
    return write_trace(
        tmp_path_factory.mktemp("width") / "day.trace",
        Set(t=0, object=deployment(LONG_NAME, 4)),
        Scale(t=300, kind="Deployment", namespace="shop", name=LONG_NAME, replicas=9),
        Interruption(t=600, count=1),
        seconds=900,
    )


@pytest.mark.parametrize("command", TRACE_COMMANDS)
def test_output_on_a_trace_fits_80_columns(
    monkeypatch: pytest.MonkeyPatch, command: str, trace: Path
) -> None:
    lines = run_on_terminal(monkeypatch, command.format(trace=trace))

    assert len(lines) > 5, lines
    assert too_long(lines) == []


def test_a_narrow_terminal_gets_the_zones_of_planned_nodes_in_the_second_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    header, first, second, *_ = run_on_terminal(monkeypatch, "simulate -f examples/manifests")

    assert header.split() == "INSTANCE TYPE CAPACITY NODEPOOL CPU MEMORY GiB $/HOUR".split()
    assert first.endswith("1.0520")
    assert second.strip().startswith("us-east-1a · each: train-recommendations")


def test_a_reason_continues_below_its_column(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = run_on_terminal(monkeypatch, f"explain node {DUMP}")

    header, first, second, *_ = lines
    column = header.index("WHY IT STAYS")
    assert first[column:].startswith("the cheapest new node")
    assert second.index(second.strip()) == column
