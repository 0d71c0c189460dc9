"""What virtual EC2 tells a kubelet about the machine that has just booted."""

import re
from typing import Final

import msgspec

from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.resources import NOTHING, Resources
from dovetail.model.kube.taints import Taint

_NAMED_BY_ADDRESS: Final = re.compile(r"ip-(\d+)-(\d+)-(\d+)-(\d+)\.")
_EBS_VOLUMES: Final = FrozenDict({"ebs.csi.aws.com": 25})


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A booted machine, as its user data and the machine itself describe it."""

    name: str
    """Of the node: ``ip-10-0-12-34.ec2.internal``."""
    provider_id: str
    """``aws:///<zone>/<instance id>``."""
    labels: FrozenDict[str, str] = EMPTY
    """All that the node will say of itself; its hostname need not be among them."""
    taints: tuple[Taint, ...] = ()
    """Which the kubelet registers, ``karpenter.sh/unregistered`` included."""
    capacity: Resources = NOTHING
    allocatable: Resources = NOTHING
    volume_limits: FrozenDict[str, int] = _EBS_VOLUMES
    """CSI driver → how many volumes it can attach here."""

    @property
    def address(self) -> str:
        """The address in the name; some address where the name has none."""
        named = _NAMED_BY_ADDRESS.match(self.name)
        return ".".join(named.groups()) if named else "10.0.0.1"
