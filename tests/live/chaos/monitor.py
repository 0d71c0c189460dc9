"""Samples pods, NodeClaims, instances and memory every second, and keeps what breaks an invariant."""

import threading
from collections import Counter
from datetime import datetime
from typing import Any

from dovetail.errors import DovetailError
from dovetail.host.clock import SystemClock
from dovetail.model.karpenter.condition_types import INITIALIZED
from dovetail.simulator.ec2.billing import LaunchRecord
from tests.live.chaos.api import NODE_CLAIMS, PODS, ApiFailure
from tests.live.chaos.environment import ChaosEnvironment, memory_mib
from tests.live.chaos.load import PROTECTED

MAX_ORPHAN_SECONDS = 180.0
"""Garbage collection runs every two minutes, and leaves young instances alone for 30 s."""
_INTERVAL = 1.0


class Monitor(threading.Thread):
    """Observes a cluster and its account until stopped."""

    def __init__(self, environment: ChaosEnvironment) -> None:
        super().__init__(name="monitor", daemon=True)
        self._environment = environment
        self._api = environment.api
        self._clock = SystemClock()
        self._ended = threading.Event()
        self._expects_budgets = False
        self._guarded: set[str] = set()
        """Deployments whose budget has been reached, and must hold from then on."""
        self._orphans: dict[str, float] = {}
        self.samples = 0
        self.lost_samples = 0
        self.minimum: dict[str, int] = {}
        self.pdb_violations: list[str] = []
        self.leaks: dict[str, str] = {}
        """Provider id → description."""
        self.longest_orphan = 0.0
        self.memory_peak = 0.0
        """MiB, sampled."""
        self.overall_memory_peak = 0.0
        """MiB, of all processes so far, between samples too."""
        self.initialized: dict[str, datetime] = {}
        """NodeClaim → when it was initialized: a replica may be killed before it logs that."""
        self.unbound_since: float | None = None
        self.longest_unbound = 0.0

    def run(self) -> None:
        while not self._ended.wait(_INTERVAL):
            for replica in self._environment.replicas:
                if replica.process is not None:
                    self._sample_memory(replica)
            try:
                self._sample_pods(self._api.items(PODS))
                self._sample_instances()
                self.samples += 1
            except (ApiFailure, DovetailError):
                self.lost_samples += 1

    def end(self) -> None:
        self._ended.set()
        self.join()

    def expect_budgets(self) -> None:
        """Guard the PodDisruptionBudgets as soon as they are reached."""
        self._expects_budgets = True

    def release_budgets(self) -> None:
        """Expect nothing of the protected Deployments, which are about to be deleted."""
        self._expects_budgets = False
        self._guarded.clear()

    def guards_all(self) -> bool:
        """Return True if every protected Deployment has been available."""
        return self._guarded == set(PROTECTED)

    def begin_memory(self) -> None:
        """Measure ``memory_peak`` from now on."""
        self.memory_peak = 0.0

    def launches(self) -> list[LaunchRecord]:
        """Return all instances ever launched in the account, also those of other clusters."""
        return self._environment.installation.launches()

    def unclaimed(self) -> list[LaunchRecord]:
        """Return the running instances without NodeClaim."""
        # Instances first: one that is launched between the two reads has a NodeClaim already.
        running = [launch for launch in self.launches() if launch.shutting_down is None]
        provider_ids, launching = set(), set()
        for claim in self._api.items(NODE_CLAIMS):
            self._note_initialized(claim)
            provider_id = (claim.get("status") or {}).get("providerID")
            if provider_id:
                provider_ids.add(provider_id)
            else:
                launching.add(claim["metadata"]["uid"])
        return [
            launch
            for launch in running
            if launch.provider_id not in provider_ids and launch.claim_uid not in launching
        ]

    def _note_initialized(self, claim: dict[str, Any]) -> None:
        for condition in (claim.get("status") or {}).get("conditions") or ():
            if condition["type"] == INITIALIZED and condition["status"] == "True":
                since = datetime.fromisoformat(condition["lastTransitionTime"])
                self.initialized.setdefault(claim["metadata"]["name"], since)

    def double_launches(self) -> list[str]:
        """Return the names of NodeClaims with more than one instance."""
        # By name: the account itself launches no second instance for a UID.
        counts = Counter(launch.claim for launch in self.launches())
        return [f"{claim}: {count} instances" for claim, count in counts.items() if count > 1]

    def _sample_memory(self, replica: Any) -> None:
        try:
            current, peak = memory_mib(replica.pid)
        except AssertionError:
            return  # It is being restarted.
        self.memory_peak = max(self.memory_peak, current)
        self.overall_memory_peak = max(self.overall_memory_peak, peak)

    def _sample_pods(self, pods: list[dict[str, Any]]) -> None:
        available = Counter(pod["metadata"]["labels"].get("app") for pod in pods if _is_available(pod))
        now = self._clock.seconds()
        for name, (_, required) in PROTECTED.items():
            count = available[name]
            if count >= required and self._expects_budgets:
                self._guarded.add(name)
            if name not in self._guarded or not self._expects_budgets:
                continue
            self.minimum[name] = min(self.minimum.get(name, count), count)
            if count < required:
                self.pdb_violations.append(
                    f"{self._clock.now():%H:%M:%S} {name}: {count} of {required} available"
                )
        apps = [pod for pod in pods if "app" in pod["metadata"].get("labels", {})]
        if all(pod["spec"].get("nodeName") for pod in apps):
            self.unbound_since = None
        else:
            self.unbound_since = self.unbound_since or now
            self.longest_unbound = max(self.longest_unbound, now - self.unbound_since)

    def _sample_instances(self) -> None:
        now = self._clock.seconds()
        orphans = {launch.provider_id: launch for launch in self.unclaimed()}
        self._orphans = {key: self._orphans.get(key, now) for key in orphans}
        for key, since in self._orphans.items():
            self.longest_orphan = max(self.longest_orphan, now - since)
            if now - since > MAX_ORPHAN_SECONDS:
                launch = orphans[key]
                self.leaks[key] = (
                    f"{key} of nodeclaim {launch.claim} has no NodeClaim for {now - since:.0f} s"
                )


def _is_available(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or ()
    ready = any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]
