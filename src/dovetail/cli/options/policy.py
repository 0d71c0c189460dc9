"""Option for the consolidation policy, in all commands that consolidate."""

from typing import Final

from dovetail.cli.output.console import write_note
from dovetail.policies.load import find_clashes

POLICY_METAVAR: Final = "NAME[:OPTION=VALUE]"
POLICY_HELP: Final = "Consolidation policy: dovetail, karpenter, payback, quiet-hours or a plug-in."


def note_clashes() -> None:
    """Print a note for each installed plug-in that its name cannot choose."""
    for sentence in find_clashes():
        write_note(f"note: {sentence}")
