"""Why every node is still there, and what it costs that it is."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import msgspec

from dovetail.core.disruption.budgets import Reason
from dovetail.core.disruption.candidates import (
    Blocker,
    Candidate,
    Machine,
    Manner,
    Spared,
    Surroundings,
    consider,
    is_empty,
    price_of,
)
from dovetail.core.disruption.command import Move, Stay
from dovetail.core.disruption.consolidation.consolidate import consolidate
from dovetail.core.disruption.consolidation.method import CONSOLIDATION
from dovetail.core.disruption.context import View, unfit
from dovetail.core.disruption.emptiness import EMPTINESS
from dovetail.core.nodeclaim.drift import DRIFTED
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import is_true
from dovetail.model.settings import ConsolidationSettings, SchedulingSettings


class Ground(msgspec.Struct, frozen=True, kw_only=True):
    """On what it is explained."""

    around: Surroundings
    room: Callable[[NodePool, Reason], int]
    """How many nodes a pool's budgets let go now."""
    mistakes: Mapping[str, str]
    """Pool → what cannot be read of its budgets."""
    view: Callable[[tuple[Candidate, ...]], View]
    settings: ConsolidationSettings = ConsolidationSettings()
    scheduling: SchedulingSettings = SchedulingSettings()


def why_nodes_stay(machines: Iterable[Machine], ground: Ground) -> tuple[Stay, ...]:
    """Return for every node why it is there, by name; those about to go say so.

    Beside the codes of consolidation: ``unmanaged``, ``leaving``, ``spared``,
    ``setting`` (of its pool), ``unfit``, ``young`` (pods came or went just now),
    ``budget``, and ``goes`` for nodes that are given back or replaced next.
    """
    found: list[Stay] = []
    candidates: list[Candidate] = []
    for machine in machines:
        if machine.node is None:
            continue
        answer = _alone(machine, ground)
        if isinstance(answer, Candidate):
            candidates.append(answer)
        else:
            found.append(answer)
    found += _together(tuple(candidates), ground)
    return tuple(sorted(found, key=lambda one: one.node))


def _alone(machine: Machine, ground: Ground) -> Candidate | Stay:
    """Return why a machine stays whatever the others do; else a candidate to consolidate."""
    around, claim, node = ground.around, machine.claim, machine.node
    pool = around.pool(claim.pool) if claim is not None else None
    price = price_of(node, around.types(pool)) if node is not None and pool is not None else 0.0
    name = node.name if node is not None else machine.identity
    stay = partial(_stay, name, price)
    if claim is None or pool is None:
        return stay("unmanaged", "it belongs to no NodePool that is there")
    if machine.leaving:
        return stay("leaving", "it is being given back")
    drifted = is_true(claim.conditions, DRIFTED)
    verdict = consider(machine, around, Manner.EVENTUAL if drifted else Manner.GRACEFUL)
    if isinstance(verdict, Spared):
        return stay("spared", verdict.because, verdict.blocker)
    whose = Blocker("NodePool", pool.name)
    if pool.name in ground.mistakes:
        return stay("budget", f"NodePool {pool.name!r}: {ground.mistakes[pool.name]}", whose)
    if drifted:
        why = f"it has drifted ({claim.conditions[DRIFTED].reason})"
        told = _unless_short(pool, Reason.DRIFTED, why, ground)
    elif is_empty(machine.pods):
        told = _why_empty(machine, pool, ground)
    else:
        not_moved = _why_not_moved(machine, pool, verdict, ground)
        if not_moved is None:
            return verdict
        told = not_moved
    saving = price if told[0] == "goes" and not drifted else 0.0
    return stay(*told, whose if told[0] in _OF_THE_POOL else None, saving)


def _stay(
    node: str,
    price: float,
    code: str,
    because: str,
    blocker: Blocker | None = None,
    saving: float = 0.0,
) -> Stay:
    return Stay(node=node, price=price, code=code, because=because, blocker=blocker, saving=saving)


_OF_THE_POOL = ("budget", "setting")
"""Reasons that end when somebody edits the NodePool."""


def _why_empty(machine: Machine, pool: NodePool, ground: Ground) -> tuple[str, str]:
    wish = EMPTINESS.wish(machine, pool, ground.around.now)
    if wish.now:
        return _unless_short(pool, Reason.EMPTY, "it is empty", ground)
    if wish.at is not None:
        return "young", f"it is empty, and will be given back at {wish.at:%H:%M:%S}"
    return ("setting", wish.never) if wish.never else ("young", _YOUNG)


def _why_not_moved(
    machine: Machine, pool: NodePool, one: Candidate, ground: Ground
) -> tuple[str, str] | None:
    wish = CONSOLIDATION.wish(machine, pool, ground.around.now)
    if wish.never:
        return "setting", wish.never
    if not wish.now:
        return "young", _YOUNG
    problem = unfit(one)
    return ("unfit", problem) if problem is not None else None


def _unless_short(pool: NodePool, reason: Reason, why: str, ground: Ground) -> tuple[str, str]:
    if ground.room(pool, reason) > 0:
        return "goes", why
    return "budget", f"{why}; NodePool {pool.name!r} has no budget left for {reason}"


def _together(candidates: tuple[Candidate, ...], ground: Ground) -> Iterable[Stay]:
    pools = {one.pool.name: one.pool for one in candidates}
    room = {name: ground.room(pool, Reason.UNDERUTILIZED) for name, pool in pools.items()}
    decided = consolidate(
        ground.view(candidates), room, settings=ground.settings, scheduling=ground.scheduling
    )
    yield from decided.stays
    for move in decided.moves:
        for one in move.removed:
            yield Stay(
                node=one.node.name,
                price=one.price,
                code="goes",
                because=_told(move),
                saving=move.saving / len(move.removed),
            )


def _told(move: Move) -> str:
    others = len(move.removed) - 1
    with_others = f" with {others} other(s)" if others else ""
    comes = ", ".join(one.instance_type.name for one in move.replacements)
    what = f"replaced{with_others} by {comes}" if comes else f"given back{with_others}"
    return f"it could be {what}, which saves {move.saving:.4f} USD per hour"


_YOUNG = "pods came or went, or it became ready, too short a time ago for its NodePool"
