"""Kubelet settings that are written as expressions over the machine."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

_AMOUNT: Final = re.compile(r"\s*[-+]?[0-9.]+([eE][-+]?[0-9]+)?[A-Za-z]*\s*")
"""A number with or without a unit, right or wrong: no expression in any case."""


def expressions_in(kubelet: Mapping[str, Any]) -> Iterator[str]:
    """Name the settings that the newest Karpenter, if told to, takes for expressions."""
    pods = kubelet.get("maxPods")
    if isinstance(pods, str) and not _AMOUNT.fullmatch(pods):
        yield "maxPods"
    for name in ("kubeReserved", "systemReserved"):
        reserved = kubelet.get(name)
        for key, value in sorted(reserved.items()) if isinstance(reserved, Mapping) else ():
            if isinstance(value, str) and not _AMOUNT.fullmatch(value):
                yield f"{name}.{key}"
