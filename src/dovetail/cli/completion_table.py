"""Commands and options for shell completion, without their modules.

Some commands import for a second of CPU time, or need a package that is not installed; TAB
must not. ``make completion`` writes the table.
"""

from collections.abc import Mapping
from importlib.resources import files
from typing import Final

import click
import msgspec
from click.shell_completion import CompletionItem

TABLE: Final = "completion.json"
"""File in ``dovetail.data``."""
_PATH_TYPES: Final = (click.Path, click.File)
_PATH_METAVARS: Final = ("FILE", "PATH", "DIR", "DUMP", "PLAN", "TRACE", "SCENARIO")


class ParameterEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """An option or argument."""

    names: tuple[str, ...]
    """As typed, such as ``-f``; an argument has one name without dashes."""
    help: str = ""
    flag: bool = False
    multiple: bool = False
    values: tuple[str, ...] = ()
    """Values to choose from."""
    path: bool = False
    """The value may be a file."""


class CommandEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A command, or a group of commands."""

    help: str = ""
    """The first paragraph."""
    parameters: tuple[ParameterEntry, ...] = ()
    commands: Mapping[str, "CommandEntry"] = {}


def read_table() -> CommandEntry:
    """Return the entry of ``dovetail`` itself."""
    return msgspec.json.decode(files("dovetail.data").joinpath(TABLE).read_bytes(), type=CommandEntry)


def describe_command(command: click.Command, context: click.Context) -> CommandEntry:
    """Return the entry of a command and of all commands below it; imports them all."""
    commands = {}
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            if child is not None and not child.hidden:
                commands[name] = describe_command(child, click.Context(child, context, name))
    parameters = (
        _describe_parameter(parameter, context)
        for parameter in command.params
        if not getattr(parameter, "hidden", False)
    )
    return CommandEntry(_first_paragraph(command.help), tuple(parameters), commands)


def _describe_parameter(parameter: click.Parameter, context: click.Context) -> ParameterEntry:
    items = parameter.shell_complete(context, "")
    values = tuple(item.value for item in items if item.type == "plain")
    metavar = (parameter.metavar or "").strip("[].")
    is_path = isinstance(parameter.type, _PATH_TYPES) or metavar in _PATH_METAVARS
    if not isinstance(parameter, click.Option):
        return ParameterEntry(
            (parameter.name or "",), values=values, path=is_path, multiple=parameter.nargs != 1
        )
    return ParameterEntry(
        (*parameter.opts, *parameter.secondary_opts),
        _first_paragraph(parameter.help),
        parameter.is_flag,
        parameter.multiple,
        values,
        is_path,
    )


def light_command(name: str, entry: CommandEntry) -> click.Command:
    """Return a command that can be completed, and does nothing."""
    parameters = [_light_parameter(parameter) for parameter in entry.parameters]
    if not entry.commands:
        return click.Command(name, help=entry.help, params=parameters)
    commands = {child: light_command(child, entry.commands[child]) for child in entry.commands}
    return click.Group(name, commands, help=entry.help, params=parameters)


def _light_parameter(entry: ParameterEntry) -> click.Parameter:
    def complete(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
        values = [CompletionItem(value) for value in entry.values if value.startswith(incomplete)]
        if values or not entry.path:
            return values
        return [CompletionItem(incomplete, type="file")]

    if not entry.names[0].startswith("-"):
        nargs = -1 if entry.multiple else 1
        return click.Argument([entry.names[0]], nargs=nargs, required=False, shell_complete=complete)
    return click.Option(
        [*entry.names, "parameter"],
        help=entry.help,
        is_flag=entry.flag,
        multiple=entry.multiple,
        shell_complete=complete,
    )


def _first_paragraph(text: str | None) -> str:
    return " ".join((text or "").partition("\n\n")[0].split())
