"""``dovetail completion``: shell completion."""

import click
from click.shell_completion import get_completion_class

from dovetail.cli.output.console import write


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    \b
    bash:  source <(dovetail completion bash)      in ~/.bashrc
    zsh:   source <(dovetail completion zsh)       in ~/.zshrc
    fish:  dovetail completion fish | source       in ~/.config/fish/config.fish
    """  # noqa: D301 - click reads a real backspace as "leave these lines as they are"
    script = get_completion_class(shell)
    if script is None:  # pragma: no cover - click brings all three
        raise click.UsageError(f"no completion for {shell}")
    write(script(context.find_root().command, {}, "dovetail", "_DOVETAIL_COMPLETE").source())
