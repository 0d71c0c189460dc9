"""A run: rounds of attacks under load, then everything is deleted and nothing may be left."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

from dovetail.host.clock import SystemClock
from dovetail.simulator.environment import SeededRandomSource
from tests.live.chaos.api import NODE_CLAIMS, NODES, wait_until
from tests.live.chaos.attacks import DEFAULT_LEASE, MAX_MEMORY_AFTERWARDS, SHORT_LEASE, Attacks
from tests.live.chaos.audit import AuditLog
from tests.live.chaos.environment import ChaosEnvironment, Kill, chaos_environment
from tests.live.chaos.load import Load, node_pools, workloads
from tests.live.chaos.monitor import Monitor
from tests.live.chaos.planted_violations import PLANTED
from tests.live.chaos.report import ChaosReport, Figure

_API_ATTACKS = (
    "API server restarted, history compacted",
    "API server paused 12 to 18 s",
    "etcd killed, 5 s away",
)
_LIMITS = {
    ("undisturbed", "NodeClaim of a pod"): 5.0,
    ("two leaders", "take-over"): 25.0,
    ("two leaders", "exit of the old leader"): 5.0,
    **{(attack, "recovery"): 10.0 for attack in _API_ATTACKS},
    # The other replica waits for the lease. After a pause, the API server may even execute a
    # renewal whose sender has given up.
    **{(attack, "recovery, lease lost"): 2.0 * DEFAULT_LEASE for attack in _API_ATTACKS},
    ("CRDs deleted and created", "recovery"): 15.0,
    ("hostile objects", "NodeClaim of an ordinary pod meanwhile"): 5.0,
    ("hostile objects", "NodeClaim of an ordinary pod afterwards"): 5.0,
}
"""Seconds, times the slack."""
_TAKE_OVER = {DEFAULT_LEASE: 25.0, SHORT_LEASE: 10.0}
"""Seconds from the SIGKILL of a leader to the other's lease; times the slack."""
_MEMORY_LIMIT = 400.0
"""MiB."""
_STRICT = {
    ("two leaders", "exit code other than 1"): 0.0,
    ("CRDs deleted and created", "instances left without CRDs"): 0.0,
    ("hostile objects", "peak memory"): _MEMORY_LIMIT,
    ("hostile objects", "memory afterwards over before"): MAX_MEMORY_AFTERWARDS,
}
_UNITS = {"peak memory": "MiB", "recovery": "s", "take-over": "s", "exit of the old leader": "s"}

ATTACKS = ("kill", "restart-api", "pause-leader", "pause-api", "kill-etcd", "kill-short", "hostile", "crds")
"""In the order of a round."""


class ChaosSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Length of a run, its attacks and limits."""

    seed: int = 1
    minutes: float = 5.0
    """Rounds that fit; the first always runs."""
    slack: float = 1.0
    """Factor of all time limits, for a busy host."""
    leader_kills: int = 3
    """For each lease and round."""
    planted: Sequence[str] = ()
    """Violations that the checks must report."""
    attacks: frozenset[str] = frozenset(ATTACKS)
    settle_seconds: float = 240.0
    """Until nothing is left: twice as long as garbage collection may take."""


def run_chaos(folder: Path, settings: ChaosSettings, progress: Callable[[str], None]) -> ChaosReport:
    """Run rounds of attacks on a control plane of their own."""
    with chaos_environment(folder) as environment:
        return _Run(environment, settings, progress).run()


class _Run:
    def __init__(
        self, environment: ChaosEnvironment, settings: ChaosSettings, progress: Callable[[str], None]
    ) -> None:
        self._environment = environment
        self._settings = settings
        self._clock = SystemClock()
        self._began = self._clock.seconds()
        self._progress = lambda text: progress(f"{self._elapsed():6.0f} s  {text}")
        self._load = Load(environment.api, settings.seed)
        self._monitor = Monitor(environment)
        self._attacks = Attacks(
            environment,
            self._load,
            self._monitor,
            random=SeededRandomSource(settings.seed),
            progress=self._progress,
        )
        self._leftovers: list[str] = []

    def run(self) -> ChaosReport:
        load_average = [round(os.getloadavg()[0], 1)]
        self._environment.start(*node_pools())
        self._environment.plane.apply(*workloads())
        self._monitor.start()
        self._load.start()
        rounds = 0
        try:
            for _ in range(2):
                self._record("undisturbed", "NodeClaim of a pod", self._attacks.prober.measure())
            last = 0.0
            while rounds == 0 or self._elapsed() + last <= 60 * self._settings.minutes:
                rounds += 1
                last = -self._elapsed()
                self._round(rounds)
                last += self._elapsed()
        except BaseException as error:
            error.add_note(self._environment.tails())
            raise
        finally:
            self._load.end()
            self._monitor.end()
        load_average.append(round(os.getloadavg()[0], 1))
        return ChaosReport(
            seed=self._settings.seed,
            minutes=round(self._elapsed() / 60, 1),
            rounds=rounds,
            slack=self._settings.slack,
            load_average=load_average,
            figures=[*self._invariants(self._environment.audit()), *self._attack_figures()],
        )

    def _elapsed(self) -> float:
        """Return the seconds since the start."""
        return self._clock.seconds() - self._began

    def _round(self, number: int) -> None:
        self._load.begin()
        self._monitor.expect_budgets()
        self._wait_for_protected()
        for name in self._settings.planted if number == 1 else ():
            self._progress(f"planting {name}")
            PLANTED[name](self._environment)
        for name in ATTACKS:
            if name == "crds":
                # Draining nodes would wait for disruption budgets, without NodePools for ever.
                self._clear(number)
            if name in self._settings.attacks:
                self._progress(f"round {number}: {name}")
                self._attack(name)

    def _attack(self, name: str) -> None:
        attacks, kills = self._attacks, self._settings.leader_kills
        match name:
            case "kill":
                attacks.kill_replicas(lease_seconds=DEFAULT_LEASE, leader_kills=kills)
            case "restart-api":
                attacks.restart_api_server()
            case "pause-leader":
                attacks.pause_leader()
            case "pause-api":
                attacks.pause_api_server()
            case "kill-etcd":
                attacks.kill_etcd()
            case "kill-short":
                attacks.kill_replicas(lease_seconds=SHORT_LEASE, leader_kills=kills)
                self._environment.start_replicas(lease_seconds=DEFAULT_LEASE)
            case "hostile":
                self._load.pause()
                attacks.add_hostile_objects()
            case "crds":
                attacks.recreate_crds()

    def _wait_for_protected(self) -> None:
        """Wait until the monitor guards the PodDisruptionBudgets."""
        guarded = wait_until("budgets are reached", self._monitor.guards_all, seconds=120)
        assert guarded is not None, "the protected pods are not available after 120 s"

    def _clear(self, number: int) -> None:
        """Scale to zero, and find what is left."""
        self._monitor.release_budgets()
        self._load.clear()
        taken = wait_until("nothing is left", self._is_empty, seconds=self._settings.settle_seconds)
        seconds = self._settings.settle_seconds if taken is None else taken
        self._record("end of a round", "until nothing is left", seconds)
        if taken is None:
            instances = self._environment.installation.running_instances()
            self._leftovers += [f"round {number}: instance {launch.provider_id} of {launch.claim}"
                                for launch in instances]  # fmt: skip
            self._leftovers += [
                f"round {number}: {obj['kind']} {obj['metadata']['name']}"
                for path in (NODE_CLAIMS, NODES)
                for obj in self._environment.plane.read(path.rpartition("/")[2])
            ]

    def _is_empty(self) -> bool:
        self._environment.restart_exited()
        api = self._environment.api
        if api.items(NODE_CLAIMS) or api.items(NODES):
            return False
        return not self._environment.installation.running_instances()

    def _invariants(self, audit: AuditLog) -> list[Figure]:
        """Return what must be zero, whatever happens."""
        monitor, environment = self._monitor, self._environment
        evictions = audit.responses("pods/eviction", "create")
        deletions = [
            entry for entry in audit.responses("pods", "delete", "deletecollection") if entry.has_succeeded
        ]
        refused = sum(entry.code == 429 for entry in evictions)
        return [
            _count("NodeClaims with more than one instance", monitor.double_launches()),
            _count(
                "pods with a second NodeClaim while the first was starting",
                audit.pods_planned_twice(monitor.initialized | environment.initialization_times()),
            ),
            _count("instances without NodeClaim for more than 180 s", monitor.leaks.values()),
            _count("instances, NodeClaims or nodes left at the end of a round", self._leftovers),
            _count("samples below a PodDisruptionBudget", monitor.pdb_violations),
            _count("pods that replicas deleted without eviction", [entry.describe() for entry in deletions]),
            _count(
                "writes of a replica that did not hold the lease",
                [entry.describe() for entry in audit.writes_without_lease()],
            ),
            _count("unexpected exits", environment.unexpected_exits()),
            _count("tracebacks in logs", [""] * environment.tracebacks()),
            _info("samples", monitor.samples),
            _info("samples without an answer", monitor.lost_samples),
            _info("instances launched", len(monitor.launches())),
            _info("NodeClaims created", len(audit.created_claims())),
            _info("evictions", sum(entry.has_succeeded for entry in evictions)),
            _info("evictions refused by a PodDisruptionBudget", refused),
            _info("changes of scale", self._load.changes),
            _info("changes of leader", len(list(audit.acquisitions())) - 1),
            _info("SIGKILLs", environment.kill_count),
            _info("exits after a lost lease or without API server", len(environment.exits)),
            _info("longest time without NodeClaim of an instance", monitor.longest_orphan, "s"),
            _info("longest time with an unbound pod", monitor.longest_unbound, "s"),
            Figure(
                attack="always", name="peak memory", unit="MiB", limit=_MEMORY_LIMIT,
                values=[round(monitor.overall_memory_peak, 1)],
            ),
            *(self._take_over(audit, lease) for lease in _TAKE_OVER),
        ]  # fmt: skip

    def _take_over(self, audit: AuditLog, lease: int) -> Figure:
        kills = [kill for kill in self._environment.kills if kill.lease_seconds == lease]
        values = [seconds for kill in kills if (seconds := _take_over_seconds(kill, audit)) is not None]
        return Figure(
            attack="SIGKILL of the leader",
            name=f"take-over with a lease of {lease} s",
            unit="s",
            values=values,
            limit=_TAKE_OVER[lease] * self._settings.slack,
        )

    def _attack_figures(self) -> list[Figure]:
        figures = []
        for (attack, name), values in self._attacks.figures.items():
            limit = _LIMITS.get((attack, name))
            if limit is not None:
                limit *= self._settings.slack
            timed = limit is not None or name.startswith("until")
            figures.append(
                Figure(
                    attack=attack,
                    name=name,
                    values=values,
                    unit="s" if timed else _UNITS.get(name, ""),
                    limit=_STRICT.get((attack, name), limit),
                )
            )
        return figures

    def _record(self, attack: str, name: str, value: float) -> None:
        self._attacks.record(attack, name, value)


def _take_over_seconds(kill: Kill, audit: AuditLog) -> float | None:
    """Return the seconds from a kill to the next acquisition by another process."""
    for write in audit.acquisitions():
        if write.completed > kill.time and write.holder != kill.user:
            return round((write.completed - kill.time).total_seconds(), 1)
    return None


def _count(name: str, things: Iterable[str]) -> Figure:
    details = list(things)
    return Figure(attack="always", name=name, values=[len(details)], limit=0, details=details[:20])


def _info(name: str, value: float, unit: str = "") -> Figure:
    return Figure(attack="always", name=name, values=[round(value, 1)], unit=unit)
