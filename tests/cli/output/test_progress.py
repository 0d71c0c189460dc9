"""The spinner: on a terminal only, and not with NO_COLOR."""

import sys
from io import StringIO

import pytest

from dovetail.cli.output.console import progress


class _Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def shown(monkeypatch: pytest.MonkeyPatch, stream: StringIO) -> str:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream)
    with progress("Reading the cluster"):
        pass
    return stream.getvalue()


def test_a_terminal_shows_a_spinner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)

    assert "Reading the cluster" in shown(monkeypatch, _Terminal())


def test_no_color_shows_no_spinner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    assert shown(monkeypatch, _Terminal()) == ""


def test_a_pipe_shows_no_spinner(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, StringIO()) == ""
