"""Output on a terminal and in a pipe: the spinner, and lines that fit."""

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

import pytest
from rich.text import Text

from dovetail.cli.cluster.progress import LineProgress, show_progress
from dovetail.cli.output.console import format_size, progress, write_lines


class _Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: StringIO) -> str:
    monkeypatch.setenv("TERM", "xterm")
    with redirect_stderr(stream), progress("Reading the cluster"):
        pass
    return stream.getvalue()


def test_a_terminal_shows_a_spinner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)

    assert "Reading the cluster" in shown(monkeypatch, _Terminal())


def test_no_color_shows_no_spinner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    assert shown(monkeypatch, _Terminal()) == ""


def test_no_color_shows_lines_instead_of_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    with redirect_stderr(_Terminal()) as stream, show_progress(()) as listener:
        pass

    assert isinstance(listener, LineProgress)
    assert stream.getvalue() == ""


def test_a_pipe_shows_no_spinner(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, StringIO()) == ""


def printed(monkeypatch: pytest.MonkeyPatch, stream: StringIO, line: str, columns: int = 80) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    with redirect_stdout(stream):
        write_lines([Text(line)])
    return stream.getvalue().splitlines()


LONG = (
    "ip-10-0-0-10.ec2.internal   0.0365  no-place  "
    + "Pod default/held-6db8cb94f8-vdqjh has the annotation " * 3
)


def test_a_terminal_gets_lines_that_fit_and_no_broken_word(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(monkeypatch, _Terminal(), LONG)

    assert len(lines) > 1
    assert max(map(len, lines)) <= 80
    assert " ".join(lines).split() == LONG.split()
    assert all(line.startswith("    ") for line in lines[1:])


def test_a_word_wider_than_the_last_column_continues_at_the_left(monkeypatch: pytest.MonkeyPatch) -> None:
    line = f"{'ip-10-0-0-10.ec2.internal':30}  {'0.0365':8}  no-place  its pod selects {'x' * 40} here"

    lines = printed(monkeypatch, _Terminal(), line)

    assert max(map(len, lines)) <= 80
    assert lines[1].startswith("    x")


def test_a_word_wider_than_the_terminal_is_not_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    word = "x" * 120

    lines = printed(monkeypatch, _Terminal(), f"a {word} b")

    assert any(word in line for line in lines)


def test_a_pipe_gets_lines_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed(monkeypatch, StringIO(), LONG) == [LONG.rstrip()]


def test_a_small_file_has_its_size_in_kilobytes() -> None:
    assert [format_size(size) for size in (80, 4_217, 2_310_000)] == ["0.1 kB", "4.2 kB", "2.3 MB"]
