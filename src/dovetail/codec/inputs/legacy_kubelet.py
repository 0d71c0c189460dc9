"""Kubelet settings that old pools carry, moved to their node classes."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from dovetail.codec.fields import Field, Findings
from dovetail.codec.inputs.decoders import Decoded
from dovetail.codec.karpenter.nodeclasses import decode_kubelet
from dovetail.model.karpenter.ec2nodeclass import Kubelet, NodeClass
from dovetail.model.karpenter.nodepool import NodePool


def homes_of_kubelets(
    pools: Iterable[tuple[str, str, Any]], settings_of_class: Mapping[str, Any]
) -> dict[str, str]:
    """Return, by pool with settings, the name of the class that is to carry them.

    ``pools`` are (name, class, settings or None). The first pool of a class
    without settings shapes the class itself, unless pools that want none share
    it; one that disagrees gets a copy of the class, named after class and pool.
    """
    every = list(pools)
    plain = {used for _, used, settings in every if settings is None}
    carried = dict(settings_of_class)
    homes: dict[str, str] = {}
    for name, used, settings in every:
        if settings is None:
            continue
        mine = carried.get(used)
        if mine != settings and (mine is not None or used in plain):
            used = f"{used}-{name}"
        carried[used] = settings
        homes[name] = used
    return homes


def settle_kubelets(
    pools: Iterable[Decoded], classes: Sequence[NodeClass]
) -> tuple[tuple[NodePool, ...], tuple[NodeClass, ...], list[str]]:
    """Give each old pool a class with its kubelet settings."""
    every = list(pools)
    by_name = {one.name: one for one in classes}
    settings = {one.name: _kubelet(one.kubelet.settings) if one.kubelet else None for one in every}
    homes = homes_of_kubelets(
        [(one.name, one.model.template.node_class.name, settings[one.name]) for one in every],
        {one.name: one.kubelet for one in classes if one.kubelet != Kubelet()},
    )
    settled: list[NodePool] = []
    remarks: list[str] = []
    for one in every:
        pool: NodePool = one.model
        kubelet = settings[one.name]
        if kubelet is not None:
            pool, chosen = _settled(pool, kubelet, homes[pool.name], by_name)
            by_name[chosen.name] = chosen
            remarks.append(f"kubelet settings of {pool.name} moved to EC2NodeClass {chosen.name}")
        settled.append(pool)
    return tuple(settled), tuple(by_name.values()), remarks


def _settled(
    pool: NodePool, kubelet: Kubelet, home: str, by_name: dict[str, NodeClass]
) -> tuple[NodePool, NodeClass]:
    reference = pool.template.node_class
    known = by_name.get(reference.name, NodeClass(name=reference.name))
    chosen = msgspec.structs.replace(known, name=home, kubelet=kubelet)
    template = msgspec.structs.replace(
        pool.template, node_class=msgspec.structs.replace(reference, name=home)
    )
    return msgspec.structs.replace(pool, template=template), chosen


def _kubelet(raw: dict[str, Any]) -> Kubelet:
    return decode_kubelet(Field(raw, Findings(written_by_hand=False)))
