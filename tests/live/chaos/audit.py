"""The API server's audit log: who wrote what, when, and who held the lease then."""

import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from dovetail.kube.preflight import KARPENTER_LEASE
from dovetail.model.labels import ASSIGNED_PODS_ANNOTATION

REPLICAS = "dovetail:replicas"
"""Group of the replicas; each process has a user of its own."""
_SCHEDULER = "system:kube-scheduler"
_LEASE = {"group": "coordination.k8s.io", "resources": ["leases"], "resourceNames": [KARPENTER_LEASE]}
_CLAIMS = {"group": "karpenter.sh", "resources": ["nodeclaims"]}
_COMPLETE = "ResponseComplete"
_FAILED = 400

POLICY: dict[str, Any] = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "rules": [
        {"level": "None", "verbs": ["get", "list", "watch"]},
        {"level": "Request", "resources": [_LEASE]},
        {"level": "Request", "userGroups": [REPLICAS], "resources": [_CLAIMS]},
        {"level": "Metadata", "userGroups": [REPLICAS]},
        {"level": "Metadata", "verbs": ["delete"], "resources": [_CLAIMS]},
        {
            "level": "Metadata",
            "users": [_SCHEDULER],
            "resources": [{"group": "", "resources": ["pods/status", "pods/binding"]}],
            "omitStages": ["RequestReceived"],
        },
        {"level": "None"},
    ],
}
"""All writes of the replicas, the lease, and what kube-scheduler does with pods."""


class AuditEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A stage of a request."""

    id: str
    stage: str
    user: str
    verb: str
    group: str
    resource: str
    """With subresource: ``pods/eviction``."""
    namespace: str
    name: str
    code: int
    """HTTP status; 0 before the response."""
    received: datetime
    completed: datetime
    """Time of the stage."""
    uri: str
    body: Any

    @property
    def is_lease(self) -> bool:
        return self.resource == "leases" and KARPENTER_LEASE in (self.name, _name_in(self.body))

    @property
    def is_dry_run(self) -> bool:
        return "dryRun=All" in self.uri

    @property
    def has_succeeded(self) -> bool:
        return self.stage == _COMPLETE and 0 < self.code < _FAILED

    def describe(self) -> str:
        """Return one line: when, who, what."""
        return f"{self.received:%H:%M:%S.%f} {self.user}: {self.verb} {self.resource} {self.name}"


class LeaseWrite(msgspec.Struct, frozen=True):
    """A successful write of the lease."""

    completed: datetime
    holder: str
    """User that holds the lease from then on; empty after a release."""


class AuditLog:
    """Entries of an audit log, in the order of their arrival at the API server."""

    def __init__(self, entries: list[AuditEntry], replicas: frozenset[str]) -> None:
        self.entries = sorted(entries, key=lambda entry: entry.received)
        self._replicas = replicas
        self.lease_writes = sorted(self._lease_writes(), key=lambda write: write.completed)
        self._lease_times = [write.completed for write in self.lease_writes]

    def holder_at(self, time: datetime) -> str:
        """Return the user that held the lease at a time; empty if none did."""
        index = bisect_right(self._lease_times, time)
        return self.lease_writes[index - 1].holder if index else ""

    def acquisitions(self) -> Iterator[LeaseWrite]:
        """Return the writes by which the lease changed hands."""
        holder = ""
        for write in self.lease_writes:
            if write.holder != holder and write.holder:
                yield write
            holder = write.holder

    def writes_without_lease(self) -> list[AuditEntry]:
        """Return the writes of replicas that did not hold the lease.

        A request counts from its arrival on, whether the API server answered it or not.
        """
        writes: dict[str, AuditEntry] = {}
        for entry in self.entries:
            # Access reviews of the start check are not writes.
            if entry.user not in self._replicas or entry.is_dry_run or entry.group == "authorization.k8s.io":
                continue
            # The lease is a cluster's only object that every replica may write.
            if entry.resource == "leases":
                continue
            if self.holder_at(entry.received) != entry.user:
                writes.setdefault(entry.id, entry)
        return list(writes.values())

    def responses(self, resource: str, *verbs: str, group: str = "") -> list[AuditEntry]:
        """Return the answered requests of replicas for a resource."""
        return [
            entry
            for entry in self.entries
            if entry.stage == _COMPLETE
            and (entry.group, entry.resource) == (group, resource)
            and (not verbs or entry.verb in verbs)
            and entry.user in self._replicas
        ]

    def created_claims(self) -> list[AuditEntry]:
        """Return the creations of NodeClaims."""
        entries = self.responses("nodeclaims", "create", group="karpenter.sh")
        return [entry for entry in entries if entry.has_succeeded]

    def pods_planned_twice(self, initialized: Mapping[str, datetime]) -> list[str]:
        """Return the pods that got a NodeClaim while another one for them was starting.

        A NodeClaim starts until it is deleted or initialized; ``initialized`` has the times. A pod
        that was bound elsewhere meanwhile waits for none: its node may be replaced.
        """
        bound = self.bindings()
        ends = dict(initialized)
        for entry in self.entries:
            if (entry.group, entry.resource, entry.verb) == ("karpenter.sh", "nodeclaims", "delete"):
                ends[entry.name] = min(entry.received, ends.get(entry.name, entry.received))
        twice = []
        starting: dict[str, AuditEntry] = {}
        for claim in self.created_claims():
            for pod in assigned_pods(claim):
                earlier, starting[pod] = starting.get(pod), claim
                is_bound = bound.get(pod.rpartition("/")[0], claim.received) < claim.received
                if earlier is None or is_bound:
                    continue
                if ends.get(earlier.name, claim.received) >= claim.received:
                    twice.append(f"{pod}: nodeclaims {earlier.name} and {claim.name}")
        return twice

    def unschedulable_marks(self) -> dict[str, datetime]:
        """Return when kube-scheduler marked pods unschedulable, by namespace and name.

        It writes their status for the first time then.
        """
        return self._first("pods/status")

    def bindings(self) -> dict[str, datetime]:
        """Return when pods were bound, by namespace and name."""
        return self._first("pods/binding")

    def _first(self, resource: str) -> dict[str, datetime]:
        times: dict[str, datetime] = {}
        for entry in self.entries:
            if entry.user == _SCHEDULER and entry.resource == resource and entry.has_succeeded:
                times.setdefault(f"{entry.namespace}/{entry.name}", entry.completed)
        return times

    def _lease_writes(self) -> Iterator[LeaseWrite]:
        for entry in self.entries:
            if entry.is_lease and entry.has_succeeded and entry.user in self._replicas:
                spec = (entry.body or {}).get("spec") or {}
                released = spec.get("holderIdentity", entry.user) in ("", None)
                yield LeaseWrite(entry.completed, "" if released else entry.user)


def assigned_pods(claim: AuditEntry) -> list[str]:
    """Return the pods that a NodeClaim was created for, as namespace/name/UID."""
    annotations = claim.body["metadata"].get("annotations") or {}
    text: str = annotations.get(ASSIGNED_PODS_ANNOTATION, "")
    return [entry for entry in text.split(",") if entry]


def read_audit_log(path: Path, replicas: frozenset[str]) -> AuditLog:
    """Read a log; the last line may be incomplete, and a killed API server cuts lines."""
    entries = []
    if path.exists():
        with path.open(errors="replace") as lines:
            for line in lines:
                try:
                    entries.append(_decode(json.loads(line)))
                except (json.JSONDecodeError, KeyError):
                    continue
    return AuditLog(entries, replicas)


def _decode(event: dict[str, Any]) -> AuditEntry:
    ref = event.get("objectRef") or {}
    resource = "/".join(filter(None, (ref.get("resource", ""), ref.get("subresource", ""))))
    return AuditEntry(
        id=event["auditID"],
        stage=event["stage"],
        user=event["user"]["username"],
        verb=event["verb"],
        group=ref.get("apiGroup", ""),
        resource=resource,
        namespace=ref.get("namespace", ""),
        name=ref.get("name", "") or _name_in(event.get("requestObject")),
        code=int((event.get("responseStatus") or {}).get("code") or 0),
        received=datetime.fromisoformat(event["requestReceivedTimestamp"]),
        completed=datetime.fromisoformat(event["stageTimestamp"]),
        uri=event["requestURI"],
        body=event.get("requestObject"),
    )


def _name_in(body: Any) -> str:
    name: str = ((body or {}).get("metadata") or {}).get("name") or ""
    return name
