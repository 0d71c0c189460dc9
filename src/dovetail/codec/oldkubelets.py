"""Kubelet settings that old pools carry, moved to their node classes."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from dovetail.codec.fields import Field, Findings
from dovetail.codec.kinds import Decoded
from dovetail.codec.nodeclasses import decode_kubelet
from dovetail.model.nodeclass import Kubelet, NodeClass
from dovetail.model.nodepool import NodePool


def settle_kubelets(
    pools: Iterable[Decoded], classes: Sequence[NodeClass]
) -> tuple[tuple[NodePool, ...], tuple[NodeClass, ...], list[str]]:
    """Give each old pool a class with its kubelet settings.

    The first pool of a class without settings shapes the class itself; one
    that disagrees gets a copy of the class, named after class and pool.
    """
    by_name = {one.name: one for one in classes}
    settled: list[NodePool] = []
    remarks: list[str] = []
    for one in pools:
        pool: NodePool = one.model
        if one.kubelet is not None:
            pool, chosen = _settled(pool, _kubelet(one.kubelet), by_name)
            by_name[chosen.name] = chosen
            remarks.append(f"kubelet settings of {pool.name} moved to EC2NodeClass {chosen.name}")
        settled.append(pool)
    return tuple(settled), tuple(by_name.values()), remarks


def _settled(
    pool: NodePool, kubelet: Kubelet, by_name: dict[str, NodeClass]
) -> tuple[NodePool, NodeClass]:
    reference = pool.template.node_class
    known = by_name.get(reference.name, NodeClass(name=reference.name))
    if known.kubelet in (Kubelet(), kubelet):
        return pool, msgspec.structs.replace(known, kubelet=kubelet)
    name = f"{reference.name}-{pool.name}"
    template = msgspec.structs.replace(
        pool.template, node_class=msgspec.structs.replace(reference, name=name)
    )
    copy = msgspec.structs.replace(known, name=name, kubelet=kubelet)
    return msgspec.structs.replace(pool, template=template), copy


def _kubelet(raw: dict[str, Any]) -> Kubelet:
    return decode_kubelet(Field(raw, Findings(written_by_hand=False)))
