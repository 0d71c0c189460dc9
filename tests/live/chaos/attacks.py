"""Attacks on replicas, API server and CRDs; each returns when the cluster has recovered."""

import os
import signal
from collections.abc import Callable

from dovetail.codec.crds.definitions import DEFINITIONS
from dovetail.host.clock import SystemClock
from dovetail.simulator.environment import SeededRandomSource
from tests.live.chaos.api import NODES, PODS, Api, ApiFailure, wait_until
from tests.live.chaos.environment import ChaosEnvironment, memory_mib
from tests.live.chaos.load import Load, node_pools, scale
from tests.live.chaos.monitor import Monitor
from tests.live.chaos.probe import TIMEOUT, Prober
from tests.live.crds import install_crds
from tests.live.replicas import NODE_CLASS
from tests.support.kube.hostile_objects import HOSTILE, hostile_objects

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_PATHS = {
    "NodePool": "/apis/karpenter.sh/v1/nodepools",
    "NodeClaim": "/apis/karpenter.sh/v1/nodeclaims",
    "EC2NodeClass": "/apis/karpenter.k8s.aws/v1/ec2nodeclasses",
    "Node": NODES,
    "Pod": PODS,
    "PodDisruptionBudget": "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
}
_TRIM_SECONDS = 25.0
"""A replica returns freed memory every ten seconds; its next plan frees what the last one used."""
MEMORY_GOAL = 1.2
"""Memory after the hostile objects, relative to before."""
MAX_MEMORY_AFTERWARDS = 1.3
"""Above it a run fails: single runs differ by 5 % of the memory before."""
_RETURN_SECONDS = 90.0
"""Time for that; a replica that shares the CPU with much other work takes longest."""
DEFAULT_LEASE, SHORT_LEASE = 15, 5
"""Seconds."""


