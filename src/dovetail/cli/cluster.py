"""``dovetail cluster``: a cluster from an AWS account, and back to nothing."""

from difflib import get_close_matches
from importlib import import_module
from typing import Final

import click

_COMMANDS: Final = {
    "plan": "cluster_plan",
    "apply": "cluster_apply",
    "status": "cluster_plan",
    "destroy": "cluster_destroy",
    "render": "cluster_render",
    "schema": "cluster_render",
}
"""Each is a function of that name in the module beside this one."""


class _Cluster(click.Group):
    """Loads a command when it is asked for: rendering needs no AWS, and no SDK of it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = _COMMANDS.get(cmd_name)
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
            close = get_close_matches(args[0], _COMMANDS, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise click.UsageError(f"{error.message}{hint}", ctx) from None


@click.group(cls=_Cluster)
def cluster() -> None:
    """Make a cluster on EKS from one file, change it, and take it away."""
