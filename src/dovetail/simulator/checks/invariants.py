"""Invariants that hold at every instant, even if the operator crashes."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from dovetail.model import labels as label_keys
from dovetail.model.kube.resources import Resources, sum_resources
from dovetail.model.kube.taints import DISRUPTED_TAINT
from dovetail.ports.api_resources import (
    NODE_CLAIMS,
    NODE_POOLS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    Resource,
)
from dovetail.ports.kube_client import Object
from dovetail.simulator.apiserver.interface import find_object
from dovetail.simulator.apiserver.options import ListOptions
from dovetail.simulator.apiserver.pdb import is_healthy
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import get_field
from dovetail.simulator.apiserver.storage.selectors import decode_label_selector, labels_match
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.controllermanager.deployment.rollout import scaled_value
from dovetail.simulator.ec2.account import Ec2Account
from dovetail.simulator.ec2.billing import LaunchRecord
from dovetail.simulator.kube_client import SimulatedKubeClient
from dovetail.simulator.workqueue import start_watch

ORPHAN_GRACE: Final = timedelta(minutes=3)
"""Garbage collection deletes an instance without a claim within 2 min 30 s."""

LOST_AFTER: Final = timedelta(minutes=2)
"""Pods of a deleted node are collected within 40 s plus their grace period."""

STUCK_AFTER: Final = timedelta(minutes=1)
"""A drain no longer waits for a pod this long after its deletion timestamp."""


class Invariants:
    """Watches a cluster and records violations.

    - no NodeClaim gets two instances
    - no instance outlives its NodeClaim
    - no NodePool exceeds its limits, apart from nodes that are being replaced and NodeClaims
      that are being deleted
    - no eviction violates a PodDisruptionBudget, nor does a deletion without a deadline
    - no instance is terminated with pods on it
    - no pod is left behind on a deleted node
    """

    def __init__(self, api: ApiServer, clock: VirtualClock, ec2: Ec2Account) -> None:
        self._api = api
        self._clock = clock
        self._ec2 = ec2
        self.violations: list[str] = []
        self._launches: dict[str, LaunchRecord] = {}
        self._claims: dict[str, Object] = {}
        self._deleted_at: dict[str, datetime] = {}
        """NodeClaim UID → when it was deleted."""
        self._used: dict[str, dict[str, Resources]] = {}
        self._node_of: dict[str, str] = {}
        ec2.billing.listeners.append(self._billing_changed)
        start_watch(api, clock, NODE_CLAIMS, self._claim_changed)
        start_watch(api, clock, NODES, self._node_changed)

    def check_eviction(self, pod: Object) -> None:
        """Check the PodDisruptionBudgets of a pod, as it was before its eviction."""
        for violation in find_violated_budgets(self._api, pod):
            self._record(f"eviction of pod {_pod_name(pod)} violates {violation}")

    def check_deletion(self, pod: Object) -> None:
        """Check the PodDisruptionBudgets of a pod that was deleted, not evicted.

        That is allowed on a node with a termination deadline, when the pod's grace period
        leaves no more time.
        """
        node = get_field(pod, "spec", "nodeName")
        claims = [claim for claim in self._claims.values() if get_field(claim, "status", "nodeName") == node]
        if any(_deadline(claim) is not None for claim in claims):
            return
        for violation in find_violated_budgets(self._api, pod):
            self._record(f"deletion of pod {_pod_name(pod)} violates {violation}")

    def _billing_changed(self, launch: LaunchRecord) -> None:
        if launch.shutting_down is not None:
            self._check_termination(launch)
            return
        earlier = self._launches.get(launch.claim_uid)
        if earlier is not None and earlier is not launch:
            provider_ids = f"{earlier.provider_id} and {launch.provider_id}"
            self._record(f"nodeclaim {launch.claim} got two instances: {provider_ids}")
        self._launches[launch.claim_uid] = launch
        if launch.claim:
            self._schedule_orphan_check(launch)

    def _schedule_orphan_check(self, launch: LaunchRecord) -> None:
        """Check later that the instance does not outlive its claim."""
        self._clock.call_later(ORPHAN_GRACE, lambda: self._check_orphan(launch))

    def _check_orphan(self, launch: LaunchRecord) -> None:
        uid = launch.claim_uid
        if launch.shutting_down is not None and uid not in self._claims:
            self._launches.pop(uid, None)  # Both have ended; a month has thousands of them.
            self._deleted_at.pop(uid, None)
        if launch.shutting_down is not None or uid in self._claims:
            return
        orphaned_since = max(launch.launched, self._deleted_at.get(uid, launch.launched))
        if self._clock.now() >= orphaned_since + ORPHAN_GRACE:
            self._record(f"{launch.provider_id} has no nodeclaim for over {ORPHAN_GRACE}")

    def _claim_changed(self, event: WatchEvent) -> None:
        claim = event.object
        uid, name = claim["metadata"]["uid"], claim["metadata"]["name"]
        pool = get_field(claim, "metadata", "labels", label_keys.NODEPOOL) or ""
        used = self._used.setdefault(pool, {})
        if event.type is EventType.DELETED:
            self._claims.pop(uid, None)
            self._deleted_at[uid] = self._clock.now()
            used.pop(name, None)
            if uid in self._launches:
                self._schedule_orphan_check(self._launches[uid])
            return
        self._claims[uid] = claim
        capacity = get_field(claim, "status", "capacity")
        if claim["metadata"].get("deletionTimestamp"):
            used.pop(name, None)
        elif capacity and name not in used:
            used[name] = Resources.parse(capacity) + {"nodes": 1}
            self._check_limits(pool, used)

    def _check_limits(self, pool: str, used: Mapping[str, Resources]) -> None:
        limits = get_field(find_object(self._api, NODE_POOLS, pool), "spec", "limits")
        if not limits:
            return
        ending = {claim["metadata"]["name"] for claim in self._claims.values() if self._is_ending(claim)}
        used_total = sum_resources(amount for name, amount in used.items() if name not in ending)
        for name, limit in Resources.parse(limits).items():
            if used_total.get(name, 0) > limit:
                self._record(f"nodepool {pool} has {used_total[name]} of {name}, its limit is {limit}")

    def _is_ending(self, claim: Object) -> bool:
        """Return True if the node of a claim is being replaced.

        Its replacement may exceed the limits, as in Karpenter: the old node is freed later.
        A Node that is deleted counts until its NodeClaim is deleted, too.
        """
        name = get_field(claim, "status", "nodeName")
        node = find_object(self._api, NODES, name) if name else None
        if node is None:
            return False
        taints = get_field(node, "spec", "taints") or ()
        return any(taint["key"] == DISRUPTED_TAINT.key for taint in taints)

    def _node_changed(self, event: WatchEvent) -> None:
        node = event.object
        name = node["metadata"]["name"]
        if event.type is EventType.DELETED:
            self._clock.call_later(LOST_AFTER, lambda: self._check_pods_left_behind(name))
            return
        provider = get_field(node, "spec", "providerID")
        if provider:
            self._node_of[provider] = name

    def _check_pods_left_behind(self, node: str) -> None:
        """Check for pods on a deleted node, unless a node of that name exists again."""
        if find_object(self._api, NODES, node) is not None:
            return
        for pod in self._pods_on(node):
            self._record(f"pod {_pod_name(pod)} is left behind: {node} is deleted")

    def _check_termination(self, launch: LaunchRecord) -> None:
        name = self._node_of.pop(launch.provider_id, None)
        if name is None or launch.provider_id in self._ec2.reclaimed:
            return  # It never registered, or EC2 reclaimed it.
        node = find_object(self._api, NODES, name)
        if node is not None and get_field(node, "spec", "providerID") != launch.provider_id:
            return  # Another instance has its name by now, and the pods run there.
        now = self._clock.now()
        deadline = _deadline(self._claims.get(launch.claim_uid))
        if deadline is not None and deadline <= now:
            return  # Past the deadline, pods are not waited for.
        for pod in self._pods_on(name):
            if _should_be_drained(pod, now):
                self._record(f"{name} was terminated with pod {_pod_name(pod)} on it")

    def _pods_on(self, node: str) -> Sequence[Object]:
        return self._api.list(PODS, ListOptions(field_selector=f"spec.nodeName={node}")).items

    def _record(self, message: str) -> None:
        self.violations.append(f"{self._clock.now():%H:%M:%S} {message}")


def _pod_name(pod: Object) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _deadline(claim: Object | None) -> datetime | None:
    text = get_field(claim, "metadata", "annotations", label_keys.TERMINATION_TIMESTAMP)
    return None if text is None else datetime.fromisoformat(text)


def _should_be_drained(pod: Object, now: datetime) -> bool:
    if get_field(pod, "status", "phase") in ("Succeeded", "Failed"):
        return False
    ends = pod["metadata"].get("deletionTimestamp")
    if ends is not None and datetime.fromisoformat(ends) + STUCK_AFTER <= now:
        return False
    owners = pod["metadata"].get("ownerReferences") or ()
    if any(owner["kind"] == "Node" for owner in owners):
        return False
    return not any(
        _tolerates_disruption(toleration) for toleration in get_field(pod, "spec", "tolerations") or ()
    )


def _tolerates_disruption(toleration: Mapping[str, Any]) -> bool:
    """Return True if a toleration matches the disrupted taint, which has no value."""
    key, exists = toleration.get("key", ""), toleration.get("operator") == "Exists"
    if toleration.get("effect", "") not in ("", "NoSchedule"):
        return False
    if not key:
        return exists
    return key == DISRUPTED_TAINT.key and (exists or not toleration.get("value"))


def find_violated_budgets(api: ApiServer, pod: Object) -> Iterator[str]:
    """Yield the budgets that have too few healthy pods after an eviction.

    ``pod`` is as it was before: one that was not ready or was terminating does not count.
    """
    if not is_healthy(pod):
        return
    namespace = pod["metadata"]["namespace"]
    in_namespace = ListOptions(namespace=namespace)
    for budget in api.list(POD_DISRUPTION_BUDGETS, in_namespace).items:
        if not _covers(budget, pod):
            continue
        pods = [
            covered_pod for covered_pod in api.list(PODS, in_namespace).items if _covers(budget, covered_pod)
        ]
        healthy, min_healthy = sum(map(is_healthy, pods)), _min_healthy(budget)
        if healthy < min_healthy:
            budget_name = budget["metadata"]["name"]
            yield f"budget {namespace}/{budget_name}: {healthy} healthy, {min_healthy} required"


def _covers(budget: Object, pod: Object) -> bool:
    selector = get_field(budget, "spec", "selector")
    labels = pod["metadata"].get("labels") or {}
    return selector is not None and labels_match(decode_label_selector(selector), labels)


def _min_healthy(budget: Object) -> int:
    """Return how many pods must stay healthy, of the number that the budget expects."""
    expected = get_field(budget, "status", "expectedPods") or 0
    spec = budget["spec"]
    if "maxUnavailable" in spec:
        return max(0, expected - scaled_value(spec["maxUnavailable"], expected, up=True, default=0))
    return scaled_value(spec.get("minAvailable"), expected, up=True, default=0)


class CheckedKubeClient(SimulatedKubeClient):
    """KubeClient of the operator; checks its evictions and pod deletions."""

    def __init__(self, api: ApiServer, invariants: Invariants) -> None:
        super().__init__(api)
        self._invariants = invariants

    async def evict(self, name: str, namespace: str, *, uid: str) -> None:
        pod = self._api.get(PODS, name, namespace)
        await super().evict(name, namespace, uid=uid)
        self._invariants.check_eviction(pod)

    async def delete(
        self, resource: Resource, name: str, namespace: str = "", **options: Any
    ) -> Object | None:
        pod = self._api.get(PODS, name, namespace) if resource is PODS else None
        remaining = await super().delete(resource, name, namespace, **options)
        if pod is not None:
            self._invariants.check_deletion(pod)
        return remaining
