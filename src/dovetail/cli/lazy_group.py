"""Groups of commands: help with whole sentences, and lazily loaded commands.

``--version``, ``--help`` and completion of command names import no command.
"""

import ast
from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from dovetail.cli.completion_table import light_command, read_table

_PACKAGE: Final = Path(__file__).parent


class CommandGroup(click.Group):
    """Group whose help shows the first sentence of each command in full."""

    def summarize(self, ctx: click.Context, name: str) -> str:
        """Return the first sentence of a command's help."""
        command = self.get_command(ctx, name)
        return "" if command is None else _first_sentence(command.help or "")

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows = [(name, self.summarize(ctx, name)) for name in self.list_commands(ctx)]
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)


class LazyGroup(CommandGroup):
    """Group that imports a command when it is used; suggests corrections for typos."""

    def __init__(self, *args: Any, modules: Mapping[str, str], **more: Any) -> None:
        """``modules`` maps a command to its module in ``dovetail.cli``."""
        super().__init__(*args, **more)
        self._modules = modules

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = self._modules.get(cmd_name)
        if module is None:
            return None
        if ctx.resilient_parsing:
            return self._light_command(ctx, cmd_name)
        command = getattr(import_module(f"dovetail.cli.{module}"), cmd_name)
        return command if isinstance(command, click.Command) else None

    def _light_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Return the command as shell completion knows it: its module may take a second to import."""
        entry = read_table()
        for parent in (*ctx.command_path.split()[1:], name):
            if parent not in entry.commands:
                return None
            entry = entry.commands[parent]
        return light_command(name, entry)

    def summarize(self, ctx: click.Context, name: str) -> str:
        """Read the docstring from the source: an import of all commands takes over a second."""
        source = _PACKAGE.joinpath(*self._modules[name].split(".")).with_suffix(".py")
        if not source.exists():
            return super().summarize(ctx, name)
        for statement in ast.parse(source.read_bytes()).body:
            if isinstance(statement, ast.FunctionDef) and statement.name == name:
                return _first_sentence(ast.get_docstring(statement) or "")
        return super().summarize(ctx, name)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        matching = [name for name in self._modules if name.startswith(incomplete)]
        items = [CompletionItem(name, help=self.summarize(ctx, name)) for name in matching]
        # The method of click.Group imports every command.
        return items + click.Command.shell_complete(self, ctx, incomplete)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = get_close_matches(args[0], self._modules, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise click.UsageError(f"{error.message}{hint}", ctx) from None


def _first_sentence(text: str) -> str:
    paragraph = " ".join(text.partition("\n\n")[0].split())
    sentence, end, _ = paragraph.partition(". ")
    return sentence + end.strip()
