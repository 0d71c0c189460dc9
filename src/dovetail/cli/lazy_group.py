"""Lazily loaded commands.

``--version`` and completion do not load the solver, and rendering does not load the AWS SDK.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
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
        command = getattr(import_module(f"dovetail.cli.{module}"), cmd_name)
        return command if isinstance(command, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            close = get_close_matches(args[0], self._modules, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise click.UsageError(f"{error.message}{hint}", ctx) from None
