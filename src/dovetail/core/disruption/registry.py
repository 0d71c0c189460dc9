"""Every method of taking nodes away, in the order in which they are tried."""

from typing import Final

from dovetail.core.disruption.consolidation.method import CONSOLIDATION
from dovetail.core.disruption.drift import DRIFT
from dovetail.core.disruption.emptiness import EMPTINESS
from dovetail.core.disruption.method import Method
from dovetail.core.disruption.static_drift import STATIC_DRIFT

METHODS: Final[tuple[Method, ...]] = (EMPTINESS, STATIC_DRIFT, DRIFT, CONSOLIDATION)
"""The first that does something ends a pass."""
