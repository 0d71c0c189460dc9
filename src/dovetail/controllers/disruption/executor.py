"""Begins disruptions: mark the nodes, look once more, then buy for their pods or let them go.

Nothing of this is remembered: marks say what was begun, replacements say for
whom they come, and whoever finds marks of which nothing comes takes them off.
"""

from collections.abc import Awaitable, Callable, Sequence

import msgspec

from dovetail.codec.karpenter.nodeclaims import encode_node_claim
from dovetail.controllers.disruption.marks import Marks
from dovetail.controllers.nodeclaim_deletion import Parting, Why
from dovetail.core.disruption.candidates import Candidate
from dovetail.core.disruption.command import Move
from dovetail.core.disruption.replacement import undertaking
from dovetail.core.provisioning import claim_for, claim_of_template
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.conditions import is_true
from dovetail.ports.api_resources import NODE_CLAIMS
from dovetail.ports.event_loop import Loop
from dovetail.ports.kube_client import Kube
from dovetail.ports.randomness import Chance
from dovetail.ports.telemetry import Events, Log, Metrics
from dovetail.state.cluster.cache import Mirror
from dovetail.state.nodes.nominations import Nominations
from dovetail.state.nodes.replacements import Undertakings
from dovetail.state.pods.assignments import Promises


class Commands:
    """Carries moves out as far as that takes no waiting; ``Replacing`` does the rest."""

    def __init__(
        self,
        *,
        mirror: Mirror,
        promises: Promises,
        nominations: Nominations,
        kube: Kube,
        loop: Loop,
        chance: Chance,
        log: Log,
        events: Events,
        metrics: Metrics,
    ) -> None:
        self._mirror = mirror
        self._promises = promises
        self._nominations = nominations
        self._undertakings = Undertakings(mirror)
        self._kube = kube
        self._loop = loop
        self._chance = chance
        self._log = log
        self._metrics = metrics
        self._marks = Marks(mirror=mirror, promises=promises, kube=kube, clock=loop, log=log)
        self._parting = Parting(
            mirror=mirror, kube=kube, loop=loop, log=log, events=events, metrics=metrics
        )

    async def begin(
        self, move: Move, why: Why, *, still_wanted: Callable[[Candidate], bool]
    ) -> int:
        """Mark a move's nodes and go on with those that are wanted even then.

        The mark keeps new pods away, so that what ``still_wanted`` sees behind it
        holds. Nodes that only go may go without the others; those for which
        something is bought go together or not at all. Returns how many are going,
        or will once their replacements are ready.
        """
        bought = len(move.replacements) + len(move.from_template)
        self._log.info(
            "disrupting node(s)",
            command=f"{why.reason.lower()}/{why.decision}",
            decision=why.decision,
            disrupted_node_count=len(move.removed),
            replacement_node_count=bought,
            pod_count=move.evictions,
            disrupted_nodes=", ".join(one.node.name for one in move.removed),
        )
        marked = await self._each(
            move.removed, lambda one: self._marks.put(one.claim, one.node, why.reason)
        )
        going = [one for one in marked if still_wanted(one)]
        if len(going) < len(marked):
            self._metrics.count(
                "karpenter_voluntary_disruption_failed_validations_total",
                len(marked) - len(going),
                consolidation_type=why.label,
            )
        if not going or (bought and len(going) < len(move.removed)):
            return 0
        self._metrics.count("karpenter_voluntary_disruption_decisions_total", 1, **why.labels)
        for pool in sorted({one.pool.name for one in going}):
            self._metrics.count(
                "karpenter_voluntary_disruption_decisions_by_nodepool_total",
                1,
                nodepool=pool,
                **why.labels,
            )
        self._promise(move, going)
        if bought:
            return len(going) if await self._buy(move, why) else 0
        latest = [self._mirror.claim(one.claim.name) or one.claim for one in going]
        return len(await self._parting.delete(latest, why))

    async def take_back(self) -> None:
        """Take marks off machines that nobody is deleting: a crash or a failure left them."""
        for claim in tuple(self._mirror.claims()):
            if claim.deleting or is_true(claim.conditions, "InstanceTerminating"):
                continue
            if not self._marks.has(claim) or self._undertakings.takes(claim):
                continue
            nodes = self._mirror.nodes_of(claim.provider_id)
            if len(nodes) == 1 and not nodes[0].deleting:
                await self._marks.take(claim)

    async def _each(
        self, ones: Sequence[Candidate], act: Callable[[Candidate], Awaitable[None]]
    ) -> list[Candidate]:
        """Do something to all at once; return those with whom it worked, if any did."""
        results = await self._loop.together([act(one) for one in ones])
        failures = [one for one in results if isinstance(one, Exception)]
        if failures and len(failures) == len(ones):
            raise failures[0]
        for error in failures:
            self._log.error("disrupting node", error=str(error))
        return [
            one
            for one, result in zip(ones, results, strict=True)
            if not isinstance(result, Exception)
        ]

    def _promise(self, move: Move, going: Sequence[Candidate]) -> None:
        """See that nobody fills, or takes away, the nodes that pods are to go to."""
        now = self._loop.now()
        moving = {pod.uid for one in going for pod in one.reschedulable}
        for placement in move.placements:
            node = self._mirror.node(placement.node)
            claims = self._mirror.claims_of(node.provider_id) if node is not None else ()
            for claim in claims[:1]:
                self._promises.make(claim.name, [p for p in placement.pods if p.uid in moving])
                self._nominations.nominate(claim.provider_id, now)

    async def _buy(self, move: Move, why: Why) -> bool:
        """Write claims for all that is to come, each of which says what it is for."""
        wanted = [one.nodepool for one in move.replacements] + list(move.from_template)
        pools = [pool for name in wanted if (pool := self._mirror.pool(name)) is not None]
        if len(pools) < len(wanted):
            return False  # One was deleted just now, and its nodes go with it.
        names = [f"{pool}-{self._chance.letters(5)}" for pool in wanted]
        begun = undertaking([one.claim for one in move.removed], names).annotations()
        works = [
            self._create(_written(move, number, pool, name, begun), why)
            for number, (pool, name) in enumerate(zip(pools, names, strict=True))
        ]
        # Before any is written: the news of a claim must find its pods spoken for.
        for name, planned in zip(names, move.replacements, strict=False):
            self._promises.make(name, planned.pods)
        for error in await self._loop.together(works):
            if isinstance(error, Exception):
                # Those that were made are found to be too few, and what was begun ends.
                raise error
        return True

    async def _create(self, claim: NodeClaim, why: Why) -> None:
        await self._kube.create(NODE_CLAIMS, encode_node_claim(claim))
        self._log.info(
            "created nodeclaim",
            nodepool=claim.pool,
            nodeclaim=claim.name,
            requests=claim.requests.spelled(),
        )
        self._metrics.count(
            "karpenter_nodeclaims_created_total",
            reason=why.reason.lower(),
            nodepool=claim.pool,
            min_values_relaxed=claim.annotations.get(label_keys.MIN_VALUES_RELAXED, "false"),
        )


def _written(
    move: Move, number: int, pool: NodePool, name: str, begun: dict[str, str]
) -> NodeClaim:
    """Return one of the claims that a move makes; planned ones come first."""
    if number < len(move.replacements):
        claim = claim_for(move.replacements[number], pool, name=name)
    else:
        claim = claim_of_template(pool, name=name)
    return msgspec.structs.replace(claim, annotations=claim.annotations.with_items(begun))
