"""What each node would save, reckoned on top of the moves chosen so far."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.command import Move
from dovetail.core.disruption.consolidation.balanced import PoolTotals, approves
from dovetail.core.disruption.consolidation.batch_estimate import Sweep
from dovetail.core.disruption.consolidation.estimate import NEVER, Guess, QuickLook
from dovetail.core.disruption.consolidation.replacement_price import Market, Ruling, rule_on
from dovetail.core.disruption.simulation import Outcome, WhatIf
from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import Pod
from dovetail.model.plan import ExistingPlacement
from dovetail.model.settings import ConsolidationSettings

_CLOSE: Final = 1e-9


class Verdict(NamedTuple):
    """What taking nodes away would save, or why it would not do."""

    saving: float = 0.0
    """USD per hour; at most, where a node would have to be bought."""
    code: str = ""
    because: str = ""
    guess: Guess | None = None
    """Where everybody goes, when nothing is bought and no pod has ties."""
    hoped: bool = False
    """It would save so much if no pod had ties; what it does save the solver must say."""


class Ground:
    """The cluster as it will be once the moves chosen so far are made."""

    def __init__(
        self, whatif: WhatIf, settings: ConsolidationSettings, totals: Mapping[str, PoolTotals]
    ) -> None:
        self._whatif = whatif
        self._settings = settings
        self._totals = totals
        self._market = Market()
        self.quick = QuickLook(whatif)
        self.least_per_cost = settings.min_saving_per_cost
        self.version = 0
        """Goes up with every move that is chosen."""
        self.receives: dict[str, str] = {}
        """Node → a node whose pods it takes; it stays this time."""

    def weigh_all(self, candidates: Iterable[Candidate]) -> dict[str, Verdict]:
        """Say of every node what its removal alone would save at most, as ``weigh`` does."""
        there = {self._whatif.hosts[one.node.name]: one for one in candidates}
        known = [host for host in there if self.quick.bounds([host])]
        guesses = Sweep(self.quick).guesses(known)
        return {
            one.node.name: self._weigh_with(one, host, guesses[host])
            if host in guesses
            else self.weigh(one)
            for host, one in there.items()
        }

    def weigh(self, one: Candidate) -> Verdict:
        """Say what a node's removal would save at most.

        In a cluster that is well filled nearly every node has to stay even if its
        pods had no ties: for those the solver need not be asked.
        """
        host = self._whatif.hosts[one.node.name]
        if not self.quick.bounds([host]):
            return self.weigh_exactly(one)
        return self._weigh_with(one, host, self.quick.ask([host]))

    def _weigh_with(self, one: Candidate, host: int, guess: Guess) -> Verdict:
        plain = self.quick.knows([host])
        if guess.starting >= 0:
            return self._starting(self._whatif.problem.hosts.nodes[guess.starting].name)
        if guess.price == 0.0:
            fine = Verdict(one.price, guess=guess) if plain else Verdict(one.price, hoped=True)
            return self._worth([one], one.price, fine)
        if guess.lost >= 0:
            return Verdict(code="no-place", because=self._blocked([host]))
        if guess.price == NEVER and not plain:
            return self.weigh_exactly(one)
        problem = self._unsold(one, guess)
        if problem is not None:
            return problem
        saving = one.price - guess.price
        return self._worth([one], saving, Verdict(saving, hoped=not plain))

    def _unsold(self, one: Candidate, guess: Guess) -> Verdict | None:
        """Return why no replacement is bought, as far as its price alone tells."""
        if one.price <= 0:
            return Verdict(code="no-price", because="what it costs now is not known")
        if guess.price == NEVER:
            why = "its pods would need more than one new node"
            return Verdict(code="not-cheaper", because=why)
        if guess.price >= one.price:
            why = (
                f"the cheapest new node for its pods, {guess.kind}, costs "
                f"{guess.price:.4f} USD per hour; it costs {one.price:.4f}"
            )
            return Verdict(code="not-cheaper", because=why)
        if guess.spot and self.keeps_spot([one]):
            why = "spot nodes are not replaced by spot (gate SpotToSpotConsolidation)"
            return Verdict(code="spot-to-spot", because=why)
        return None

    def weigh_exactly(self, one: Candidate) -> Verdict:
        """Have the solver say it: some ten times slower."""
        outcome = self._whatif.ask([self._whatif.hosts[one.node.name]], fewest=True)
        move, verdict = self._judge([one], outcome)
        return verdict if move is None else Verdict(move.saving)

    def _blocked(self, gone: list[int]) -> str:
        return self._whatif.ask(gone, fewest=True).blocked

    @staticmethod
    def _starting(name: str) -> Verdict:
        why = f"its pods would go to Node {name}, which is still starting"
        return Verdict(code="not-ready", because=why)

    # -- choosing --------------------------------------------------------------------------

    def take(self, removed: Sequence[Candidate], verdict: Verdict) -> Move | Verdict:
        """Make a move part of the ground; or say why it does not do after all."""
        if verdict.guess is not None:
            (one,) = removed
            return self._take_plain(one, verdict.guess)
        return self.take_set(removed, fewest=True)

    def take_set(self, removed: Sequence[Candidate], *, fewest: bool) -> Move | Verdict:
        """Do so for nodes that go together, by the solver."""
        found: list[Move | Verdict] = []

        def keep_if(outcome: Outcome) -> bool:
            move, verdict = self._judge(removed, outcome)
            found.append(verdict if move is None else move)
            return move is not None

        gone = [self._whatif.hosts[one.node.name] for one in removed]
        self._whatif.ask(gone, fewest=fewest, keep_if=keep_if)
        if isinstance(found[0], Move):
            self._changed(found[0])
        return found[0]

    def keeps_spot(self, removed: Sequence[Candidate]) -> bool:
        """Tell whether nodes are all spot, and not to be replaced by others of the kind."""
        return not self._settings.spot_to_spot and all(
            one.node.labels.get(label_keys.CAPACITY_TYPE) == label_keys.SPOT for one in removed
        )

    def price_set(self, removed: Sequence[Candidate], *, fewest: bool) -> Verdict:
        """Say what nodes would save that go together."""
        gone = [self._whatif.hosts[one.node.name] for one in removed]
        move, verdict = self._judge(removed, self._whatif.ask(gone, fewest=fewest))
        return verdict if move is None else Verdict(move.saving)

    def _take_plain(self, one: Candidate, guess: Guess) -> Move:
        whatif, host = self._whatif, self._whatif.hosts[one.node.name]
        alike: dict[int, list[Pod]] = {}
        for number, pods in sorted(whatif.loads.get(host, {}).items()):
            alike.setdefault(self.quick.kind[number], []).extend(pods)
        waiting = {kind: iter(pods) for kind, pods in alike.items()}
        arriving: dict[str, list[Pod]] = {}
        hosts = whatif.problem.hosts
        for kind, target, count in guess.placed:
            hosts.used[:, target] += self.quick.sizes[kind] * count
            name = hosts.nodes[target].name
            pods = arriving.setdefault(name, [])
            pods += [next(waiting[kind]) for _ in range(count)]
        whatif.trial.close([host])
        placements = tuple(ExistingPlacement(name, pods) for name, pods in arriving.items())
        move = Move(removed=(one,), placements=placements, saving=one.price)
        self._changed(move)
        return move

    def _changed(self, move: Move) -> None:
        self.version += 1
        self.quick.refresh()
        for one in move.placements:
            self.receives[one.node] = move.removed[0].node.name

    # -- judging ---------------------------------------------------------------------------

    def _judge(self, removed: Sequence[Candidate], outcome: Outcome) -> tuple[Move | None, Verdict]:
        if outcome.unplaced:
            return None, Verdict(code="no-place", because=outcome.blocked)
        if outcome.starting:
            return None, self._starting(outcome.starting)
        ruling = Ruling()
        if outcome.nodes:
            most = self._settings.most_replacements
            if most is not None and len(outcome.nodes) > most:
                why = f"its pods would need {len(outcome.nodes)} new nodes"
                return None, Verdict(code="not-cheaper", because=why)
            hoped = sum(one.price for one in removed) - outcome.price
            verdict = self._worth(removed, hoped, Verdict(hoped))
            if hoped > 0 and verdict.code:  # The rules on prices can only make it less.
                return None, verdict
            ruling = rule_on(outcome.nodes, removed, self._settings, self._market)
            if ruling.code:
                return None, Verdict(code=ruling.code, because=ruling.because)
        saving = sum(one.price for one in removed) - sum(one.price for one in ruling.nodes)
        verdict = self._worth(removed, saving, Verdict(saving))
        if verdict.code:
            return None, verdict
        move = Move(
            removed=tuple(removed),
            replacements=ruling.nodes,
            placements=outcome.placements,
            saving=saving,
        )
        return move, verdict

    def _worth(self, removed: Sequence[Candidate], saving: float, fine: Verdict) -> Verdict:
        """Hold a saving against the thresholds."""
        disruption = sum(self._whatif.costs[one.node.name] for one in removed)
        settings = self._settings
        if saving <= 0 and any(one.price > 0 for one in removed):
            return Verdict(code="not-cheaper", because="it would save nothing")
        least = max(settings.min_saving, settings.min_saving_per_cost * disruption)
        known = all(one.price > 0 for one in removed)
        # A node whose price nobody knows costs something; without it that is saved.
        if saving < least - _CLOSE and (known or settings.min_saving > 0):
            why = (
                f"it would save {saving:.4f} USD per hour; "
                f"moving its pods is worth it from {least:.4f} on"
            )
            return Verdict(code="below-threshold", because=why)
        if not approves(removed, saving, self._totals, settings.balanced_k):
            why = f"it would save {saving:.4f} USD per hour, too little for the policy Balanced"
            return Verdict(code="balanced", because=why)
        return fine
