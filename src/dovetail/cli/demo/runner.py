"""Scenario execution with a live view, log lines, or no output."""

from collections import deque
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Final, Protocol

from rich.console import RenderableType

from dovetail.cli.demo.cluster_view import ClusterView
from dovetail.cli.demo.log_lines import ALIGNED, LogPrinter
from dovetail.cli.demo.playback import Playback
from dovetail.cli.demo.screen import Frame, View
from dovetail.codec.text.suggestions import pluralize
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.scenario.model import Phase, Scenario
from dovetail.simulator.scenario_runner import PhaseReport, Report, ScenarioRunner

_POLL_INTERVAL: Final = timedelta(seconds=1)
"""Virtual time between two outputs of log lines."""
_MIN_FRAME_INTERVAL: Final = 0.05
"""Real seconds; frames within a shorter interval are skipped."""
_LOG_LINES: Final = 50
"""More than any terminal shows."""
_LAST_FRAME: Final = 1.0
"""Real seconds."""


class Clock(Protocol):
    """Real time."""

    def seconds(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class DemoRunner:
    """Runs a scenario in a simulated cluster and shows its progress."""

    def __init__(self, cluster: SimulatedCluster, scenario: Scenario) -> None:
        self._cluster = cluster
        self._scenario = scenario
        self._runner = ScenarioRunner(cluster, scenario)
        self._start = cluster.clock.now()
        self._progress: Progress | None = None

    def run(self) -> Report:
        """Run to the end without output."""
        return self._runner.run()

    def run_with_log(self, write: Callable[[str], None]) -> Report:
        """Run as fast as possible and write log lines."""
        lines: deque[str] = deque()
        printer = LogPrinter(self._start, lines.append, fold=3, aligned=ALIGNED)
        self._subscribe(printer)

        def flush() -> None:
            # Write here and not in the log handler: a broken pipe must stop the demo,
            # and not look like an error of a controller.
            printer.finish()
            while lines:
                write(lines.popleft())

        return self._run_steps(_POLL_INTERVAL, flush, skip_idle=True)

    def run_with_view(
        self, show: Callable[[RenderableType], None], playback: Playback, clock: Clock
    ) -> Report:
        """Run at a playback speed and draw frames."""
        lines: deque[str] = deque(maxlen=_LOG_LINES)
        printer = LogPrinter(self._start, lines.append, fold=1, aligned=0)
        self._subscribe(printer)
        cluster_view = ClusterView(self._cluster)
        player = _Player(show, clock)

        def draw() -> None:
            printer.finish()
            player.show_after(
                playback.step_seconds(busy=cluster_view.poll()), lambda: self._view(cluster_view, lines)
            )

        def hold_phase_end(phase_event: Phase | PhaseReport) -> None:
            # Show the result before the next phase changes it.
            if isinstance(phase_event, PhaseReport):
                cluster_view.poll()
                player.hold(self._view(cluster_view, lines), playback.phase_end_seconds())

        self._runner.listeners.append(hold_phase_end)
        report = self._run_steps(playback.step, draw)
        player.hold(self._view(cluster_view, lines), _LAST_FRAME)
        return report

    def _run_steps(
        self, interval: timedelta, after_step: Callable[[], None], *, skip_idle: bool = False
    ) -> Report:
        """Run to the end, calling ``after_step`` after each virtual interval."""
        steps = self._runner.steps(every=interval, skip_idle=skip_idle)
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                report: Report = stop.value
                break
            after_step()
        after_step()
        return report

    def _subscribe(self, printer: LogPrinter) -> None:
        def print_phase(phase_event: Phase | PhaseReport) -> None:
            printer.print(self._cluster.clock.now(), _phase_line(phase_event))

        self._runner.listeners += [self._begin, print_phase]
        self._cluster.log.listeners.append(printer.log)

    def _begin(self, phase_event: Phase | PhaseReport) -> None:
        if isinstance(phase_event, Phase):
            number = self._progress.number + 1 if self._progress else 1
            self._progress = Progress(self._cluster, phase_event, number)

    def _view(self, cluster_view: ClusterView, lines: Iterable[str]) -> View:
        billing, now = self._cluster.ec2.billing, self._cluster.clock.now()
        instances = cluster_view.instances()
        progress = self._progress
        return View(
            scenario=self._scenario.name,
            region=self._scenario.region,
            seconds=(now - self._start).total_seconds(),
            phase=progress.name if progress else "",
            number=progress.number if progress else 0,
            phases=len(self._scenario.phases),
            goal=progress.words() if progress else "",
            progress=progress.share() if progress else 0.0,
            running=self._cluster.recorder.running,
            nodes=billing.instance_count,
            price=billing.price_per_hour(),
            spent=billing.cost(now),
            instances=instances,
            max_instances=cluster_view.max_instances,
            pending=cluster_view.pending(),
            counts=cluster_view.counts(),
            workloads=cluster_view.workloads,
            events=tuple(lines),
        )


class _Player:
    """Shows frames when they are due, and skips frames that are too close."""

    def __init__(self, show: Callable[[RenderableType], None], clock: Clock) -> None:
        self._show = show
        self._clock = clock
        self._due = self._drawn = clock.seconds()

    def show_after(self, step_seconds: float, view: Callable[[], View]) -> None:
        """Show a frame after a delay, unless the last one is too recent."""
        self._due += step_seconds
        if max(self._due, self._clock.seconds()) - self._drawn >= _MIN_FRAME_INTERVAL:
            self._clock.sleep(self._due - self._clock.seconds())
            self._draw(view())

    def hold(self, view: View, seconds: float) -> None:
        """Show a frame for some time."""
        self._draw(view)
        self._due += seconds
        self._clock.sleep(self._due - self._clock.seconds())

    def _draw(self, view: View) -> None:
        self._show(Frame(view))
        self._drawn = self._clock.seconds()


def _phase_line(phase_event: Phase | PhaseReport) -> str:
    if isinstance(phase_event, Phase):
        return f"{phase_event.name} …"
    pods, nodes = pluralize(phase_event.pods_running, "pod"), pluralize(phase_event.nodes, "node")
    outcome = "done" if phase_event.reached else "NOT REACHED"
    summary = f"{phase_event.name}: {outcome} in {phase_event.virtual_seconds:.1f} s"
    return f"{summary}: {pods} on {nodes}, ${phase_event.price_per_hour:.4f}/h"


class Progress:
    """Progress since the start of a phase."""

    def __init__(self, cluster: SimulatedCluster, phase: Phase, number: int) -> None:
        self._cluster = cluster
        self._until = phase.until
        self._from = self._now()
        self.name = phase.name
        self.number = number

    def words(self) -> str:
        """Return current and desired counts: ``72/100 pods``."""
        running, nodes = self._now()
        parts = []
        if self._until.running is not None:
            parts.append(f"{running}/{self._until.running} pods")
        if self._until.nodes is not None:
            parts.append(f"{nodes}/{self._until.nodes} nodes")
        return "  ".join(parts)

    def share(self) -> float:
        """Return the progress, from 0 to 1."""
        targets = (self._until.running, self._until.nodes)
        return min(_share(*counts) for counts in zip(self._from, self._now(), targets, strict=True))

    def _now(self) -> tuple[int, int]:
        return self._cluster.recorder.running, self._cluster.ec2.billing.instance_count


def _share(before: int, now: int, target: int | None) -> float:
    if target is None or now == target:
        return 1.0
    distance = abs(target - before)
    return max(0.0, 1 - abs(target - now) / distance) if distance else 0.0
