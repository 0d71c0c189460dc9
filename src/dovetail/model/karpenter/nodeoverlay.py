"""NodeOverlay: what a user knows better than the cloud about prices and capacity."""

import msgspec

from dovetail.model.kube.conditions import NO_CONDITIONS, Conditions
from dovetail.model.kube.requirements import RequirementSpec
from dovetail.model.kube.resources import NOTHING, Resources


class NodeOverlay(msgspec.Struct, frozen=True, kw_only=True):
    """Changes what is known of some instance types, in some pools."""

    name: str
    uid: str = ""
    weight: int = 0
    requirements: tuple[RequirementSpec, ...] = ()
    price: str = ""
    """USD per hour, instead of the cloud's."""
    price_adjustment: str = ""
    """``+0.05``, ``-10%``: on top of the cloud's."""
    capacity: Resources = NOTHING
    """Extended resources that a machine turns out to have."""
    generation: int = 0
    resource_version: str = ""
    conditions: Conditions = NO_CONDITIONS

    @property
    def prices(self) -> bool:
        """Whether it says anything about prices."""
        return bool(self.price or self.price_adjustment)
