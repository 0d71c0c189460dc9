"""A scale-up on a live control plane: who took how long, and whether too much was launched."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any
from urllib.request import urlopen

import msgspec

from dovetail.host.clock import SystemClock
from tests.live.chaos.api import PODS, wait_until
from tests.live.chaos.audit import AuditLog, assigned_pods
from tests.live.chaos.environment import STARTED, ChaosEnvironment, chaos_environment, memory_mib
from tests.live.control_plane import free_ports
from tests.live.replicas import NODE_CLASS, a_deployment, a_pool

_SIZES = ("500m", "500m", "1", "1500m", "2", "4")
"""CPU of the pods, one Deployment for each."""
_MAX_PLANNED_AGAIN = 0.02
"""Share of pods that may get another NodeClaim: kube-scheduler does not always bind as planned."""


class ScaleSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Size of a scale-up, and its limits."""

    pods: int
    pods_per_node: int = 10
    scheduler_qps: int = 100
    """Requests of kube-scheduler per second: few make it lag behind the nodes."""
    limit: float = 5.0
    """Seconds from the first sight of a pod that is marked to its plan."""
    late_share: float = 0.0
    """Share of pods that may be planned later.

    On a busy host, kube-scheduler marks so slowly that batches stay small, and small ones
    stay open for up to 10 s.
    """
    timeout: float = 900.0
    """Seconds until all pods are bound."""


class Percentiles(msgspec.Struct, frozen=True):
    """Of durations in seconds."""

    median: float
    p95: float
    max: float


class ScaleReport(msgspec.Struct, kw_only=True):
    """Result of a scale-up."""

    pods: int
    bound: int
    nodeclaims: int
    """Created, all of them for pods."""
    passes: int
    """Scheduling passes that created NodeClaims."""
    planned_nodes: int
    """Nodes in the plans of these passes."""
    instances: int
    """Launched."""
    pods_planned_twice: int
    pods_on_starting_nodes: int
    """Marked pods without a NodeClaim of their own: planned on nodes of an earlier pass."""
    pods_planned_again: int
    """Pods that got another NodeClaim after the first was initialized: others took their room."""
    nodes_of_one_plan: int
    """Nodes if all pods are planned at once; batches in the order of the Deployments need more."""
    marked_to_planned: Percentiles
    """Dovetail: from the mark of kube-scheduler to a pod's first NodeClaim.

    With the batch window, and also of pods that were planned on a starting node first and
    moved when others took their room.
    """
    longest_pass: float
    """Dovetail: seconds from the end of a batch window to its last NodeClaim."""
    created_to_marked: Percentiles
    """Control plane: from the creation of a pod to the mark of kube-scheduler."""
    planned_to_bound: Percentiles
    """Control plane, virtual account and kubelets: from the NodeClaim to the binding."""
    seconds: float
    """From the creation of the first pod to the last binding."""
    decisions: int = 0
    """Pods that Dovetail planned, by its own metric."""
    late_decisions: int = 0
    """Of them, those planned later than the limit after Dovetail saw the mark."""
    cpu_seconds: float = 0.0
    """Of the replica."""
    peak_mib: float = 0.0
    load_average: list[float]
    violations: list[str]


def run_scale(folder: Path, settings: ScaleSettings, progress: Callable[[str], None]) -> ScaleReport:
    """Scale up on a control plane of its own."""
    # The virtual kubelets of hundreds of nodes share a thread, and may miss heartbeats for minutes.
    with chaos_environment(folder, scheduler_qps=settings.scheduler_qps, node_grace="1h") as environment:
        try:
            return _Scale(environment, settings, progress).run()
        except AssertionError as error:
            error.add_note(environment.tails())
            raise


