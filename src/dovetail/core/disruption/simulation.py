"""What if these nodes were gone? A cluster compiled once, asked many times.

Pods that wait anyway are placed first, once and for all; what they take is not
there for others. A question then takes nodes out, places their pods on what is
left or on new nodes, and puts everything back.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import msgspec

from dovetail.core.disruption.context import View
from dovetail.core.scheduling.placement.running_pods import Running
from dovetail.core.scheduling.placement_order import sort_out
from dovetail.core.scheduling.plan_builder import Answer
from dovetail.core.scheduling.pods.default_spread import DefaultSpreads
from dovetail.core.scheduling.pods.equivalence import (
    PodClass,
    classify,
    classify_alike,
    selector_keys,
)
from dovetail.core.scheduling.pods.pending import those_asking, wanting
from dovetail.core.scheduling.problem import Problem
from dovetail.core.scheduling.trial import Trial
from dovetail.core.scheduling.unschedulable import Explainer
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.pod_groups import PodKind, kind_of
from dovetail.model.node import Node
from dovetail.model.plan import (
    Constraint,
    ExistingPlacement,
    PlannedNode,
    Refusal,
    Unplaced,
)
from dovetail.model.settings import SchedulingSettings

Load = dict[int, Sequence[Pod]]
"""Number of a class → its pods."""

_CUT_SHORT = "cut to the longest list of types allowed, its claim would break minValues"


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """Where the pods of the nodes that are gone would be."""

    nodes: tuple[PlannedNode, ...] = ()
    """To be bought."""
    placements: tuple[ExistingPlacement, ...] = ()
    unplaced: tuple[Unplaced, ...] = ()
    starting: str = ""
    """A node that some of them need and that has not started up yet."""

    @property
    def price(self) -> float:
        """USD per hour of the new nodes."""
        return sum(node.price for node in self.nodes)

    @property
    def possible(self) -> bool:
        return not self.unplaced and not self.starting

    @property
    def blocked(self) -> str:
        """Say what is in the way, naming the first pod without a place; empty: nothing."""
        if self.unplaced:
            first = self.unplaced[0]
            why = "; ".join(
                f"{one.nodepool}: {one.message}" if one.nodepool else one.message
                for one in first.refusals
            )
            return f"Pod {first.pod.key} would have no place: {why or 'no node takes it'}"
        return f"Node {self.starting} is needed and still starting" if self.starting else ""


class WhatIf:
    """Answers what would become of the pods of candidates' nodes."""

    def __init__(
        self,
        view: View,
        settings: SchedulingSettings | None = None,
        order: Callable[[Node], Any] | None = None,
        *,
        only: Collection[str] | None = None,
    ) -> None:
        """Compile a view; questions may be about all candidates, or ``only`` some, by node."""
        self.view = view
        snapshot, settings = view.snapshot, settings or SchedulingSettings()
        spreads = settings.default_spreads
        spec_of = DefaultSpreads(snapshot, spreads).spec_of if spreads else None
        names = {one.node.name for one in view.candidates} if only is None else only
        those_of = those_asking(snapshot)
        leaving = {
            node.name: [(alike.kind, pods) for alike in node.alike if (pods := those_of(alike))]
            for node in snapshot.nodes
            if node.name in names and not node.deleting
        }
        waiting = wanting(snapshot)
        moving: dict[PodKind, list[Pod]] = {}
        for kind, pods in chain.from_iterable(leaving.values()):
            moving.setdefault(kind, []).extend(pods)
        one_of_each = (*waiting, *(pods[0] for pods in moving.values()))
        keys = selector_keys(
            {pod.spec if spec_of is None else spec_of(pod) for pod in one_of_each}
            | {
                alike.kind.spec
                for node in snapshot.nodes
                for alike in node.alike
                if alike.kind.spec.anti_affinity
            }
        )
        self._hopeless: dict[int, Unplaced] = {}
        first = self._sound(classify(waiting, keys, spec_of), view, settings)
        all_moving, class_of = classify_alike(moving, keys, spec_of)
        classes = first + self._sound(all_moving, view, settings)
        gone = frozenset(pod.key for pod in waiting if pod.node_name)
        self.costs = {one.node.name: one.cost for one in view.candidates}
        """Node → what moving its pods is worth avoiding."""
        self.problem = Problem(snapshot, settings, classes, gone, order or self._least_worth())
        self.trial = Trial(self.problem)
        self.hosts = self.problem.hosts.numbers
        self._tied = any(True for _ in self.problem.topology.counters)
        self._explained: dict[int, tuple[Refusal, ...]] = {}
        self.loads: dict[int, Load] = {}
        """Host → the pods that would need a place if it were gone."""
        number_of = {id(one): number for number, one in enumerate(classes)}
        numbers = {kind: number_of.get(id(one)) for kind, one in class_of.items()}
        self._no_class: dict[int, list[Unplaced]] = {}
        for name, groups in leaving.items():
            self._load(self.hosts[name], groups, numbers)
        waits: Load = {number: list(one.pods) for number, one in enumerate(first)}
        self._settle(waits)
        shut = [self.hosts[name] for name in sorted(view.closed) if name in self.hosts]
        self.trial.close(shut)

    def _sound(
        self, classes: list[PodClass], view: View, settings: SchedulingSettings
    ) -> list[PodClass]:
        sound, unplaced = sort_out(classes, view.snapshot, settings)
        self._hopeless.update((id(one.pod), one) for one in unplaced)
        return sound

    def _load(
        self,
        host: int,
        groups: Iterable[tuple[PodKind, tuple[Pod, ...]]],
        numbers: Mapping[PodKind, int | None],
    ) -> None:
        load = self.loads.setdefault(host, {})
        for kind, pods in groups:
            number = numbers[kind]
            if number is None:
                lost = self._no_class.setdefault(host, [])
                lost += [self._hopeless[id(pod)] for pod in pods]
            else:
                load[number] = (*load[number], *pods) if number in load else pods

    def _settle(self, waits: Load) -> None:
        """Give pods that wait anyway the room they will take."""
        if not waits:
            return
        self.trial.place(waits, [], {}, fewest=True)
        for host, load in self._placed(waits).items():
            if host < self.problem.hosts.existing:
                mine = self.loads.setdefault(host, {})
                for number, pods in load.items():
                    mine[number] = (*mine.get(number, ()), *pods)
        self.trial.keep()

    def _placed(self, members: Load) -> dict[int, dict[int, list[Pod]]]:
        """Return who went where, by the log."""
        numbers = {id(self.trial.classes[number]): number for number in members}
        handed = dict.fromkeys(members, 0)
        found: dict[int, dict[int, list[Pod]]] = {}
        for want, where, counts in self.problem.board.log:
            number = numbers[id(want.pod_class)]
            for host, count in zip(where, counts, strict=True):
                at = handed[number]
                found.setdefault(host, {}).setdefault(number, []).extend(
                    members[number][at : at + count]
                )
                handed[number] = at + count
        return found

    def _least_worth(self) -> Callable[[Node], tuple[bool, float, str]]:
        """Fill first who is likeliest to stay: others, then who saves least for its pods."""
        worth = {
            one.node.name: one.price / self.costs[one.node.name] for one in self.view.candidates
        }

        def rank(node: Node) -> tuple[bool, float, str]:
            return (not node.initialized, worth.get(node.name, 0.0), node.name)

        return rank

    # -- asking ------------------------------------------------------------------------

    def without(self, names: Iterable[str]) -> Outcome:
        """Return what would become of the pods if these candidates' nodes were gone."""
        gone = [self.hosts[name] for name in names]
        best = self.ask(gone, fewest=False)
        if len(best.nodes) > 1:
            other = self.ask(gone, fewest=True)
            if other.possible >= best.possible and other.price <= best.price:
                best = other
        return best

    def ask(
        self,
        gone: Sequence[int],
        *,
        fewest: bool,
        keep_if: Callable[[Outcome], bool] = lambda _: False,
    ) -> Outcome:
        """Ask the solver; an answer that is kept is the ground of all later questions."""
        members = self.members(gone)
        running = self._running(gone, members)
        had = self.trial.place(members, gone, running, fewest=fewest)
        outcome = self._outcome(gone)
        if keep_if(outcome):
            self.trial.keep()
        else:
            self.trial.undo(gone, running, had)
        return outcome

    def members(self, gone: Iterable[int]) -> Load:
        """Return the pods that need a place if these hosts are gone."""
        members: dict[int, list[Pod]] = {}
        for host in gone:
            for number, pods in self.loads.get(host, {}).items():
                members.setdefault(number, []).extend(pods)
        return dict(members)

    def hopeless(self, gone: Iterable[int]) -> list[Unplaced]:
        """Return the pods of these hosts that no node could ever help."""
        return [one for host in gone for one in self._no_class.get(host, ())]

    def _running(self, gone: Sequence[int], members: Load) -> Running:
        """Return how these pods are counted where they are now; nothing where nobody counts."""
        found: Running = {}
        if not self._tied:
            return found
        for host in gone:
            name = self.problem.hosts.nodes[host].name
            for pods in self.loads.get(host, {}).values():
                for pod in pods:
                    if not pod.deleting:
                        where = found.setdefault(kind_of(pod), {})
                        where[name] = where.get(name, 0) + 1
        return found

    def _outcome(self, gone: Sequence[int]) -> Outcome:
        unplaced = self.hopeless(gone)
        for one in self.problem.classes:
            if one.waiting:
                why = self.why(one)
                unplaced += [Unplaced(pod, why) for pod in one.pods[one.taken :]]
        answer = Answer(self.problem)
        nodes, placements = answer.write()
        for pool, pods in answer.dropped:
            refusal = Refusal(pool, Constraint.MIN_VALUES, _CUT_SHORT)
            unplaced += [Unplaced(pod, (refusal,)) for pod in pods]
        return Outcome(
            nodes=nodes,
            placements=placements,
            unplaced=tuple(unplaced),
            starting=self._starting(placements),
        )

    def why(self, one: PodClass) -> tuple[Refusal, ...]:
        """Return why pods of a class that waits find no place; explained once per class."""
        known = self._explained.get(id(one))
        if known is None:
            known = self._explained[id(one)] = Explainer(self.trial.placer).why(one)
        return known

    def _starting(self, placements: Iterable[ExistingPlacement]) -> str:
        for one in placements:
            if self.is_starting(self.hosts[one.node]):
                return one.node
        return ""

    def is_starting(self, host: int) -> bool:
        node = self.problem.hosts.nodes[host]
        return node.managed and not node.initialized
