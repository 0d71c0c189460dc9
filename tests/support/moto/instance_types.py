"""Fewer instance types in moto."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, InstanceTypeBackend

FAMILIES = frozenset({"c5", "m5", "m6g", "r5", "t3", "t4g"})


@contextmanager
def few_instance_types() -> Iterator[None]:
    """Reduce EC2 to some families: rendering and parsing all types takes seconds."""
    with pytest.MonkeyPatch.context() as patch:
        described = [entry for entry in InstanceTypeBackend.instance_types if _is_kept(entry.name)]
        patch.setattr(InstanceTypeBackend, "instance_types", described)
        for regions in INSTANCE_TYPE_OFFERINGS.values():
            for region, offered in list(regions.items()):
                kept = [entry for entry in offered if _is_kept(entry["InstanceType"])]
                patch.setitem(regions, region, kept)
        yield


def _is_kept(name: str) -> bool:
    return name.partition(".")[0] in FAMILIES
