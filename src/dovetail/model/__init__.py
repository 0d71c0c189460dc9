"""Model: frozen values that decisions read and return. No I/O, no clock."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dovetail.model.cloud.instance_type import InstanceType, Offering
    from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
    from dovetail.model.karpenter.nodeclaim import NodeClaim
    from dovetail.model.karpenter.nodepool import NodePool
    from dovetail.model.kube.pod import Pod
    from dovetail.model.plan import Plan
    from dovetail.model.snapshot import ClusterSnapshot

__all__ = [
    "ClusterSnapshot",
    "EC2NodeClass",
    "InstanceType",
    "NodeClaim",
    "NodePool",
    "Offering",
    "Plan",
    "Pod",
]

_MODULES = {
    "ClusterSnapshot": "dovetail.model.snapshot",
    "EC2NodeClass": "dovetail.model.karpenter.ec2nodeclass",
    "InstanceType": "dovetail.model.cloud.instance_type",
    "NodeClaim": "dovetail.model.karpenter.nodeclaim",
    "NodePool": "dovetail.model.karpenter.nodepool",
    "Offering": "dovetail.model.cloud.instance_type",
    "Plan": "dovetail.model.plan",
    "Pod": "dovetail.model.kube.pod",
}


def __getattr__(name: str) -> Any:
    # Lazy: submodules import this package, and commands load only what they use.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)
