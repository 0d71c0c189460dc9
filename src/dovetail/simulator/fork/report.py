"""Report of a fork: what was assumed, what was not used, and the latencies."""

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from dovetail.codec.text.suggestions import join_first, pluralize


class CalibratedLatency(msgspec.Struct, frozen=True, kw_only=True):
    """One latency of the simulation and where it comes from."""

    name: str
    """``launch``, ``registration``, ``initialization``, ``pod start`` …"""
    value: timedelta
    samples: int = 0
    """Number of observations, whose median it is; 0: the default."""
    scope: str = ""
    """Workload (``shop/web``) that it is for; empty: all."""


class ForkReport(msgspec.Struct, frozen=True, kw_only=True):
    """Contents of a fork, and its assumptions."""

    region: str
    version: str
    """Kubernetes version of new nodes: that of the control plane; empty: unknown."""
    version_is_assumed: bool
    """It is that of the newest node; that of the control plane is not known."""
    nodes: int
    managed_nodes: int
    """Nodes with a NodeClaim; the others are billed but never disrupted."""
    pods: int
    pending_pods: int
    assumptions: tuple[str, ...]
    """Assumptions where the objects lack something, as sentences."""
    partly: tuple[str, ...]
    """Objects that were used only in part or not at all, and why, as sentences."""
    latencies: tuple[CalibratedLatency, ...]


class ReportBuilder:
    """Collects the sentences of a report; equal findings are joined into one."""

    def __init__(self) -> None:
        self._assumptions: dict[str, list[str]] = {}
        self._partly: dict[str, list[str]] = {}

    def assume(self, sentence: str) -> None:
        """Add an assumption."""
        self._assumptions.setdefault(sentence, [])

    def assume_of(self, noun: str, name: str, sentence: str) -> None:
        """Add an assumption about one object; ``sentence`` begins with a verb or colon."""
        self._assumptions.setdefault(f"{noun}\0{sentence}", []).append(name)

    def note(self, sentence: str) -> None:
        """Add what was used only in part."""
        self._partly.setdefault(sentence, [])

    def note_of(self, noun: str, name: str, sentence: str) -> None:
        """Add that one object was used only in part."""
        self._partly.setdefault(f"{noun}\0{sentence}", []).append(name)

    @property
    def assumptions(self) -> tuple[str, ...]:
        return tuple(_join(key, names) for key, names in self._assumptions.items())

    @property
    def partly(self) -> tuple[str, ...]:
        return tuple(_join(key, names) for key, names in self._partly.items())


def _join(key: str, names: Sequence[str]) -> str:
    noun, _, sentence = key.partition("\0")
    if not names:
        return key
    # Several pods may have one controller.
    return f"{pluralize(len(names), noun)} {sentence}: {join_first(sorted(set(names)), 3)}"
