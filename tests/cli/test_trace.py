"""``dovetail trace``: summaries of traces, and what an import reports."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from dovetail.cli.main import cli
from dovetail.cli.trace.imports import write_trace as write_imported
from dovetail.trace.model import Set
from tests.replay.traces import HEADER, deployment, write_trace


@pytest.mark.parametrize(("seconds", "length"), [(90, "1m30s"), (86_400, "24h00m")])
def test_a_summary_has_the_length_of_short_and_long_traces(
    tmp_path: Path, seconds: float, length: str
) -> None:
    trace = write_trace(tmp_path / "t", Set(t=0, object=deployment("web", 1)), seconds=seconds)

    result = CliRunner().invoke(cli, ["trace", "show", str(trace)])

    assert ["length", length] in [line.split() for line in result.stdout.splitlines()]


def test_one_imported_event_is_in_the_singular(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_imported(tmp_path / "t", HEADER, [Set(t=0, object=deployment("web", 1))])

    assert capsys.readouterr().err.startswith("1 event in ")


@pytest.mark.parametrize("source", ["csv", "audit"])
def test_an_import_of_a_missing_file_says_so(tmp_path: Path, source: str) -> None:
    missing = tmp_path / "missing"

    result = CliRunner().invoke(cli, ["trace", "import", source, str(missing), "-o", str(tmp_path / "t")])

    assert result.exit_code == 1
    assert f"error: {missing} does not exist" in result.stderr
