"""Description of a booted instance, from which its kubelet registers the node."""

import re
from typing import Final

import msgspec

from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.resources import NO_RESOURCES, Resources
from dovetail.model.kube.taints import Taint

KUBERNETES_VERSION: Final = "v1.36.0"
"""Version of the simulated API server, and of kubelets unless the cluster has another."""
_IP_NAME: Final = re.compile(r"ip-(\d+)-(\d+)-(\d+)-(\d+)\.")
_EBS_VOLUME_LIMIT: Final = FrozenDict({"ebs.csi.aws.com": 25})


class BootedInstance(msgspec.Struct, frozen=True, kw_only=True):
    """A booted instance, as user data and hardware describe it."""

    name: str
    """Name of the node: ``ip-10-0-12-34.ec2.internal``."""
    provider_id: str
    """``aws:///<zone>/<instance ID>``."""
    labels: FrozenDict[str, str] = EMPTY
    """Labels that the kubelet registers; the hostname label may be missing."""
    taints: tuple[Taint, ...] = ()
    """Taints that the kubelet registers, with ``karpenter.sh/unregistered``."""
    capacity: Resources = NO_RESOURCES
    allocatable: Resources = NO_RESOURCES
    volume_limits: FrozenDict[str, int] = _EBS_VOLUME_LIMIT
    """CSI driver → how many volumes it can attach."""

    @property
    def address(self) -> str:
        """The IP address in the name; a fixed one if the name has none."""
        match = _IP_NAME.match(self.name)
        return ".".join(match.groups()) if match else "10.0.0.1"
