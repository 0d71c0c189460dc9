"""Buys nodes for pods that wait: gather, decide, write claims, tell."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from dovetail.codec.karpenter.nodeclaims import encode_node_claim
from dovetail.controllers.provisioning.batch_window import Batch, Windows
from dovetail.controllers.provisioning.events import Verdicts, some_of
from dovetail.controllers.runtime.manager import SINGLETON, Registration, Requeue
from dovetail.controllers.scheduling_snapshot import Scene
from dovetail.core.provisioning import (
    claim_for,
    is_provisionable,
    is_usable,
    may_move,
    named,
)
from dovetail.core.scheduling.solver import solve
from dovetail.model.karpenter.capacitybuffer import is_virtual
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.pod import Pod
from dovetail.model.node import Node
from dovetail.model.plan import ExistingPlacement, Plan, PlannedNode
from dovetail.model.settings import SchedulingSettings
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, PODS
from dovetail.ports.cloudprovider import Cloud
from dovetail.ports.event_loop import Loop
from dovetail.ports.executor import Offload
from dovetail.ports.kube_client import Kube
from dovetail.ports.randomness import Chance
from dovetail.ports.telemetry import Events, Log, Metrics
from dovetail.state.capacitybuffers import Buffers
from dovetail.state.cluster.cache import Change, Mirror
from dovetail.state.nodes.disruption_taint import is_only_marked
from dovetail.state.nodes.nominations import Nominations
from dovetail.state.pods.assignments import Promises
from dovetail.state.pods.scheduling_latency import Decisions

AGAIN: Final = timedelta(seconds=10)
"""How long pods that got no node wait until they are looked at again."""
_UNSYNCED: Final = Requeue(timedelta(seconds=1))
_DEFAULTS: Final = SchedulingSettings()
_WINDOWS: Final = Windows()


class Provisioning:
    """One decision at a time, for all pods that wait."""

    def __init__(
        self,
        *,
        mirror: Mirror,
        promises: Promises,
        nominations: Nominations,
        kube: Kube,
        cloud: Cloud,
        loop: Loop,
        offload: Offload,
        chance: Chance,
        log: Log,
        events: Events,
        metrics: Metrics,
        settings: SchedulingSettings = _DEFAULTS,
        windows: Windows = _WINDOWS,
        buffers: Buffers | None = None,
    ) -> None:
        self._buffers = buffers or Buffers()
        self._mirror = mirror
        self._promises = promises
        self._nominations = nominations
        self._scene = Scene(mirror=mirror, promises=promises, cloud=cloud, buffers=self._buffers)
        self._kube = kube
        self._loop = loop
        self._offload = offload
        self._chance = chance
        self._log = log
        self._verdicts = Verdicts(clock=loop, log=log, events=events)
        self._metrics = metrics
        self._settings = settings
        self._batch = Batch(windows)
        self._decisions = Decisions()

    def registration(self) -> Registration:
        """Return the provisioner, told of pods, of pools, and of claims that go."""
        return Registration(
            name="provisioner",
            controller=self,
            watches=(
                (PODS, self.on_pod),
                (NODE_CLAIMS, self.on_claim),
                (NODE_POOLS, self.on_pool),
            ),
            sources=(self._heed_buffers,),
        )

    def _heed_buffers(self, ask: Callable[[str], None]) -> None:
        def look() -> None:
            self._batch.add("buffers", self._loop.now())
            ask(SINGLETON)

        self._buffers.on_wanted(look)

    def on_pod(self, change: Change) -> Iterable[str]:
        """Let a pod that waits join the batch, and those whose place another has taken."""
        old, pod = change.old, change.new
        if pod is None:
            self._decisions.forget(old.uid)
            return
        asking = [pod] if is_provisionable(pod) and not self._promises.holds(pod) else []
        if pod.node_name and (old is None or not old.node_name):
            asking = self._promises.crowded_out(pod.node_name)
        now = self._loop.now()
        for one in asking:
            self._decisions.asked(one.uid, now)
            self._batch.add(one.uid, now)
            yield SINGLETON

    def on_claim(self, change: Change) -> Iterable[str]:
        """Look for room as soon as a claim begins to go, or is gone."""
        old, new = change.old, change.new
        if old is None or old.deleting or not (new is None or new.deleting):
            return
        # Its pods have been through a window before, and a machine that the cloud takes
        # back is gone in two minutes: what replaces it must be on its way by then.
        self._batch.hurry(old.name, self._loop.now())
        yield SINGLETON

    def on_pool(self, change: Change) -> Iterable[str]:
        """Look again when a pool may buy that could not, or may buy other things."""
        old, new = change.old, change.new
        if new is None or not is_usable(new):
            return
        if old is None or not is_usable(old) or old.generation != new.generation:
            if any(self._scene.waiting()):
                self._batch.add(new.name, self._loop.now())
                yield SINGLETON

    async def reconcile(self, _: str) -> Requeue | None:
        """Decide once the window has closed."""
        # Observe: one instant, one picture.
        now = self._loop.now()
        closes = self._batch.closes_at()
        if closes is not None and closes > now:
            return Requeue(closes - now)
        self._keep_promises(now)
        pods = sorted(self._scene.waiting(), key=lambda pod: pod.key)
        if closes is None:
            self._join(pods, now)
            closes = self._batch.closes_at()
            if closes is None:
                return Requeue(AGAIN) if self._promises else None
            return Requeue(closes - now)
        if not self._mirror.synced():
            return _UNSYNCED
        self._batch.close()
        snapshot = self._scene.snapshot(now)
        pools = {pool.name: pool for pool in snapshot.node_pools}

        # Decide: pure, and away from the loop.
        if pods:
            self._log.info("found provisionable pod(s)", pods=some_of(pods))
        plan = await self._offload.run(lambda: solve(snapshot, self._settings))

        # Act. First what takes no time, so that it is true when something else happens.
        self._buffers.placed(plan.existing, snapshot.pending)
        self._use_existing(plan.existing, {node.name: node for node in snapshot.nodes})
        failures = await self._create(plan.nodes, pools)

        # Tell.
        self._verdicts.unplaced([one for one in plan.unplaced if not is_virtual(one.pod)])
        self._measure(pods, plan, since=now)
        if failures:
            # What was made is in the mirror; the rest is planned again.
            raise failures[0]
        return Requeue(AGAIN)

    def _keep_promises(self, now: datetime) -> None:
        """End those that are void; see that nobody takes away the nodes of the others."""
        self._promises.lapse(now)
        for claim in map(self._mirror.claim, self._promises.claims()):
            if claim is not None and claim.provider_id:
                self._nominations.nominate(claim.provider_id, now)

    def _join(self, waiting: Sequence[Pod], now: datetime) -> None:
        """Open a window for all who need a place."""
        for pod in waiting:
            self._decisions.asked(pod.uid, now)
            self._batch.add(pod.uid, now)
        for node in self._mirror.joined_nodes():
            if not node.deleting or is_only_marked(node, self._mirror):
                continue
            if any(may_move(pod) and not self._promises.holds(pod) for pod in node.pods):
                self._batch.add(node.claim or node.name, now)

    async def _create(
        self, planned: Sequence[PlannedNode], pools: dict[str, NodePool]
    ) -> list[Exception]:
        """Write claims, and return why some could not be written."""
        if not planned:
            return []
        self._log.info(
            "computed new nodeclaim(s) to fit pod(s)",
            nodeclaims=len(planned),
            pods=sum(len(node.pods) for node in planned),
        )
        results = await self._loop.together(
            [self._create_one(node, pools[node.nodepool]) for node in planned]
        )
        return [one for one in results if isinstance(one, Exception)]

    async def _create_one(self, node: PlannedNode, pool: NodePool) -> None:
        name = f"{pool.name}-{self._chance.letters(5)}"
        claim = claim_for(node, pool, name=name)
        # Before it is written: the news of the claim must find its pods spoken for.
        self._promises.make(name, node.pods)
        await self._kube.create(NODE_CLAIMS, encode_node_claim(claim))
        self._log.info(
            "created nodeclaim",
            nodepool=pool.name,
            nodeclaim=name,
            requests=claim.requests.spelled(),
            instance_types=named(one.name for one in node.instance_types),
        )
        self._metrics.count(
            "karpenter_nodeclaims_created_total",
            reason="provisioned",
            nodepool=pool.name,
            min_values_relaxed=str(node.min_values_relaxed).lower(),
        )
        for pod in _real(node.pods):
            self._verdicts.placed(pod, f"nodeclaim/{name}")

    def _use_existing(
        self, placements: Sequence[ExistingPlacement], nodes: Mapping[str, Node]
    ) -> None:
        """Remember where pods are expected, so that nobody takes those nodes away."""
        now = self._loop.now()
        unready = []
        for placement in placements:
            node, pods = nodes[placement.node], _real(placement.pods)
            if not pods:
                continue  # Room for buffers is kept without holding on to nodes.
            if node.claim and not node.initialized:
                self._promises.make(node.claim, placement.pods)
                unready.append(placement)
            self._nominations.nominate(node.provider_id or node.name, now)
            for pod in pods:
                self._verdicts.placed(pod, f"node/{placement.node}")
        if unready:
            self._log.info(
                "computed unready node(s) will fit pod(s)",
                nodes=len(unready),
                pods=sum(len(one.pods) for one in unready),
            )

    def _measure(self, pods: Sequence[Pod], plan: Plan, *, since: datetime) -> None:
        now = self._loop.now()
        waiting = {pod.uid for pod in pods}
        failed = sum(one.pod.uid in waiting for one in plan.unplaced)
        self._metrics.gauge("karpenter_scheduler_queue_depth", len(pods), controller="provisioner")
        self._metrics.gauge(
            "karpenter_scheduler_unschedulable_pods_count", failed, controller="provisioner"
        )
        self._metrics.observe(
            "karpenter_scheduler_scheduling_duration_seconds",
            (now - since).total_seconds(),
            controller="provisioner",
        )
        for pod in pods:
            took = self._decisions.decided(pod.uid, now)
            if took is not None:
                self._metrics.observe(
                    "karpenter_pods_scheduling_decision_duration_seconds", took.total_seconds()
                )


def _real(pods: Iterable[Pod]) -> list[Pod]:
    """Leave out pods that only stand for room: nobody can be told anything of them."""
    return [pod for pod in pods if not is_virtual(pod)]