class _Scale:
    def __init__(
        self, environment: ChaosEnvironment, settings: ScaleSettings, progress: Callable[[str], None]
    ) -> None:
        self._environment = environment
        self._settings = settings
        self._progress = progress
        self._clock = SystemClock()

    def run(self) -> ScaleReport:
        environment, settings = self._environment, self._settings
        load_average = [round(os.getloadavg()[0], 1)]
        environment.installation.start()
        environment.plane.apply(self._pool())
        replica = environment.replicas[0]
        # A single replica needs no lease, which a busy host could fail to renew in time.
        (port,) = free_ports(1)
        replica.options = (
            "--disable-leader-election", "--bind-address", "127.0.0.1", "--metrics-port", str(port)
        )  # fmt: skip
        replica.start()
        started = wait_until("the replica has started", lambda: replica.has_logged(STARTED), seconds=60)
        assert started is not None, "the replica has not started after 60 s"
        cpu_before = _cpu_seconds(replica.pid)
        environment.plane.apply(*self._deployments())
        self._progress(f"created Deployments with {settings.pods} pods")
        taken = wait_until("all pods are bound", self._are_bound, seconds=settings.timeout, interval=5.0)
        cpu_seconds = _cpu_seconds(replica.pid) - cpu_before
        _, peak = memory_mib(replica.pid)
        load_average.append(round(os.getloadavg()[0], 1))
        report = self._report(environment.audit(), load_average)
        report.cpu_seconds, report.peak_mib = round(cpu_seconds, 1), round(peak, 1)
        report.decisions, report.late_decisions = _decisions(port, settings.limit)
        if report.late_decisions > settings.late_share * report.decisions:
            report.violations.append(
                f"{report.late_decisions} decisions more than {settings.limit:g} s after Dovetail saw the pod"
            )
        if taken is None:
            report.violations.insert(0, f"{report.pods - report.bound} pods are not bound")
        return report

    def _pool(self) -> dict[str, Any]:
        pool = a_pool(consolidate_after="Never")
        mean = sum(map(_cores, _SIZES)) / len(_SIZES)
        cores = mean * self._settings.pods_per_node
        # The smallest size that holds as many: 4, 8, 16 … cores.
        size = next(size for size in (4, 8, 16, 32, 48, 64, 96) if size > cores)
        pool["spec"]["template"]["spec"]["requirements"].append(
            {"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": [str(size)]}
        )
        return pool

    def _deployments(self) -> list[dict[str, Any]]:
        count, rest = divmod(self._settings.pods, len(_SIZES))
        return [
            a_deployment(f"scale-{index}", count + (index < rest), cpu=cpu)
            for index, cpu in enumerate(_SIZES)
        ]

    def _plan_at_once(self) -> int:
        """Return the nodes that ``dovetail simulate`` plans for all pods."""
        objects = {
            "apiVersion": "v1",
            "kind": "List",
            "items": [NODE_CLASS, self._pool(), *self._deployments()],
        }
        result = subprocess.run(
            [sys.executable, "-m", "dovetail", "simulate", "-f", "-", "-o", "json"],
            input=json.dumps(objects), capture_output=True, text=True, check=True,
        )  # fmt: skip
        return len(json.loads(result.stdout)["nodes"])

    def _are_bound(self) -> bool:
        pods = self._environment.api.items(PODS)
        bound = sum(bool(pod["spec"].get("nodeName")) for pod in pods)
        self._progress(f"{bound} of {len(pods)} pods are bound")
        return bound == self._settings.pods

    def _report(self, audit: AuditLog, load_average: list[float]) -> ScaleReport:
        environment = self._environment
        pods = environment.api.items(PODS)
        created = {_key(pod): _parse(pod["metadata"]["creationTimestamp"]) for pod in pods}
        marks, bindings = audit.unschedulable_marks(), audit.bindings()
        planned: dict[str, datetime] = {}
        assignments = 0
        for claim in audit.created_claims():
            for pod in assigned_pods(claim):
                planned.setdefault(pod.rpartition("/")[0], claim.received)
                assignments += 1
        process = environment.replicas[0].process
        assert process is not None
        plans = process.lines_with("computed new nodeclaim(s) to fit pod(s)")
        twice = audit.pods_planned_twice(environment.initialization_times())
        waits = [(planned[key] - marks[key]).total_seconds() for key in planned.keys() & marks.keys()]
        launches = len(environment.installation.launches())
        report = ScaleReport(
            pods=len(pods),
            bound=sum(bool(pod["spec"].get("nodeName")) for pod in pods),
            nodeclaims=len(audit.created_claims()),
            passes=len(plans),
            planned_nodes=sum(line["nodeclaims"] for line in plans),
            instances=launches,
            pods_planned_twice=len(twice),
            pods_on_starting_nodes=len(marks.keys() - planned.keys()),
            pods_planned_again=assignments - len(planned),
            nodes_of_one_plan=self._plan_at_once(),
            marked_to_planned=_percentiles(waits),
            longest_pass=_longest_pass(process.log_lines()),
            created_to_marked=_percentiles(
                [(marks[key] - created[key]).total_seconds() for key in created.keys() & marks.keys()]
            ),
            planned_to_bound=_percentiles(
                [(bindings[key] - planned[key]).total_seconds() for key in planned.keys() & bindings.keys()]
            ),
            seconds=round((max(bindings.values()) - min(created.values())).total_seconds(), 1),
            load_average=load_average,
            violations=[],
        )
        if twice:
            report.violations.append(f"{len(twice)} pods were planned twice, such as {twice[0]}")
        if launches > report.planned_nodes:
            report.violations.append(f"{launches} instances for {report.planned_nodes} planned nodes")
        if report.pods_planned_again > _MAX_PLANNED_AGAIN * report.pods:
            report.violations.append(f"{report.pods_planned_again} pods got another NodeClaim")
        return report


def _cores(quantity: str) -> float:
    return int(quantity[:-1]) / 1000 if quantity.endswith("m") else float(quantity)


def _key(pod: dict[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _parse(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _percentiles(values: Sequence[float]) -> Percentiles:
    ordered = sorted(values) or [0.0]
    p95 = ordered[min(len(ordered) - 1, int(0.95 * len(ordered)))]
    return Percentiles(round(median(ordered), 2), round(p95, 2), round(ordered[-1], 2))


def _longest_pass(lines: Sequence[dict[str, Any]]) -> float:
    """Return the longest time from "found" to the last "created" before the next "found"."""
    longest, began = 0.0, None
    for line in lines:
        if line["message"] == "found provisionable pod(s)":
            began = _parse(line["time"])
        elif line["message"] == "created nodeclaim" and began is not None:
            longest = max(longest, (_parse(line["time"]) - began).total_seconds())
    return round(longest, 2)


def _decisions(port: int, limit: float) -> tuple[int, int]:
    """Return the number of scheduling decisions, and of those that took longer than a limit."""
    name = "karpenter_pods_scheduling_decision_duration_seconds"
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as response:
        lines = response.read().decode().splitlines()
    counts = {
        float(bound): float(value)
        for bound, value in re.findall(
            rf'^{name}_bucket{{le="(.+?)"}} (\S+)$', "\n".join(lines), re.MULTILINE
        )
    }
    within = max((count for bound, count in counts.items() if bound <= limit), default=0.0)
    return int(max(counts.values(), default=0.0)), int(max(counts.values(), default=0.0) - within)


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