class Attacks:
    """Everything that attacks share; ``figures`` collects values by attack and name."""

    def __init__(
        self,
        environment: ChaosEnvironment,
        load: Load,
        monitor: Monitor,
        *,
        random: SeededRandomSource,
        progress: Callable[[str], None],
    ) -> None:
        self._environment = environment
        self._api: Api = environment.api
        self._load = load
        self._monitor = monitor
        self._random = random
        self._progress = progress
        self._clock = SystemClock()
        self.prober = Prober(self._api, while_waiting=environment.restart_exited)
        self.figures: dict[tuple[str, str], list[float]] = {}

    def kill_replicas(self, *, lease_seconds: int, leader_kills: int) -> None:
        """SIGKILL replicas at random moments under load, the leader more often than not."""
        environment = self._environment
        if environment.lease_seconds != lease_seconds:
            environment.start_replicas(lease_seconds=lease_seconds)
        self._drift_nodes()
        killed = 0
        while killed < leader_kills:
            leader = environment.wait_for_leader()
            self.pause(self._uniform(0.5, 12.0))
            standby = environment.standby()
            if standby is not None and self._random.random() < 0.25:
                environment.kill(standby)
                continue
            if wait_until("a standby", lambda: environment.standby() is not None, seconds=30) is None:
                continue
            environment.kill(leader)
            killed += 1
        environment.wait_for_leader()

    def pause_leader(self) -> None:
        """SIGSTOP the leader during a launch until another leads, then let it go on.

        The account is paused, too: launches of the old leader may be under way.
        """
        environment, account = self._environment, self._environment.installation.account
        leader = environment.wait_for_leader()
        wait_until("a standby", lambda: environment.standby() is not None, seconds=30)
        self._load.surge()
        self.pause(self._uniform(1.0, 3.0))
        account.signal(signal.SIGSTOP)
        self.pause(self._uniform(0.2, 1.0))
        paused = leader.process
        assert paused is not None
        leader.signal(signal.SIGSTOP)
        began = self._clock.seconds()
        self.pause(3.0)
        account.signal(signal.SIGCONT)
        taken = wait_until(
            "another leads", lambda: environment.leader() not in (None, leader), seconds=TIMEOUT
        )
        self.record("two leaders", "take-over", TIMEOUT if taken is None else self._clock.seconds() - began)
        self.pause(2.0)
        began = self._clock.seconds()
        leader.signal(signal.SIGCONT)
        code = paused.wait(seconds=30)
        self.record("two leaders", "exit of the old leader", self._clock.seconds() - began)
        self.record("two leaders", "exit code other than 1", float(code != 1))
        leader.start()
        environment.wait_for_leader()

    def restart_api_server(self) -> None:
        """Kill the API server, compact etcd, start it: every watch gets 410 Gone."""
        plane = self._environment.plane
        self._environment.wait_for_leader()
        exits = len(self._environment.exits)
        plane.apiserver.kill()
        plane.compact()
        plane.apiserver.start()
        self._measure_recovery("API server restarted, history compacted", exits=exits)

    def pause_api_server(self) -> None:
        """SIGSTOP the API server for longer than a leader can do without."""
        seconds = self._uniform(12.0, 18.0)
        self._environment.wait_for_leader()
        exits = len(self._environment.exits)
        process = self._environment.plane.apiserver.pid
        _signal(process, signal.SIGSTOP)
        self.pause(seconds)
        _signal(process, signal.SIGCONT)
        self._measure_recovery("API server paused 12 to 18 s", exits=exits)

    def kill_etcd(self) -> None:
        """Kill etcd and start it 5 s later."""
        etcd = self._environment.plane.etcd
        self._environment.wait_for_leader()
        exits = len(self._environment.exits)
        etcd.kill()
        self.pause(5.0)
        etcd.start()
        self._measure_recovery("etcd killed, 5 s away", exits=exits)

    def add_hostile_objects(self) -> None:
        """Create hostile objects, measure ordinary pods beside them, and delete them."""
        attack = "hostile objects"
        environment = self._environment
        leader = environment.wait_for_leader()
        self.prober.measure()  # A replica that has planned nothing yet has less memory.
        self.pause(_TRIM_SECONDS)
        before, _ = memory_mib(leader.pid)
        self._monitor.begin_memory()
        accepted = refused = 0
        objects = hostile_objects(namespace="default")
        for obj in objects:
            try:
                self._api.create(_PATHS[obj["kind"]], obj)
                accepted += 1
            except ApiFailure as error:
                refused += 1
                self._progress(f"refused: {str(error)[:250]}")
        self.record(attack, "objects accepted", accepted)
        self.record(attack, "objects refused by the API server", refused)
        for _ in range(3):
            self.pause(self._uniform(3.0, 6.0))
            self.record(attack, "NodeClaim of an ordinary pod meanwhile", self.prober.measure())
        self.record(attack, "peak memory", self._monitor.memory_peak)
        self._delete_hostile_objects()
        self.record(attack, "NodeClaim of an ordinary pod afterwards", self.prober.measure())
        began = self._clock.seconds()
        ratio = self._measure_memory(leader.pid) / before
        while ratio > MEMORY_GOAL and self._clock.seconds() < began + _RETURN_SECONDS:
            ratio = self._measure_memory(leader.pid) / before
        if leader is environment.leader():
            self.record(attack, "memory afterwards over before", ratio)
            self.record(attack, "until memory has returned", self._clock.seconds() - began)

    def _measure_memory(self, pid: int) -> float:
        """Return the resident memory of a replica in MiB once it had time to return some."""
        self.pause(_TRIM_SECONDS)
        return memory_mib(pid)[0]

    def recreate_crds(self) -> None:
        """Delete all CRDs with their objects, and create them again."""
        attack = "CRDs deleted and created"
        names = [definition.encode()["metadata"]["name"] for definition in DEFINITIONS]
        scale(self._api, "web", 4)
        wait_until("there are nodes", lambda: bool(self._api.items(NODES)), seconds=60)
        start = self._clock.seconds()
        for name in names:
            self._api.delete(f"{_CRDS}/{name}")
        gone = wait_until(
            "CRDs are gone",
            lambda: not {entry["metadata"]["name"] for entry in self._api.items(_CRDS)} & set(names),
            seconds=120,
        )
        self.record(attack, "until the CRDs are gone", 120 if gone is None else self._clock.seconds() - start)
        running = wait_until("instances", self._has_no_instance, seconds=60)
        self.record(attack, "instances left without CRDs", float(running is None))
        self.pause(self._uniform(1.0, 10.0))
        install_crds(self._environment.plane)
        self._environment.plane.apply(NODE_CLASS, *node_pools())
        scale(self._api, "web", 0)
        self.record(attack, "recovery", self.prober.measure())
        self._environment.restart_exited()

    def pause(self, seconds: float) -> None:
        """Wait, and restart replicas that end meanwhile."""
        end = self._clock.seconds() + seconds
        while (left := end - self._clock.seconds()) > 0:
            self._environment.restart_exited()
            self._clock.sleep(min(left, 0.5))

    def _drift_nodes(self) -> None:
        """Change the NodePool's template: all nodes are replaced, and their pods evicted."""
        label = {"example.com/drift": self._random.alphanumeric(8)}
        patch = {"spec": {"template": {"metadata": {"labels": label}}}}
        self._api.patch("/apis/karpenter.sh/v1/nodepools/default", patch)

    def _measure_recovery(self, attack: str, *, exits: int) -> None:
        """Measure from an answer of the API server to the NodeClaim of a new pod.

        A leader that could not renew its lease ends: then the other one must wait until
        the lease expires, which is a figure of its own. ``exits`` is their number before.
        """
        wait_until("the API server answers", self._api.is_ready, seconds=120, interval=0.05)
        seconds = self.prober.measure()
        ended = len(self._environment.exits) - exits
        self.record(attack, "recovery, lease lost" if ended else "recovery", seconds)
        self._environment.wait_for_leader()

    def _delete_hostile_objects(self) -> None:
        (selector,) = (f"{key}={value}" for key, value in HOSTILE.items())
        for path in reversed(_PATHS.values()):
            for obj in self._api.items(f"{path}?labelSelector={selector.replace('=', '%3D')}"):
                self._api.delete(f"{path}/{obj['metadata']['name']}")

    def _has_no_instance(self) -> bool:
        return not self._environment.installation.running_instances()

    def _uniform(self, low: float, high: float) -> float:
        return low + (high - low) * self._random.random()

    def record(self, attack: str, name: str, value: float) -> None:
        """Add a value to a figure."""
        self.figures.setdefault((attack, name), []).append(round(value, 2))
        self._progress(f"{attack}: {name}: {value:.1f}")


def _signal(pid: int, number: signal.Signals) -> None:
    os.kill(pid, number)
