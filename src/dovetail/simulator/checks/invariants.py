"""What must hold after every event, whoever is killed when."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from dovetail.model import labels as label_keys
from dovetail.model.kube.resources import Resources, total
from dovetail.model.kube.taints import DISRUPTED
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES, PODS, Resource
from dovetail.ports.kube_client import Object
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.options import ListOptions
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import look
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.checks.pdb import broken_budgets
from dovetail.simulator.clock import Engine
from dovetail.simulator.ec2.account import VirtualEc2
from dovetail.simulator.ec2.billing import Purchase
from dovetail.simulator.kube_client import SimKube
from dovetail.simulator.workqueue import follow

ORPHAN_GRACE: Final = timedelta(minutes=3)
"""An instance without a claim is noticed by garbage collection within 30 s and two minutes."""

LOST_AFTER: Final = timedelta(minutes=2)
"""Pods of a vanished node are collected within forty seconds, and their grace passes."""

STUCK_AFTER: Final = timedelta(minutes=1)
"""A pod that is there so long after its end is not waited for any more."""


class Invariants:
    """Watches a cluster and notes what should never happen.

    - no claim gets two instances
    - no instance lives on without its claim
    - no NodePool exceeds its limits
    - no eviction breaks a PodDisruptionBudget, nor does a pod deleted without a deadline
    - no instance is given back with pods on it
    - no pod is lost: left behind on a node that is gone
    """

    def __init__(self, api: ApiServer, engine: Engine, ec2: VirtualEc2) -> None:
        self._api = api
        self._engine = engine
        self._ec2 = ec2
        self.violations: list[str] = []
        self._launches: dict[str, Purchase] = {}
        self._claims: dict[str, Object] = {}
        self._gone: dict[str, datetime] = {}
        """When a claim ceased to be, by its uid."""
        self._used: dict[str, dict[str, Resources]] = {}
        self._node_of: dict[str, str] = {}
        ec2.ledger.listeners.append(self._account_changed)
        follow(api, engine, NODE_CLAIMS, self._claim_changed)
        follow(api, engine, NODES, self._node_changed)

    def evicted(self, pod: Object) -> None:
        """Look at the budgets of a pod, as it was before somebody evicted it just now."""
        for broken in broken_budgets(self._api, pod):
            self._note(f"evicting pod {_key(pod)} breaks {broken}")

    def deleted(self, pod: Object) -> None:
        """Look at the budgets of a pod that was told to go without being asked.

        Those on a node with a deadline may be, when their grace leaves no more time.
        """
        node = look(pod, "spec", "nodeName")
        claims = [one for one in self._claims.values() if look(one, "status", "nodeName") == node]
        if any(_deadline(one) is not None for one in claims):
            return
        for broken in broken_budgets(self._api, pod):
            self._note(f"deleting pod {_key(pod)} breaks {broken}")

    def _account_changed(self, purchase: Purchase) -> None:
        if purchase.shutting_down is not None:
            self._given_back(purchase)
            return
        earlier = self._launches.get(purchase.claim_uid)
        if earlier is not None and earlier is not purchase:
            both = f"{earlier.provider_id} and {purchase.provider_id}"
            self._note(f"nodeclaim {purchase.claim} got two instances: {both}")
        self._launches[purchase.claim_uid] = purchase
        if purchase.claim:
            self._expect_owner(purchase)

    def _expect_owner(self, purchase: Purchase) -> None:
        """Look later whether an instance still lives without its claim."""
        self._engine.after(ORPHAN_GRACE, lambda: self._check_owner(purchase))

    def _check_owner(self, purchase: Purchase) -> None:
        uid = purchase.claim_uid
        if purchase.shutting_down is not None or uid in self._claims:
            return
        alone_since = max(purchase.launched, self._gone.get(uid, purchase.launched))
        if self._engine.now() >= alone_since + ORPHAN_GRACE:
            self._note(f"{purchase.provider_id} has no nodeclaim for over {ORPHAN_GRACE}")

    def _claim_changed(self, event: WatchEvent) -> None:
        claim = event.object
        uid, name = claim["metadata"]["uid"], claim["metadata"]["name"]
        pool = look(claim, "metadata", "labels", label_keys.NODEPOOL) or ""
        used = self._used.setdefault(pool, {})
        if event.type is EventType.DELETED:
            self._claims.pop(uid, None)
            self._gone[uid] = self._engine.now()
            used.pop(name, None)
            if uid in self._launches:
                self._expect_owner(self._launches[uid])
            return
        self._claims[uid] = claim
        capacity = look(claim, "status", "capacity")
        if claim["metadata"].get("deletionTimestamp"):
            used.pop(name, None)
        elif capacity and name not in used:
            used[name] = Resources.parse(capacity) + {"nodes": 1}
            self._check_limits(pool, used)

    def _check_limits(self, pool: str, used: Mapping[str, Resources]) -> None:
        limits = self._limits(pool)
        if limits is None:
            return
        spent = total(used.values())
        for name, most in limits.items():
            if spent.get(name, 0) > most:
                self._note(f"nodepool {pool} has {spent[name]} of {name}, its limit is {most}")

    def _limits(self, pool: str) -> Resources | None:
        try:
            found = look(self._api.get(NODE_POOLS, pool), "spec", "limits")
        except NotFound:
            return None
        return Resources.parse(found) if found else None

    def _node_changed(self, event: WatchEvent) -> None:
        node = event.object
        name = node["metadata"]["name"]
        if event.type is EventType.DELETED:
            self._engine.after(LOST_AFTER, lambda: self._check_left_behind(name))
            return
        provider = look(node, "spec", "providerID")
        if provider:
            self._node_of[provider] = name

    def _check_left_behind(self, node: str) -> None:
        """Look for pods on a node that is gone; one under the same name is another matter."""
        if self._node(node) is not None:
            return
        for pod in self._pods_on(node):
            self._note(f"pod {_key(pod)} is lost: {node} is gone")

    def _given_back(self, purchase: Purchase) -> None:
        name = self._node_of.get(purchase.provider_id)
        if name is None or purchase.provider_id in self._ec2.reclaimed:
            return  # It never joined, or EC2 took it without asking.
        node = self._node(name)
        if node is not None and look(node, "spec", "providerID") != purchase.provider_id:
            return  # Another machine has its name by now, and the pods are there.
        now = self._engine.now()
        deadline = _deadline(self._claims.get(purchase.claim_uid))
        if deadline is not None and deadline <= now:
            return  # Its pods were to go by then, whatever they said.
        for pod in self._pods_on(name):
            if _should_be_gone(pod, now):
                self._note(f"{name} was given back under pod {_key(pod)}")

    def _node(self, name: str) -> Object | None:
        try:
            return self._api.get(NODES, name)
        except NotFound:
            return None

    def _pods_on(self, node: str) -> Sequence[Object]:
        return self._api.list(PODS, ListOptions(fields=f"spec.nodeName={node}")).items

    def _note(self, what: str) -> None:
        self.violations.append(f"{self._engine.now():%H:%M:%S} {what}")


def _key(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _deadline(claim: Object | None) -> datetime | None:
    text = look(claim, "metadata", "annotations", label_keys.TERMINATION_TIMESTAMP)
    return None if text is None else datetime.fromisoformat(text)


def _should_be_gone(pod: Object, now: datetime) -> bool:
    if look(pod, "status", "phase") in ("Succeeded", "Failed"):
        return False
    ends = pod["metadata"].get("deletionTimestamp")
    if ends is not None and datetime.fromisoformat(ends) + STUCK_AFTER <= now:
        return False
    owners = pod["metadata"].get("ownerReferences") or ()
    if any(owner["kind"] == "Node" for owner in owners):
        return False
    return not any(_tolerates_disruption(one) for one in look(pod, "spec", "tolerations") or ())


def _tolerates_disruption(toleration: Mapping[str, Any]) -> bool:
    """Tell whether a toleration is for the taint, which has no value."""
    key, whatever = toleration.get("key", ""), toleration.get("operator") == "Exists"
    if toleration.get("effect", "") not in ("", "NoSchedule"):
        return False
    if not key:
        return whatever
    return key == DISRUPTED.key and (whatever or not toleration.get("value"))


class GuardedKube(SimKube):
    """The API as controllers use it; their evictions are looked at."""

    def __init__(self, api: ApiServer, invariants: Invariants) -> None:
        super().__init__(api)
        self._invariants = invariants

    async def evict(self, name: str, namespace: str, *, uid: str) -> None:
        pod = self._api.get(PODS, name, namespace)
        await super().evict(name, namespace, uid=uid)
        self._invariants.evicted(pod)

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_seconds: int | None = None,
    ) -> Object | None:
        pod = self._api.get(PODS, name, namespace) if resource is PODS else None
        left = await super().delete(resource, name, namespace, uid=uid, grace_seconds=grace_seconds)
        if pod is not None:
            self._invariants.deleted(pod)
        return left
