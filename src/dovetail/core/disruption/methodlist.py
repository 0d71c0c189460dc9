"""Every method of taking nodes away, in the order in which they are tried."""

from typing import Final

from dovetail.core.disruption.consolidating import CONSOLIDATION
from dovetail.core.disruption.drift import DRIFT
from dovetail.core.disruption.emptiness import EMPTINESS
from dovetail.core.disruption.methods import Method
from dovetail.core.disruption.staticdrift import STATIC_DRIFT

METHODS: Final[tuple[Method, ...]] = (EMPTINESS, STATIC_DRIFT, DRIFT, CONSOLIDATION)
"""The first that does something ends a pass."""
