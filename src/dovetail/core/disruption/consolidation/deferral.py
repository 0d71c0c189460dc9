"""Whether it is better to wait a little than to buy a node that is not needed soon.

Nodes to which pods came just now take no others for a while. Until they do, a
node may look as if it had to be replaced which could simply be given back.
"""

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.context import View
from dovetail.core.disruption.simulation import WhatIf
from dovetail.model.settings import SchedulingSettings

SOON: Final = "other nodes may take its pods soon: pods came to them or left them just now"
_HARDLY: Final = 1e-9


class Patience:
    """Asks what would be bought if every node took pods; only when it may matter."""

    def __init__(self, view: View, scheduling: SchedulingSettings | None) -> None:
        self._view = view
        self._scheduling = scheduling
        self._open: WhatIf | None = None

    def waits_for(self, removed: Sequence[Candidate], bought: float) -> bool:
        """Tell whether less would have to be bought for these nodes' pods in a while.

        ``bought`` is what would be bought now, in USD per hour.
        """
        view = self._view
        if bought <= _HARDLY or view.closed <= view.closed_for_long:
            return False
        if self._open is None:
            later = replace(view, closed=view.closed_for_long)
            self._open = WhatIf(later, self._scheduling)
        soon = self._open.without([one.node.name for one in removed])
        return soon.possible and soon.price < bought * (1 - _HARDLY)
