"""Kubelet settings of legacy NodePools, moved to their node classes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.inputs.decoders import DecodedObject
from dovetail.codec.karpenter.nodeclass_kubelet import decode_kubelet
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass, KubeletConfiguration
from dovetail.model.karpenter.nodepool import NodePool


def assign_kubelets(
    pools: Iterable[tuple[str, str, Any]], class_settings: Mapping[str, Any]
) -> dict[str, str]:
    """Return the node class that gets the settings of each NodePool with settings.

    ``pools`` are (name, node class, settings or None). The first NodePool sets the
    settings of its node class, unless NodePools without settings share it. A
    NodePool with other settings gets a copy, named after node class and NodePool.
    """
    pools = list(pools)
    shared_without = {node_class for _, node_class, settings in pools if settings is None}
    assigned = dict(class_settings)
    targets: dict[str, str] = {}
    for name, node_class, settings in pools:
        if settings is None:
            continue
        current = assigned.get(node_class)
        if current != settings and (current is not None or node_class in shared_without):
            node_class = f"{node_class}-{name}"
        assigned[node_class] = settings
        targets[name] = node_class
    return targets


def move_kubelets(
    pools: Sequence[DecodedObject], classes: Sequence[EC2NodeClass]
) -> tuple[tuple[NodePool, ...], tuple[EC2NodeClass, ...], list[str]]:
    """Return NodePools and node classes with all kubelet settings moved, and warnings."""
    by_name = {node_class.name: node_class for node_class in classes}
    settings = {pool.name: _decode_settings(pool) for pool in pools}
    targets = assign_kubelets(
        [(pool.name, pool.model.template.node_class.name, settings[pool.name]) for pool in pools],
        {
            node_class.name: node_class.kubelet
            for node_class in classes
            if node_class.kubelet != KubeletConfiguration()
        },
    )
    moved: list[NodePool] = []
    warnings: list[str] = []
    for decoded in pools:
        pool: NodePool = decoded.model
        kubelet = settings[decoded.name]
        if kubelet is not None:
            reference = pool.template.node_class
            source = by_name.get(reference.name, EC2NodeClass(name=reference.name))
            target = targets[pool.name]
            by_name[target] = msgspec.structs.replace(source, name=target, kubelet=kubelet)
            reference = msgspec.structs.replace(reference, name=target)
            template = msgspec.structs.replace(pool.template, node_class=reference)
            pool = msgspec.structs.replace(pool, template=template)
            warnings.append(f"kubelet settings of {pool.name} moved to EC2NodeClass {target}")
        moved.append(pool)
    return tuple(moved), tuple(by_name.values()), warnings


def _decode_settings(pool: DecodedObject) -> KubeletConfiguration | None:
    if pool.kubelet is None:
        return None
    return decode_kubelet(Field(pool.kubelet.settings, DecodeContext(strict=False)))
