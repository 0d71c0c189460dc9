"""Dividing a class over zones (and other domains) before nodes are chosen.

A *cell* is one value for each label key that matters to the class: usually a
zone. With one spread to keep, the division has a closed form: pour the pods
into the emptiest domains like water. Otherwise pods are dealt one at a time.
"""

from dovetail.core.scheduling.constraints.compiled_class import Held, Want
from dovetail.core.scheduling.constraints.topology import Counter, Kind, Rule

Cell = tuple[str, ...]
NO_LABEL = ""
"""In place of a domain: a node that does not have the label at all."""


class Division:
    """Deals the pods of one class over its cells."""

    def __init__(self, want: Want, cells: list[Cell]) -> None:
        self._want = want
        self._place = {key: index for index, key in enumerate(want.keys)}
        self.cells = cells
        """In order of preference: of two that are equally full, the first is used first."""
        self.closed: set[Cell] = set()
        """Cells that turned out to have no room."""
        self.careful = False
        """A cell may turn out full: deal only what keeps every skew if all others are."""

    def deal(self, count: int) -> list[tuple[Cell, int]]:
        """Return how many of ``count`` pods go to which cell; fewer if rules forbid more."""
        shares = self._deal(count)
        if not self.careful:
            return shares
        return [(cell, min(share, self._headroom(cell))) for cell, share in shares]

    def _headroom(self, cell: Cell) -> int:
        """Return how many pods a cell may take while no other takes any."""
        room = 1 << 40
        for rule, own in self._want.zonal_rules:
            if rule.kind is Kind.SPREAD and own:
                here = rule.counter.counts.get(cell[self._place[rule.counter.key]], 0)
                room = min(room, self.lowest(rule) + rule.skew - here)
        return max(1, room)

    def _deal(self, count: int) -> list[tuple[Cell, int]]:
        cells = [cell for cell in self.cells if cell not in self.closed and self._allowed(cell)]
        if not cells:
            return []
        bare = [cell for cell in cells if NO_LABEL in cell]
        if bare and len(self._want.keys) == 1:
            return [(bare[0], count)]
        cells = bare or cells
        if self._seeks_first_company():
            cells = cells[:1]
        own_spreads = [h for h in self._want.zonal_rules if h.rule.kind is Kind.SPREAD and h.own]
        once_each = any(h.rule.kind is Kind.ANTI and h.own for h in self._want.zonal_rules)
        counters = {id(held.rule.counter) for held in own_spreads}
        if len(self._want.keys) == 1 and len(counters) <= 1 and not once_each:
            counter = own_spreads[0].rule.counter if own_spreads else self._anybodys_counter()
            if counter is None:
                # Nobody counts these pods: any domain that is allowed takes them all.
                return [(min(cells, key=self._count_in), count)]
            return self._pour(cells, counter, [held.rule for held in own_spreads], count)
        return self._deal_singly(cells, own_spreads, count, once_each=once_each)

    def _count_in(self, cell: Cell) -> int:
        rules = [held.rule for held in self._want.zonal_rules]
        return sum(r.counter.counts.get(cell[self._place[r.counter.key]], 0) for r in rules)

    def _anybodys_counter(self) -> Counter | None:
        """Level by whoever counts these pods, so that their owners keep their skew."""
        counters = self._want.zonal_counters
        for counter in counters:
            if any(rule.kind is Kind.SPREAD for rule in counter.rules):
                return counter
        return counters[0] if counters else None

    def _allowed(self, cell: Cell) -> bool:
        return self.broken(cell) is None

    def broken(self, cell: Cell) -> Rule | None:
        """Return the first rule that one more pod in this cell would break."""
        for held in self._want.zonal_rules:
            if not self._holds(held, cell[self._place[held.rule.counter.key]]):
                return held.rule
        for rule in self._want.zonal_inverse:
            if rule.owners.get(cell[self._place[rule.counter.key]], 0) > 0:
                return rule
        return None

    def _holds(self, held: Held, domain: str) -> bool:
        rule = held.rule
        here = rule.counter.counts.get(domain, 0)
        if rule.kind is Kind.ANTI:
            return here == 0
        if rule.kind is Kind.AFFINITY:
            return here > 0 or self._may_be_first(held)
        if domain not in rule.counter.counts:
            return False
        return here + held.own - self.lowest(rule) <= rule.skew

    def _may_be_first(self, held: Held) -> bool:
        """As kube-scheduler does: only while nobody it looks for runs anywhere."""
        return held.own and not any(held.rule.counter.counts.values())

    def _seeks_first_company(self) -> bool:
        return any(
            held.rule.kind is Kind.AFFINITY and self._may_be_first(held)
            for held in self._want.zonal_rules
        )

    def lowest(self, rule: Rule) -> int:
        """Return the count that skew is measured from."""
        eligible = self.eligible(rule)
        if len(eligible) < rule.min_domains:
            return 0
        return min((rule.counter.counts[d] for d in eligible), default=0)

    def eligible(self, rule: Rule) -> list[str]:
        """Return the domains a spread looks at: those the pod itself could be in."""
        counts = rule.counter.counts
        if not rule.honors_affinity:
            return list(counts)
        reach = self._want.reach
        if not reach:
            return list(counts)
        allowed = [place.allowed(rule.counter.key) for place in reach]
        return [domain for domain in counts if any(one.has(domain) for one in allowed)]

    def _pour(
        self, cells: list[Cell], counter: Counter, rules: list[Rule], count: int
    ) -> list[tuple[Cell, int]]:
        """Level the counts of one key, as far as every skew allows."""
        domains = [cell[0] for cell in cells]
        level = _level({d: counter.counts.get(d, 0) for d in domains}, count)
        for rule in rules:
            # Domains that cannot take pods stay where they are and hold all others down.
            stuck = [counter.counts[d] for d in self.eligible(rule) if d not in level]
            if len(self.eligible(rule)) < rule.min_domains:
                stuck.append(0)
            if stuck:
                ceiling = min(stuck) + rule.skew
                level = {d: max(0, min(k, ceiling - counter.counts[d])) for d, k in level.items()}
        return [((domain,), share) for domain, share in level.items() if share > 0]

    def _deal_singly(
        self, cells: list[Cell], spreads: list[Held], count: int, *, once_each: bool
    ) -> list[tuple[Cell, int]]:
        counters = {id(c): c for c in self._want.zonal_counters if c.key in self._place}
        saved = {number: dict(counter.counts) for number, counter in counters.items()}
        dealt: dict[Cell, int] = {}
        try:
            for _ in range(min(count, len(cells)) if once_each else count):
                fine = [cell for cell in cells if self._allowed(cell)]
                if not fine:
                    break
                best = min(fine, key=lambda cell: self._load(cell, spreads))
                dealt[best] = dealt.get(best, 0) + 1
                for counter in counters.values():
                    domain = best[self._place[counter.key]]
                    if domain != NO_LABEL:
                        counter.counts[domain] = counter.counts.get(domain, 0) + 1
        finally:
            # Only a rehearsal: counts move when pods are really placed.
            for number, counter in counters.items():
                counter.counts = saved[number]
        return sorted(dealt.items())

    def _load(self, cell: Cell, spreads: list[Held]) -> tuple[int, ...]:
        counts = [
            held.rule.counter.counts.get(cell[self._place[held.rule.counter.key]], 0)
            for held in spreads
        ]
        # Others' spreads come second: these pods are counted there, but not bound.
        others = sum(
            counter.counts.get(cell[self._place[counter.key]], 0)
            for counter in self._want.zonal_counters
            if counter.key in self._place and any(r.kind is Kind.SPREAD for r in counter.rules)
        )
        return (sum(counts), *counts, others)


def _level(counts: dict[str, int], count: int) -> dict[str, int]:
    """Pour ``count`` units into the lowest of ``counts``; of equals, the first given first."""
    order = sorted(counts, key=counts.__getitem__)
    level = counts[order[0]]
    for reached in range(1, len(order) + 1):
        last = reached == len(order)
        room = 0 if last else (counts[order[reached]] - level) * reached
        if last or count <= room:
            each, extra = divmod(count, reached)
            return {
                domain: level + each + (place < extra) - counts[domain]
                for place, domain in enumerate(order[:reached])
            }
        count -= room
        level = counts[order[reached]]
    return {}
