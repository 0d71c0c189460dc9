"""Runs a scenario, phase by phase, and measures each."""

from collections import Counter
from collections.abc import Callable, Generator
from datetime import datetime, timedelta
from typing import Final

import msgspec

from dovetail.errors import ScenarioError
from dovetail.ports.kube_errors import ApiError
from dovetail.simulator.cluster import Box
from dovetail.simulator.ec2.billing import Purchase
from dovetail.simulator.scenario.model import Action, Phase, Scenario, Until, Wait
from dovetail.simulator.scenario_actions import act

EVICTIONS: Final = "karpenter_pods_eviction_requests_total"


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """Where the time went until the last pod of a phase ran on a new node, in seconds."""

    waiting: float
    """Until the pod was there, and earlier nodes of this phase were seen to be full."""
    deciding: float
    """Gathering pods and deciding, until the claim was written."""
    buying: float
    """EC2's answer."""
    booting: float
    """From the launch until the node was ready."""
    joining: float
    """From then until the node was cleared for pods."""
    starting: float
    """Binding the pod, pulling its image, starting it."""

    @property
    def own(self) -> float:
        """What Dovetail itself took."""
        return round(self.deciding + self.joining, 3)


class PhaseReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a phase came to; counts of launches and the like are of this phase alone."""

    name: str
    reached: bool
    virtual_seconds: float
    pods_running: int
    nodes: int
    price_per_hour: float
    """At its end."""
    cost: float
    """USD spent on machines in it."""
    launched: int
    terminated: int
    evictions: int
    instance_types: dict[str, int]
    """Of the machines launched."""
    way: Way | None = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """A whole scenario."""

    scenario: str
    phases: tuple[PhaseReport, ...]
    cost: float
    """USD spent on machines."""
    price_steps: tuple[tuple[float, float], ...] = ()
    """Seconds since the start and what an hour costs from then on, in USD."""
    invariant_violations: tuple[str, ...] = ()

    @property
    def own_seconds(self) -> float:
        """Virtual seconds that Dovetail itself took on the way to running pods."""
        return round(sum(one.way.own for one in self.phases if one.way is not None), 3)

    @property
    def reached(self) -> bool:
        """Tell whether every phase came to its end in time."""
        return all(one.reached for one in self.phases)


class Driver:
    """Takes a box through a scenario; whoever drives it decides how fast."""

    def __init__(self, box: Box, scenario: Scenario) -> None:
        self._box = box
        self._scenario = scenario
        self.phase: Phase | None = None
        self.listeners: list[Callable[[Phase | PhaseReport], None]] = []
        """Are told of each phase when it begins, and what it came to when it ends."""
        self._began = self._stirred = box.engine.now()
        """When something was last bought or given back."""
        self._steps: list[tuple[float, float]] = []
        box.ec2.ledger.listeners.append(self._stir)

    def _stir(self, _: Purchase) -> None:
        self._stirred = self._box.engine.now()

    def _note_price(self) -> None:
        price = round(self._box.ec2.ledger.price_per_hour(), 4)
        since = _seconds(self._box.engine.now() - self._began)
        if self._steps and self._steps[-1][0] == since:
            self._steps.pop()
        if not self._steps or self._steps[-1][1] != price:
            self._steps.append((since, price))

    def run(self) -> Report:
        """Run to the end, as fast as can be."""
        steps = self.steps(every=timedelta(days=365))
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                report: Report = stop.value
                return report

    def steps(self, *, every: timedelta) -> Generator[datetime, None, Report]:
        """Run and stop to be looked at, each time so much virtual time has passed."""
        reports = []
        for phase in self._scenario.phases:
            self.phase = phase
            self._tell(phase)
            reports.append((yield from self._phase(phase, every)))
            self._tell(reports[-1])
        box = self._box
        return Report(
            scenario=self._scenario.name,
            phases=tuple(reports),
            cost=round(box.ec2.ledger.cost(box.engine.now()), 6),
            price_steps=tuple(self._steps),
            invariant_violations=tuple(box.invariants.violations),
        )

    def _tell(self, news: Phase | PhaseReport) -> None:
        for listener in self.listeners:
            listener(news)

    def _phase(self, phase: Phase, every: timedelta) -> Generator[datetime, None, PhaseReport]:
        box = self._box
        start, before = box.engine.now(), self._counts()
        bought = len(box.ec2.ledger.purchases)
        spent = box.ec2.ledger.cost(start)
        for action in phase.actions:
            if isinstance(action, Wait):
                over = box.engine.now() + action.lasts
                yield from self._run(every, over, lambda: False)
            else:
                self._act(action, phase)
        end, reached = start + phase.limit, False
        if box.engine.now() <= end:
            reached = yield from self._run(every, end, lambda: self._is(phase.until))
        after = self._counts()
        launched = box.ec2.ledger.purchases[bought:]
        return PhaseReport(
            name=phase.name,
            reached=reached,
            virtual_seconds=_seconds(box.engine.now() - start),
            pods_running=box.chronicle.running,
            nodes=box.ec2.ledger.machines,
            price_per_hour=round(box.ec2.ledger.price_per_hour(), 4),
            cost=round(box.ec2.ledger.cost(box.engine.now()) - spent, 6),
            launched=after["launched"] - before["launched"],
            terminated=after["terminated"] - before["terminated"],
            evictions=after["evictions"] - before["evictions"],
            instance_types=dict(sorted(Counter(one.instance_type for one in launched).items())),
            way=self._way(start),
        )

    def _act(self, action: Action, phase: Phase) -> None:
        try:
            act(action, self._box)
        except ApiError as error:
            raise ScenarioError(f"phase {phase.name}: {error}") from error

    def _run(
        self, every: timedelta, limit: datetime, over: Callable[[], bool]
    ) -> Generator[datetime, None, bool]:
        engine = self._box.engine
        shown = engine.now() + every
        # What an action has set off happens at this very instant, and before any look.
        engine.run(until=engine.now())
        while not over():
            due = engine.next_at()
            is_last = due is None or due > limit
            if (limit if due is None else min(due, limit)) >= shown:
                engine.run(until=shown - _TICK)
                yield shown  # Whoever looks may set off something earlier than what was due.
                shown += every
            elif is_last:
                engine.run(until=limit)
                return over()
            else:
                engine.step()
                self._note_price()
        return True

    def _is(self, until: Until) -> bool:
        box = self._box
        if until.nodes is not None and box.ec2.ledger.machines != until.nodes:
            return False
        if until.drifted is not None and len(box.chronicle.drifted) != until.drifted:
            return False
        if until.quiet is not None and box.engine.now() - self._stirred < until.quiet:
            return False
        pods = box.chronicle
        return until.running is None or (pods.running == until.running and not pods.unsettled)

    def _counts(self) -> dict[str, int]:
        ledger = self._box.ec2.ledger
        return {
            "launched": len(ledger.purchases),
            "terminated": len(ledger.purchases) - ledger.machines,
            "evictions": int(self._box.metrics.total(EVICTIONS, code="200")),
        }

    def _way(self, start: datetime) -> Way | None:
        """Follow the last pod that started on a machine bought in this phase."""
        chronicle, ledger = self._box.chronicle, self._box.ec2.ledger
        last = chronicle.last_start
        if last is None or last.at < start:
            return None
        provider = chronicle.provider_of.get(last.node, "")
        bought = {one.provider_id: one for one in ledger.purchases if one.launched >= start}
        purchase = bought.get(provider)
        if purchase is None or purchase.claim not in chronicle.claim_made:
            return None
        # A claim may be older than the phase in which its machine is bought.
        made = max(start, chronicle.claim_made[purchase.claim])
        # Whoever is bought for again had to see first that the nodes of the first time are full.
        seen = [
            chronicle.node_ready[node]
            for node, provider_id in chronicle.provider_of.items()
            if node in chronicle.node_ready
            and provider_id in bought
            and bought[provider_id].launched >= last.made
            and chronicle.node_ready[node] <= made
        ]
        asked = max(start, min(last.made, made), *seen)
        # Pods that tolerate it may start before the node is ready, or cleared.
        ready = min(last.at, chronicle.node_ready.get(last.node, last.at))
        cleared = chronicle.claim_initialized.get(purchase.claim, ready)
        cleared = min(last.at, max(ready, cleared))
        return Way(
            waiting=_seconds(asked - start),
            deciding=_seconds(made - asked),
            buying=_seconds(purchase.launched - made),
            booting=_seconds(ready - purchase.launched),
            joining=_seconds(cleared - ready),
            starting=_seconds(last.at - cleared),
        )


_TICK: Final = timedelta(microseconds=1)


def _seconds(span: timedelta) -> float:
    return round(span.total_seconds(), 3)
