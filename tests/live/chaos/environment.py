"""A control plane with a virtual account, and replicas that are restarted when they end."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from dovetail.host.clock import SystemClock
from dovetail.kube.leaderelection.elector import IDENTITY_MARK
from tests.live.chaos.api import LEASE, Api, ApiFailure, wait_until
from tests.live.chaos.audit import POLICY, REPLICAS, AuditLog, read_audit_log
from tests.live.control_plane import ADMINISTRATORS, ControlPlane
from tests.live.controlplane_binary import controlplane_binary
from tests.live.replicas import CLUSTER, DovetailProcess, Installation

STARTED = "started"
STANDING_BY = "another replica is the leader; standing by"
_EXPECTED_EXIT = 1
"""A leader that lost its lease, or a start without API server."""
_KIB = 1024


class Exit(msgspec.Struct, frozen=True):
    """A replica that ended by itself."""

    replica: str
    time: datetime
    code: int
    reason: str
    """Last line of its log."""


class Kill(msgspec.Struct, frozen=True):
    """A SIGKILL of the leader while another replica stood by."""

    time: datetime
    user: str
    lease_seconds: int


class Replica:
    """A replica; each of its processes has a user of its own in the audit log."""

    def __init__(self, environment: "ChaosEnvironment", number: int) -> None:
        self._environment = environment
        self._number = number
        self._starts = 0
        self.process: DovetailProcess | None = None
        self.user = ""
        self.options: tuple[str, ...] = ()
        self._log_offset = 0

    def start(self) -> None:
        environment = self._environment
        self.user = f"replica-{self._number}-{self._starts}"
        self._starts += 1
        environment.users.add(self.user)
        kubeconfig = environment.plane.kubeconfig_for(self.user, ADMINISTRATORS, REPLICAS)
        log = environment.folder / f"replica-{self._number}.log"
        self._log_offset = log.stat().st_size if log.exists() else 0
        arguments = [
            "run", "--cloud", "virtual", "--virtual-endpoint", environment.installation.endpoint,
            "--cluster-name", CLUSTER, "--metrics-port", "0", "--health-probe-port", "0",
            "--kubeconfig", str(kubeconfig), *self.options,
        ]  # fmt: skip
        self.process = DovetailProcess(f"replica-{self._number}", arguments, log)
        self.process.start()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def has_logged(self, message: str) -> bool:
        """Return True if its current process has logged a message."""
        return f'"{message}"' in self.recent_log()

    def recent_log(self) -> str:
        """Return the log of its current process."""
        assert self.process is not None
        with self.process.log.open("rb") as log:
            log.seek(self._log_offset)
            return log.read().decode(errors="replace")

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)


class ChaosEnvironment:
    """Control plane, virtual account and two replicas."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.folder = folder
        self.api = Api(plane)
        self.installation = Installation(plane, folder)
        self.replicas = [Replica(self, number) for number in range(2)]
        self.users: set[str] = set()
        """Users of all processes so far."""
        self.kills: list[Kill] = []
        self.kill_count = 0
        self.exits: list[Exit] = []
        self.lease_seconds = 15
        self._clock = SystemClock()

    def start(self, *pools: dict[str, Any]) -> None:
        self.installation.start()
        self.plane.apply(*pools)
        self.start_replicas(lease_seconds=15)

    def stop(self) -> None:
        for replica in self.replicas:
            if replica.process is not None:
                replica.process.kill()
        self.installation.stop()
        self.api.close()

    def start_replicas(self, *, lease_seconds: int) -> None:
        """Start the replicas, or restart them with another lease."""
        self.lease_seconds = lease_seconds
        for replica in self.replicas:
            if replica.process is not None:
                replica.process.stop()
        for replica in self.replicas:
            replica.options = ("--leader-election-lease-seconds", str(lease_seconds))
            replica.start()
        self.wait_for_leader()

    def leader(self) -> Replica | None:
        """Return the running replica that holds the lease."""
        try:
            identity = self.api.get(LEASE)["spec"].get("holderIdentity") or ""
        except ApiFailure:
            return None
        pid = identity.partition(IDENTITY_MARK)[2].partition("-")[0]
        return next((replica for replica in self.replicas if str(replica.pid) == pid), None)

    def standby(self) -> Replica | None:
        """Return the replica that does not lead, once it stands by."""
        leader = self.leader()
        others = [replica for replica in self.replicas if replica is not leader]
        if leader is None or len(others) != 1 or not others[0].has_logged(STANDING_BY):
            return None
        return others[0]

    def wait_for_leader(self, *, other_than: Replica | None = None) -> Replica:
        """Wait until a replica leads and its controllers run."""

        def leads() -> bool:
            self.restart_exited()
            leader = self.leader()
            return leader is not None and leader is not other_than and leader.has_logged(STARTED)

        assert wait_until("a replica leads", leads, seconds=90) is not None, self.tails()
        leader = self.leader()
        # Lost right after: the next one is as good.
        return leader if leader is not None else self.wait_for_leader(other_than=other_than)

    def kill(self, replica: Replica) -> None:
        """SIGKILL a replica and start it again, as a kubelet does."""
        if replica is self.leader() and self.standby() is not None:
            self.kills.append(Kill(self._clock.now(), replica.user, self.lease_seconds))
        self.kill_count += 1
        replica.kill()
        replica.start()

    def restart_exited(self) -> None:
        """Record replicas that have ended, and start them again."""
        for replica in self.replicas:
            process = replica.process
            if process is None:
                continue
            try:
                process.check()
            except RuntimeError:
                code = process.wait(seconds=1)
                lines = replica.recent_log().strip().splitlines() or [""]
                self.exits.append(Exit(replica.user, self._clock.now(), code, lines[-1][-300:]))
                replica.start()

    def unexpected_exits(self) -> list[str]:
        """Return exits other than those of a lost lease or a missing API server."""
        return [f"{entry.replica} ended with {entry.code}: {entry.reason}" for entry in self.exits
                if entry.code != _EXPECTED_EXIT]  # fmt: skip

    def tracebacks(self) -> int:
        """Return the number of tracebacks in the logs of all replicas."""
        logs = {replica.process.log for replica in self.replicas if replica.process is not None}
        return sum(log.read_text(errors="replace").count("Traceback (most recent call last)") for log in logs)

    def initialization_times(self) -> dict[str, datetime]:
        """Return when NodeClaims were initialized, from the logs of the replicas."""
        processes = [replica.process for replica in self.replicas if replica.process is not None]
        return {
            line["NodeClaim"]["name"]: datetime.fromisoformat(line["time"])
            for process in processes
            for line in process.lines_with("initialized nodeclaim")
        }

    def audit(self) -> AuditLog:
        """Read the audit log up to now."""
        return read_audit_log(self.plane.audit_log, frozenset(self.users))

    def tails(self) -> str:
        processes = [replica.process for replica in self.replicas if replica.process is not None]
        return "\n".join(process.tail() for process in (*processes, self.installation.account))


def memory_mib(pid: int) -> tuple[float, float]:
    """Return the current and the peak resident memory of a process; zeros if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0, 0.0
    fields = dict(line.split(":", 1) for line in lines if line.startswith(("VmRSS", "VmHWM")))
    current, peak = (int(fields.get(name, "0 kB").split()[0]) / _KIB for name in ("VmRSS", "VmHWM"))
    return current, peak


@contextmanager
def chaos_environment(
    folder: Path, *, scheduler_qps: int = 500, node_grace: str = "4m"
) -> Iterator[ChaosEnvironment]:
    """Run a control plane for the duration of the block; ``start`` starts the rest."""
    plane = ControlPlane(
        controlplane_binary(), folder, audit_policy=POLICY, scheduler_qps=scheduler_qps, node_grace=node_grace
    )
    plane.start()
    environment = ChaosEnvironment(plane, folder)
    try:
        yield environment
    finally:
        environment.stop()
        plane.stop()
