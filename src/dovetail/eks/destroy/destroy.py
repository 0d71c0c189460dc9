"""Taking a cluster away, in the order in which it can go, and proof that nothing is left."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from dovetail.eks.apply.executor import Run, Teller, carry_out
from dovetail.eks.apply.ownership import is_marked, ours
from dovetail.eks.destroy.leftovers import Left, Sweeper
from dovetail.eks.destroy.preflight import check_way
from dovetail.eks.plan.planner import Plan, Step, plan_removal
from dovetail.eks.plan.resource import OWNER_TAG, Observed
from dovetail.eks.plan.resource_kinds import KINDS
from dovetail.eks.session import Site
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NAMESPACES, NODE_CLAIMS, NODE_POOLS

_INSIDE: Final = ("kubernetes-object", "helm-release")
_KEPT_BY_FINALIZERS: Final = (NODE_CLAIMS, NODE_POOLS, EC2_NODE_CLASSES)


async def removal(site: Site) -> tuple[Plan, Observed]:
    """Look, and say what would be taken away; what was there before us is not.

    Raises ``InTheWay`` for what others made that would stop it halfway.
    """
    observed = ours(site.wanted, await site.observe(), site.spec.name)
    await check_way(site, observed)
    return plan_removal(site.wanted, observed), observed


async def destroy(
    site: Site,
    plan: Plan,
    observed: Observed,
    *,
    stop: asyncio.Event | None = None,
    teller: Teller | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Run:
    """Take everything of ours away; a second run goes on where the first was stopped.

    First what is inside the cluster, so that its controllers give back what they
    bought: NodePools wait for their claims, those for their instances. Then what
    controllers left behind. Then AWS's part, dependents first.
    """
    sweeper = Sweeper(site.reach, is_guest=site.is_guest)
    executor = site.executor(observed)
    inside = [one for one in plan.steps if one.kind in _INSIDE]
    outside = [one for one in plan.steps if one.kind not in _INSIDE]
    first = await carry_out(_only(plan, inside), executor, stop=stop, teller=teller)
    if first.left:
        return Run(first.done, (*first.left, *outside))
    tell("looking for what nodes have left behind")
    await sweeper.sweep()
    groups, rest = _with_nodes(outside)
    second = await carry_out(_only(plan, groups), executor, stop=stop, teller=teller)
    await sweeper.sweep_interfaces()
    third = await carry_out(_only(plan, rest), executor, stop=stop, teller=teller)
    return Run((*first.done, *second.done, *third.done), (*second.left, *third.left))


async def proof(site: Site) -> list[Left]:
    """Look everywhere, and return what is left; nothing, if all went well."""
    # The cluster that was asked until now may be gone.
    await site.door.close()
    observed = ours(site.wanted, await site.observe(), site.spec.name)
    found = [
        Left(KINDS[one.kind].called, one.name)
        for one in observed.resources.values()
        if is_marked(one, site.spec.name)
    ]
    found += [one async for one in Sweeper(site.reach, is_guest=site.is_guest).left()]
    found += await _stuck(site)
    return sorted(set(found))


async def _stuck(site: Site) -> list[Left]:
    """Return objects that should be gone: kept by finalizers, or by what others added."""
    api = await site.door.open() if site.is_guest else None
    if api is None:
        return []
    found: list[Left] = []
    for kind in _KEPT_BY_FINALIZERS:
        for one in await api.all_of(kind):
            meta = one["metadata"]
            if meta.get("deletionTimestamp") and meta.get("finalizers"):
                why = f"kept by {', '.join(meta['finalizers'])}"
                found.append(Left(kind.kind, meta["name"], why))
    for one in await api.all_of(NAMESPACES, labels=f"{OWNER_TAG}={site.spec.name}"):
        why = "it was made for a chart, and others have put something into it"
        found.append(Left("namespace", one["metadata"]["name"], why))
    return found


def _with_nodes(steps: Sequence[Step]) -> tuple[list[Step], list[Step]]:
    """Tell what must go before network interfaces can be looked at from the rest."""
    needed: set[str] = set()
    last = [one for one in steps if one.kind in ("eks-node-group", "eks-fargate-profile")]
    by_id = {one.id: one for one in steps}
    waiting = [one.id for one in last]
    while waiting:
        id_ = waiting.pop()
        if id_ in by_id and id_ not in needed:
            needed.add(id_)
            waiting.extend(by_id[id_].needs)
    return [one for one in steps if one.id in needed], [
        one for one in steps if one.id not in needed
    ]


def _only(plan: Plan, steps: Sequence[Step]) -> Plan:
    """Return a plan of some steps; the others that they need have been done."""
    ids = {one.id for one in steps}
    kept = tuple(
        msgspec.structs.replace(one, needs=tuple(need for need in one.needs if need in ids))
        for one in steps
    )
    return msgspec.structs.replace(plan, steps=kept)
