"""One form of one class, compiled: what placing it has to look at."""

from typing import NamedTuple

from dovetail.core.scheduling.arrays import Floats
from dovetail.core.scheduling.classes import PodClass
from dovetail.core.scheduling.topology import Counter, Kind, Rule
from dovetail.model.requirements import Requirements


class Held(NamedTuple):
    """A rule that a class states; ``own``: its pods count themselves."""

    rule: Rule
    own: bool


class Want:
    """What one form of a class asks for."""

    __slots__ = (
        "alternatives",
        "ask",
        "cap",
        "clashes",
        "free",
        "host_counters",
        "host_rules",
        "inverse",
        "keys",
        "owned_keys",
        "pod_class",
        "ports",
        "reach",
        "rules",
        "size",
        "size_number",
        "volumes",
        "zonal_counters",
        "zonal_inverse",
        "zonal_rules",
    )

    def __init__(
        self,
        pod_class: PodClass,
        *,
        size: Floats,
        size_number: int,
        ask: int,
        reach: tuple[Requirements, ...],
        alternatives: list[Requirements],
        rules: list[Rule],
        counters: list[Counter],
    ) -> None:
        self.pod_class = pod_class
        self.size = size
        self.size_number = size_number
        self.ask = ask
        self.reach = reach
        """Where the pods could ever be, as alternatives; empty: anywhere."""
        self.alternatives = alternatives
        """Where its volumes can be, tried in order; one that demands nothing if it has none."""
        counted = {id(counter) for counter in counters}
        held = [Held(rule, id(rule.counter) in counted) for rule in rules]
        self.rules = rules
        self.host_rules = [one for one in held if one.rule.counter.by_host]
        self.zonal_rules = [one for one in held if not one.rule.counter.by_host]
        self.host_counters = [one for one in counters if one.by_host]
        self.zonal_counters = [one for one in counters if not one.by_host]
        # Others' demands that these pods would break by their mere presence.
        self.inverse = [
            rule
            for counter in self.host_counters
            for rule in counter.rules
            if not rule.soft and rule.kind in (Kind.ANTI, Kind.SPREAD)
        ]
        self.zonal_inverse = [
            rule
            for counter in self.zonal_counters
            for rule in counter.rules
            if not rule.soft and rule.kind is Kind.ANTI
        ]
        self.owned_keys = {one.rule.counter.key for one in self.zonal_rules}
        self.keys = _keys(self)
        self.ports = 0
        """Host ports it takes, as bits."""
        self.clashes = 0
        """Host ports it cannot live beside, as bits."""
        self.volumes: dict[str, frozenset[str]] = {}
        """CSI driver → claims it attaches."""
        self.cap = _cap_on_a_fresh_host(self)
        self.free = False
        """Nobody else's rule depends on which host its pods share."""

    @property
    def needs_company(self) -> bool:
        """Tell whether it must share a host with certain pods."""
        return any(one.rule.kind is Kind.AFFINITY for one in self.host_rules)


def _keys(want: Want) -> list[str]:
    """Return the label keys on which its place must be decided, by name."""
    counted = {
        counter.key
        for counter in want.zonal_counters
        if any(not rule.soft or rule in want.rules for rule in counter.rules)
    }
    return sorted(want.owned_keys | counted)


def _cap_on_a_fresh_host(want: Want) -> int | None:
    caps = []
    for rule, own in want.host_rules:
        if rule.kind is Kind.SPREAD and own:
            caps.append(rule.skew)
        elif rule.kind is Kind.ANTI and own:
            caps.append(1)
    return min(caps, default=None)
