"""Why nodes stay, asked of a mirror: that of a running process, or one filled from a dump."""

from collections.abc import Callable
from datetime import datetime

from dovetail.core.disruption.budgets import Reason, allowance, census, left, mistakes
from dovetail.core.disruption.candidates import Candidate, Machine, Surroundings
from dovetail.core.disruption.command import Stay
from dovetail.core.disruption.context import View, in_window
from dovetail.core.disruption.explain import Ground, why_nodes_stay
from dovetail.core.provisioning import is_provisionable, is_usable
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.node import NodeObject
from dovetail.model.settings import ConsolidationSettings, SchedulingSettings
from dovetail.state.cluster.cache import Mirror
from dovetail.state.pods.assignments import Promises
from dovetail.state.snapshot import Picture

TypesOf = Callable[[NodePool], tuple[InstanceType, ...]]


def explain_nodes(
    mirror: Mirror,
    types_of: TypesOf,
    now: datetime,
    *,
    settings: ConsolidationSettings | None = None,
    scheduling: SchedulingSettings | None = None,
    unhurried: bool = False,
) -> tuple[Stay, ...]:
    """Return for every node why it stays and what it costs, by name.

    ``unhurried`` asks what could go in the end, however few budgets allow at once.
    """
    types = {pool.name: types_of(pool) for pool in mirror.pools()}
    by_name = {pool: FrozenDict({one.name: one for one in found}) for pool, found in types.items()}

    def room(pool: NodePool, reason: Reason) -> int:
        if unhurried and not mistakes(pool.disruption.budgets):
            return len(mirror.claims_in(pool.name))
        counted = census((one, _node(mirror, one)) for one in mirror.claims_in(pool.name))
        allowed = allowance(pool.disruption.budgets, reason, total=counted.total, now=now)
        return left(allowed.allowed, counted)

    def view(candidates: tuple[Candidate, ...]) -> View:
        pools = [pool for pool in mirror.pools() if is_usable(pool) and types[pool.name]]
        waiting = [pod for pod in mirror.unbound_pods() if is_provisionable(pod)]
        snapshot = Picture(mirror, Promises(mirror)).snapshot(
            now,
            pending=sorted(waiting, key=lambda pod: pod.key),
            pools=pools,
            types={pool.name: types[pool.name] for pool in pools},
        )
        closed = {
            claim.node_name
            for pool in mirror.pools()
            for claim in mirror.claims_in(pool.name)
            if claim.node_name and in_window(claim, pool, now) and not unhurried
        }
        return View(snapshot=snapshot, candidates=candidates, closed=frozenset(closed))

    around = Surroundings(
        now=now,
        pool=mirror.pool,
        types=lambda pool: by_name.get(pool.name, FrozenDict()),
        budgets=mirror.budgets_for,
        nominated=lambda identity, at: False,
    )
    wrong = {pool.name: "; ".join(mistakes(pool.disruption.budgets)) for pool in mirror.pools()}
    ground = Ground(
        around=around,
        room=room,
        mistakes={name: told for name, told in wrong.items() if told},
        view=view,
        settings=settings or ConsolidationSettings(),
        scheduling=scheduling or SchedulingSettings(),
    )
    return why_nodes_stay((_machine(mirror, node) for node in mirror.nodes()), ground)


def _machine(mirror: Mirror, node: NodeObject) -> Machine:
    claims = mirror.claims_of(node.provider_id)
    return Machine(
        identity=node.provider_id or node.name,
        claim=claims[0] if claims else None,
        node=node,
        pods=mirror.pods_on(node.name),
    )


def _node(mirror: Mirror, claim: NodeClaim) -> NodeObject | None:
    nodes = mirror.nodes_of(claim.provider_id)
    return nodes[0] if nodes else None
