"""Checks of account and cluster that must hold however often the process is killed."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, PODS
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.workqueue import start_watch
from tests.support.chaos.account import AwsAccount
from tests.support.chaos.ec2 import Ec2Instance, Fleet

INTERVAL = timedelta(seconds=10)
MAX_ORPHAN_AGE = timedelta(minutes=5)
"""Twice what garbage collection needs without faults: every 2 min, from the age of 30 s on."""
MAX_UNREADY = timedelta(minutes=5)
"""Of a node class, from its creation or since it was ready."""
MAX_UNLAUNCHED = timedelta(minutes=6)
"""Of a NodeClaim: the launch timeout, and a minute to delete it."""
MAX_LEFTOVER = timedelta(minutes=5)
"""Of instance profiles and launch templates after their node class is gone."""
_CLASS_TAG = "karpenter.k8s.aws/ec2nodeclass"
_CLAIM_LIST = "dovetail.sh/nodeclaims-"


class Durations:
    """Durations of a condition by key, ended and current."""

    def __init__(self, limit: timedelta) -> None:
        self.limit = limit
        self._since: dict[str, datetime] = {}
        self._reported: set[str] = set()
        self.finished: list[timedelta] = []

    def update(self, keys: Iterable[str], now: datetime) -> list[str]:
        """Record which keys meet the condition now; return those beyond the limit, once."""
        current = set(keys)
        for key in self._since.keys() - current:
            self.finished.append(now - self._since.pop(key))
        for key in current:
            self._since.setdefault(key, now)
        late = [key for key, since in self._since.items() if now - since > self.limit]
        new = [key for key in late if key not in self._reported]
        self._reported.update(new)
        return new

    def durations(self, now: datetime) -> list[timedelta]:
        """Return all durations, with those that have not ended."""
        return [*self.finished, *(now - since for since in self._since.values())]


class Checks:
    """Checks every launch, and every ten seconds the state of account and cluster."""

    def __init__(self, clock: VirtualClock, api: ApiServer, account: AwsAccount) -> None:
        self._clock = clock
        self._api = api
        self._account = account
        self.violations: list[str] = []
        self.launches: Counter[str] = Counter()
        """NodeClaim (name and hash of its UID) → instances launched for it."""
        self.orphans = Durations(MAX_ORPHAN_AGE)
        self.unready = Durations(MAX_UNREADY)
        self.unlaunched = Durations(MAX_UNLAUNCHED)
        self.leftovers = Durations(MAX_LEFTOVER)
        self._pods: dict[str, datetime] = {}
        """UID of a pod that is not bound → creation."""
        self._instances_by_node: dict[str, Ec2Instance] = {}
        self.pending: list[timedelta] = []
        """From the creation of a pod to its binding."""
        self.waited_for_launch: list[timedelta] = []
        """From the creation of a pod to the launch of its instance, if that came later."""
        account.ec2.on_launch = self._check_fleet
        start_watch(api, clock, PODS, self._handle_pod)
        self._schedule()

    @property
    def duplicates(self) -> int:
        """Instances beyond the first of a NodeClaim."""
        return sum(count - 1 for count in self.launches.values())

    def expect_none(self, what: str, names: list[str]) -> None:
        """Report what should not be there."""
        if names:
            self._report(f"{what}: {', '.join(sorted(names))}")

    def _report(self, text: str) -> None:
        self.violations.append(f"{self._clock.now():%H:%M:%S} {text}")

    def _schedule(self) -> None:
        self._clock.call_later(INTERVAL, self._run)

    def _run(self) -> None:
        self.check()
        self._schedule()

    def _check_fleet(self, fleet: Fleet) -> None:
        claims = listed_claims(fleet.instances[0].tags)
        if len(fleet.instances) > len(claims):
            self._report(f"{len(fleet.instances)} instances for {len(claims)} nodeclaims")
        instances = sorted(fleet.instances, key=lambda instance: instance.id)
        for instance, claim in zip(instances, claims, strict=False):
            self._instances_by_node[instance.dns_name] = instance
            self.launches[claim] += 1
            if self.launches[claim] > 1:
                self._report(f"nodeclaim {claim} got another instance, {instance.id}")

    def check(self) -> None:
        """Check everything now."""
        now = self._clock.now()
        claims = [_Claim(claim) for claim in self._api.list(NODE_CLAIMS).items]
        shared = Counter(claim.provider_id for claim in claims if claim.provider_id)
        for provider_id, count in shared.items():
            if count > 1:
                self._report(f"{count} nodeclaims have {provider_id}")
        awaiting = {claim.key for claim in claims if not claim.provider_id}
        orphans = [
            instance.id
            for instance in self._account.ec2.alive()
            if instance.provider_id not in shared and not awaiting & set(listed_claims(instance.tags))
        ]
        for instance_id in self.orphans.update(orphans, now):
            self._report(f"instance {instance_id} has no nodeclaim for {MAX_ORPHAN_AGE}")
        unlaunched = [claim.key for claim in claims if not claim.provider_id]
        for key in self.unlaunched.update(unlaunched, now):
            self._report(f"nodeclaim {key} has no instance for {MAX_UNLAUNCHED}")
        self._check_classes(now)

    def _check_classes(self, now: datetime) -> None:
        classes = self._api.list(EC2_NODE_CLASSES).items
        unready = [_name(entry) for entry in classes if not _is_deleting(entry) and not is_ready(entry)]
        for name in self.unready.update(unready, now):
            entry = next(entry for entry in classes if _name(entry) == name)
            conditions = (entry.get("status") or {}).get("conditions") or ()
            problems = [
                f"{condition['type']}: {condition.get('reason')}: {condition.get('message')}"
                for condition in conditions
                if condition["status"] != "True"
            ]
            self._report(f"node class {name} is not ready for {MAX_UNREADY}: {'; '.join(problems)}")
        uids = {entry["metadata"]["uid"] for entry in classes}
        names = {_name(entry) for entry in classes}
        leftovers = [
            f"instance profile {profile.name}"
            for profile in self._account.profiles.values()
            if profile.path.split("/")[-2] not in uids
        ]
        leftovers += [
            f"launch template {template.name} of {template.tags[_CLASS_TAG]}"
            for template in self._account.ec2.templates.values()
            if template.tags[_CLASS_TAG] not in names
        ]
        for leftover in self.leftovers.update(leftovers, now):
            self._report(f"{leftover} is left for {MAX_LEFTOVER}")

    def _handle_pod(self, event: WatchEvent) -> None:
        uid, node = event.object["metadata"]["uid"], event.object["spec"].get("nodeName")
        if event.type is EventType.DELETED:
            self._pods.pop(uid, None)
        elif not node:
            self._pods.setdefault(uid, self._clock.now())
        elif (created := self._pods.pop(uid, None)) is not None:
            self.pending.append(self._clock.now() - created)
            instance = self._instances_by_node.get(node)
            if instance is not None and instance.launched > created:
                self.waited_for_launch.append(instance.launched - created)


class _Claim:
    def __init__(self, obj: Any) -> None:
        uid_hash = sha256(obj["metadata"]["uid"].encode()).hexdigest()[:6]
        self.key = f"{obj['metadata']['name']}={uid_hash}"
        self.provider_id: str = (obj.get("status") or {}).get("providerID", "")


def listed_claims(tags: dict[str, str]) -> list[str]:
    """Return the NodeClaims that an instance was launched for, as its tags list them."""
    claims = []
    for number in range(len(tags)):
        prefix, *entries = tags.get(f"{_CLAIM_LIST}{number}", "").split("/")
        claims += [prefix + entry for entry in entries]
    return claims


def is_ready(obj: Any) -> bool:
    """Return True if the condition Ready of an object is True."""
    conditions = (obj.get("status") or {}).get("conditions") or ()
    return any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)


def _name(obj: Any) -> str:
    name: str = obj["metadata"]["name"]
    return name


def _is_deleting(obj: Any) -> bool:
    return "deletionTimestamp" in obj["metadata"]
