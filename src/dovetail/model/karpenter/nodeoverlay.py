"""NodeOverlay: user-defined prices and extended resources of instance types."""

import msgspec

from dovetail.model.kube.conditions import NO_CONDITIONS, Conditions
from dovetail.model.kube.requirements import RequirementSpec
from dovetail.model.kube.resources import NO_RESOURCES, Resources


class NodeOverlay(msgspec.Struct, frozen=True, kw_only=True):
    """A karpenter.sh/v1alpha1 NodeOverlay."""

    name: str
    uid: str = ""
    weight: int = 0
    requirements: tuple[RequirementSpec, ...] = ()
    price: str = ""
    """USD per hour that replaces the price of the cloud provider; empty: unset."""
    price_adjustment: str = ""
    """Change to the price of the cloud provider: ``+0.05``, ``-10%``; empty: unset."""
    capacity: Resources = NO_RESOURCES
    """Extended resources added to the instance types."""
    generation: int = 0
    resource_version: str = ""
    conditions: Conditions = NO_CONDITIONS

    @property
    def changes_price(self) -> bool:
        """True if the overlay sets or adjusts prices."""
        return bool(self.price or self.price_adjustment)
