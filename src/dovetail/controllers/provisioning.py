"""Buys nodes for pods that wait: gather, decide, write claims, tell."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final

from dovetail.codec.nodeclaims import encode_node_claim
from dovetail.controllers.batching import Batch, Windows
from dovetail.controllers.runtime import SINGLETON, Registration, Requeue
from dovetail.core.hashing import HASH_VERSION
from dovetail.core.provisioning import claim_for, is_provisionable, named, usable, why_not
from dovetail.core.scheduling.solve import solve
from dovetail.model.catalog import InstanceType
from dovetail.model.nodepool import NodePool
from dovetail.model.plan import ExistingPlacement, PlannedNode, Unplaced
from dovetail.model.pods import Pod
from dovetail.model.settings import SchedulingSettings
from dovetail.ports.chance import Chance
from dovetail.ports.cloud import Cloud
from dovetail.ports.kube import Kube
from dovetail.ports.loop import Loop
from dovetail.ports.offload import Offload
from dovetail.ports.resources import NODE_CLAIMS, PODS
from dovetail.ports.telemetry import Events, Log, Metrics
from dovetail.state.mirror import Change, Mirror
from dovetail.state.nominations import Nominations
from dovetail.state.picture import Picture
from dovetail.state.promises import Promises

AGAIN: Final = timedelta(seconds=10)
"""How long pods that got no node wait until they are looked at again."""
_UNSYNCED: Final = Requeue(timedelta(seconds=1))
_FAILED_DEDUPE: Final = timedelta(minutes=5)
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
    ) -> None:
        self._mirror = mirror
        self._promises = promises
        self._nominations = nominations
        self._picture = Picture(mirror, promises)
        self._kube = kube
        self._cloud = cloud
        self._loop = loop
        self._offload = offload
        self._chance = chance
        self._log = log
        self._events = events
        self._metrics = metrics
        self._settings = settings
        self._batch = Batch(windows)

    def registration(self) -> Registration:
        """Have it told of pods that wait and of claims that go."""
        return Registration(
            name="provisioner",
            controller=self,
            watches=((PODS, self.on_pod), (NODE_CLAIMS, self.on_claim)),
        )

    def on_pod(self, change: Change) -> Iterable[str]:
        """Let a pod that waits join the batch."""
        pod = change.new
        if pod is not None and is_provisionable(pod) and not self._promises.holds(pod):
            self._batch.add(pod.uid, self._loop.now())
            yield SINGLETON

    def on_claim(self, change: Change) -> Iterable[str]:
        """Look for room as soon as a claim begins to go, or is gone with pods promised to it."""
        old, new = change.old, change.new
        if old is not None and not old.deleting and (new is None or new.deleting):
            self._batch.add(change.either.name, self._loop.now())
            yield SINGLETON

    async def reconcile(self, _: str) -> Requeue | None:
        """Decide once the window has closed."""
        # Observe: one instant, one picture.
        now = self._loop.now()
        self._promises.lapse(now)
        pods = self._join(now)
        closes = self._batch.closes_at()
        if closes is None:
            return Requeue(AGAIN) if self._promises else None
        if closes > now:
            return Requeue(closes - now)
        if not self._mirror.synced():
            return _UNSYNCED
        self._batch.close()
        pools, types = self._shops()
        snapshot = self._picture.snapshot(now, pending=pods, pools=pools.values(), types=types)

        # Decide: pure, and away from the loop.
        if pods:
            self._log.info("found provisionable pod(s)", pods=_some(pods))
        plan = await self._offload.run(lambda: solve(snapshot, self._settings))

        # Act.
        await self._create(plan.nodes, pools)

        # Tell.
        self._use_existing(plan.existing)
        self._tell_unplaced(plan.unplaced)
        self._metrics.gauge("karpenter_scheduler_unschedulable_pods_count", len(plan.unplaced))
        return Requeue(AGAIN)

    def _join(self, now: datetime) -> list[Pod]:
        """Let all who need a place join the batch; return the pods that wait for one."""
        pods = self._waiting()
        for pod in pods:
            self._batch.add(pod.uid, now)
        for node in self._mirror.joined_nodes():
            if node.deleting and node.pods:
                self._batch.add(node.claim or node.name, now)
        return pods

    def _shops(self) -> tuple[dict[str, NodePool], dict[str, tuple[InstanceType, ...]]]:
        """Return the pools that can buy, and what each could."""
        pools = usable(self._mirror.pools())
        types = {pool.name: self._cloud.instance_types(pool) for pool in pools}
        types = {name: found for name, found in types.items() if found}
        return {pool.name: pool for pool in pools if pool.name in types}, types

    def _waiting(self) -> list[Pod]:
        waiting = [
            pod
            for pod in self._mirror.unbound_pods()
            if is_provisionable(pod) and not self._promises.holds(pod)
        ]
        return sorted(waiting, key=lambda pod: pod.key)

    async def _create(self, planned: Sequence[PlannedNode], pools: dict[str, NodePool]) -> None:
        if not planned:
            return
        self._log.info(
            "computed new nodeclaim(s) to fit pod(s)",
            nodeclaims=len(planned),
            pods=sum(len(node.pods) for node in planned),
        )
        results = await self._loop.together(
            [self._create_one(node, pools[node.nodepool]) for node in planned]
        )
        for failure in results:
            if isinstance(failure, Exception):
                # What was made is in the mirror; the rest is planned again.
                raise failure

    async def _create_one(self, node: PlannedNode, pool: NodePool) -> None:
        name = f"{pool.name}-{self._chance.letters(5)}"
        claim = claim_for(node, pool, name=name, hash_version=HASH_VERSION)
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
        for pod in node.pods:
            self._nominate(pod, f"nodeclaim/{name}")

    def _use_existing(self, placements: Sequence[ExistingPlacement]) -> None:
        """Remember where pods are expected, so that nobody takes those nodes away."""
        now = self._loop.now()
        nodes = {node.name: node for node in self._picture.nodes({})}
        unready = []
        for placement in placements:
            node = nodes[placement.node]
            if node.claim and not node.initialized:
                self._promises.make(node.claim, placement.pods)
                unready.append(placement)
            else:
                self._nominations.nominate(node.provider_id or node.name, now)
            for pod in placement.pods:
                self._nominate(pod, f"node/{placement.node}")
        for claim in map(self._mirror.claim, self._promises.claims()):
            if claim is not None and claim.provider_id:
                self._nominations.nominate(claim.provider_id, now)
        if unready:
            self._log.info(
                "computed unready node(s) will fit pod(s)",
                nodes=len(unready),
                pods=sum(len(one.pods) for one in unready),
            )

    def _nominate(self, pod: Pod, target: str) -> None:
        self._events.publish(
            PODS,
            pod.name,
            namespace=pod.namespace,
            uid=pod.uid,
            reason="Nominated",
            message=f"Pod should schedule on: {target}",
            same=(pod.uid,),
        )

    def _tell_unplaced(self, unplaced: Sequence[Unplaced]) -> None:
        for one in unplaced:
            message = why_not(one)
            self._log.error("could not schedule pod", pod=one.pod.key, error=message)
            self._events.publish(
                PODS,
                one.pod.name,
                namespace=one.pod.namespace,
                uid=one.pod.uid,
                reason="FailedScheduling",
                message=message,
                warning=True,
                dedupe=_FAILED_DEDUPE,
            )


def _some(pods: Sequence[Pod], most: int = 5) -> str:
    more = len(pods) - most
    return ", ".join(pod.key for pod in pods[:most]) + (f" and {more} other(s)" if more > 0 else "")
