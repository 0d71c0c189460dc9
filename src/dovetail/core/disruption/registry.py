"""All disruption methods, in the order in which a scan tries them."""

from typing import Final

from dovetail.core.disruption.consolidation.method import CONSOLIDATION
from dovetail.core.disruption.drift import DRIFT, STATIC_DRIFT
from dovetail.core.disruption.emptiness import EMPTINESS
from dovetail.core.disruption.host_groups import HOST_GROUPS
from dovetail.core.disruption.method import Method
from dovetail.model.settings import FeatureGates

METHODS: Final[tuple[Method, ...]] = (EMPTINESS, STATIC_DRIFT, DRIFT, HOST_GROUPS, CONSOLIDATION)
"""The first method that starts a command ends the scan."""


def get_enabled_methods(gates: FeatureGates) -> tuple[Method, ...]:
    """Return the methods that the feature gates allow."""
    return METHODS if gates.HostGroupReplacement else tuple(m for m in METHODS if m is not HOST_GROUPS)


def get_methods(reason: str) -> tuple[Method, ...]:
    """Return the methods with a reason, as written in the condition DisruptionReason."""
    return tuple(method for method in METHODS if method.reason == reason)
