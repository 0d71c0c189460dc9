"""Commands on the pages exist and have the options that the pages use."""

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from dovetail.cli.main import cli
from tests.docs.test_links import PAGES, ROOT, page_name

WORD = re.compile(r"^[a-z][a-z-]*$")
END = re.compile(r"[|;#>&`]|\s-- | \\$")


def commands(page: Path) -> Iterator[list[str]]:
    """Yield the words after each ``dovetail`` in code."""
    text = page.read_text(encoding="utf-8")
    blocks = re.findall(r"^```.*?\n(.*?)^```|^(    .*)$", text, re.DOTALL | re.MULTILINE)
    lines = [line for fenced, indented in blocks for line in (fenced or indented).splitlines()]
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    # To helm, dovetail is the name of a release.
    for code in (*lines, *spans):
        if re.match(r"\s*helm (un)?install|\s*helm upgrade", code):
            continue
        for typed in re.findall(r"(?:^|[\s/|(])dovetail (.*)$", code.replace("$ ", "")):
            words = END.split(typed)[0].split()
            if words and (WORD.match(words[0]) or words[0].startswith("-")):
                yield words


def option_names(command: click.Command) -> set[str]:
    names = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    return names | {"-h", "--help"}


def errors(words: list[str]) -> list[str]:
    command: click.Command = cli
    context = click.Context(cli)
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        subcommand = command.get_command(context, rest[0])
        if subcommand is None:
            return [f"no command {rest[0]}"]
        command = subcommand
        del rest[0]
    options = [word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)]
    return [f"{command.name} has no {option}" for option in options if option not in option_names(command)]


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_command_on_a_page_is_valid(page: Path) -> None:
    invalid = {" ".join(words): problems for words in commands(page) if (problems := errors(words))}

    assert invalid == {}


def test_commands_are_found_on_the_pages() -> None:
    names = {words[0] for page in PAGES for words in commands(page)}

    assert {"simulate", "demo", "sandbox", "explain", "run", "cluster", "doctor"} <= names


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_make_target_and_python_module_on_a_page_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    code = "\n".join(re.findall(r"`[^`\n]+`|^    .*$", text, re.MULTILINE))

    assert [
        name for name in re.findall(r"(?:`|^    )make ([a-z-]+)", code, re.MULTILINE) if name not in targets
    ] == []
    modules = re.findall(r"python -m ((?:bench|tests|scripts)[\w.]*)", text)
    assert [name for name in modules if not (ROOT / f"{name.replace('.', '/')}.py").exists()] == []
