"""Commands that documents tell people to type: each is there, and has the options it is given."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from dovetail.cli.main import cli
from tests.docs.test_links import PAGES, named

WORD = re.compile(r"^[a-z][a-z-]*$")
END = re.compile(r"[|;#>&`]|\s-- | \\$")


def commands(page: Path) -> Iterator[list[str]]:
    """Yield the words after each ``dovetail`` that stands in code."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```.*?\n(.*?)^```|^(    .*)$", text, re.DOTALL | re.MULTILINE)
    lines = [line for fenced, indented in blocks for line in (fenced or indented).splitlines()]
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    # To helm, dovetail is the name of a release.
    for code in (
        one
        for one in [*lines, *spans]
        if not re.match(r"\s*helm (un)?install|\s*helm upgrade", one)
    ):
        for typed in re.findall(r"(?:^|[\s/|(])dovetail (.*)$", code.replace("$ ", "")):
            words = END.split(typed)[0].split()
            if words and (WORD.match(words[0]) or words[0].startswith("-")):
                yield words


def known(command: click.Command) -> set[str]:
    named_so = {name for one in command.params for name in (*one.opts, *one.secondary_opts)}
    return named_so | {"-h", "--help"}


def mistakes(words: list[str]) -> list[str]:
    command: click.Command = cli
    context = click.Context(cli)
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        found = command.get_command(context, rest[0])
        if found is None:
            return [f"no command {rest[0]}"]
        command = found
        del rest[0]
    options = [word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)]
    return [f"{command.name} has no {one}" for one in options if one not in known(command)]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_command_on_a_page_can_be_typed(page: Path) -> None:
    wrong = {" ".join(words): found for words in commands(page) if (found := mistakes(words))}

    assert wrong == {}


def test_commands_are_found_on_the_pages() -> None:
    found = {words[0] for page in PAGES for words in commands(page)}

    assert {"simulate", "demo", "sandbox", "explain", "run", "cluster", "doctor"} <= found
