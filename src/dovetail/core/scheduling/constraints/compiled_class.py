"""One form of one class, compiled: what placing it has to look at."""

from typing import NamedTuple

from dovetail.core.scheduling.arrays.types import Floats
from dovetail.core.scheduling.constraints.topology import Counter, Kind, Rule
from dovetail.core.scheduling.pods.equivalence import PodClass
from dovetail.model.kube.requirements import Requirements


class Held(NamedTuple):
    """A rule that a class states; ``own``: its pods count themselves."""

    rule: Rule
    own: bool


class Ties:
    """How a class is tied to other pods; classes that differ in size only share it."""

    __slots__ = (
        "cap",
        "host_counters",
        "host_rules",
        "inverse",
        "keys",
        "needs_company",
        "owned_keys",
        "rules",
        "zonal_counters",
        "zonal_inverse",
        "zonal_rules",
    )

    def __init__(self, rules: list[Rule], counters: list[Counter]) -> None:
        counted = {id(counter) for counter in counters}
        held = [Held(rule, id(rule.counter) in counted) for rule in rules]
        self.rules = rules
        self.host_rules = [one for one in held if one.rule.counter.by_host]
        self.zonal_rules = [one for one in held if not one.rule.counter.by_host]
        self.host_counters = [one for one in counters if one.by_host]
        self.zonal_counters = [one for one in counters if not one.by_host]
        self.inverse = [
            rule
            for counter in self.host_counters
            for rule in counter.rules
            if not rule.soft and rule.kind in (Kind.ANTI, Kind.SPREAD)
        ]
        """Others' demands that these pods would break by their mere presence."""
        self.zonal_inverse = [
            rule
            for counter in self.zonal_counters
            for rule in counter.rules
            if not rule.soft and rule.kind is Kind.ANTI
        ]
        self.owned_keys = {one.rule.counter.key for one in self.zonal_rules}
        counted_on = {
            counter.key
            for counter in self.zonal_counters
            if any(not rule.soft or rule in rules for rule in counter.rules)
        }
        self.keys = tuple(sorted(self.owned_keys | counted_on))
        """The label keys on which the place must be decided."""
        self.cap = _cap_on_a_fresh_host(self.host_rules)
        """How many of its pods a new node takes, by its own rules; None: any number."""
        self.needs_company = any(one.rule.kind is Kind.AFFINITY for one in self.host_rules)
        """Its pods must share a host with certain others."""


class Want:
    """What one form of a class asks for."""

    __slots__ = (
        "alternatives",
        "ask",
        "clashes",
        "free",
        "pod_class",
        "ports",
        "reach",
        "size",
        "size_number",
        "ties",
        "volumes",
        *Ties.__slots__,
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
        ties: Ties,
    ) -> None:
        self.pod_class = pod_class
        self.size = size
        self.size_number = size_number
        self.ask = ask
        self.reach = reach
        """Where the pods could ever be, as alternatives; empty: anywhere."""
        self.alternatives = alternatives
        """Where its volumes can be, tried in order; one that demands nothing if it has none."""
        self.ties = ties
        # Said again here because placing asks for them at every step.
        self.rules = ties.rules
        self.host_rules = ties.host_rules
        self.zonal_rules = ties.zonal_rules
        self.host_counters = ties.host_counters
        self.zonal_counters = ties.zonal_counters
        self.inverse = ties.inverse
        self.zonal_inverse = ties.zonal_inverse
        self.owned_keys = ties.owned_keys
        self.keys = ties.keys
        self.cap = ties.cap
        self.needs_company = ties.needs_company
        self.ports = 0
        """Host ports it takes, as bits."""
        self.clashes = 0
        """Host ports it cannot live beside, as bits."""
        self.volumes: dict[str, frozenset[str]] = {}
        """CSI driver → claims it attaches."""
        self.free = False
        """Nobody else's rule depends on which host its pods share."""


def _cap_on_a_fresh_host(rules: list[Held]) -> int | None:
    caps = []
    for rule, own in rules:
        if rule.kind is Kind.SPREAD and own:
            caps.append(rule.skew)
        elif rule.kind is Kind.ANTI and own:
            caps.append(1)
    return min(caps, default=None)
