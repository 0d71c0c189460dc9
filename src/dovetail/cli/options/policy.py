"""Option for the consolidation policy, in all commands that consolidate."""

from typing import Final

POLICY_METAVAR: Final = "NAME[:OPTION=VALUE]"
POLICY_HELP: Final = "Consolidation policy: dovetail, karpenter, payback, quiet-hours or a plug-in."
