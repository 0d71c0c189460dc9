"""Running a scenario: with a picture, with lines, or in silence."""

from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Final, Protocol

from rich.console import RenderableType

from dovetail.cli.demo_lines import Teller
from dovetail.cli.demo_pace import Pace
from dovetail.cli.demo_picture import Picture, View
from dovetail.cli.demo_progress import Progress
from dovetail.cli.demo_scene import Scene
from dovetail.sim.box import Box
from dovetail.sim.driver import Driver, PhaseReport, Report
from dovetail.sim.scenario.model import Phase, Scenario

_LOOK: Final = timedelta(seconds=1)
"""Virtual time between two looks at what there is to tell."""
_SOON: Final = 0.05
"""Real seconds; pictures that follow faster than that are left out."""
_LAST: Final = 1.5
"""Real seconds for the last picture."""


class Clock(Protocol):
    """Real time."""

    def seconds(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class Stage:
    """A box, its driver, and what they tell on the way."""

    def __init__(self, box: Box, scenario: Scenario) -> None:
        self._box = box
        self._scenario = scenario
        self._driver = Driver(box, scenario)
        self._start = box.engine.now()
        self._told: deque[str] = deque()
        self._teller = Teller(self._start, self._told.append)
        self._progress: Progress | None = None

    def run(self) -> Report:
        """Run to the end without a word."""
        return self._driver.run()

    def tell(self, write: Callable[[str], None]) -> Report:
        """Run as fast as can be and write what happens, line by line."""
        self._listen()
        steps = self._driver.steps(every=_LOOK)
        while True:
            # Written from here and not from where it happens: a reader that has
            # gone away must stop the demo, and not look like a controller's fault.
            try:
                next(steps)
            except StopIteration as stop:
                self._write(write)
                report: Report = stop.value
                return report
            self._write(write)

    def show(self, show: Callable[[RenderableType], None], pace: Pace, clock: Clock) -> Report:
        """Run at a pace and show pictures of it."""
        self._listen()
        scene = Scene(self._box)
        steps = self._driver.steps(every=pace.step)
        due = drawn = clock.seconds()
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                scene.catch_up()
                show(Picture(self._view(scene)))
                clock.sleep(_LAST)
                report: Report = stop.value
                return report
            due += pace.lasts(busy=scene.catch_up())
            if max(due, clock.seconds()) - drawn < _SOON:
                continue
            clock.sleep(due - clock.seconds())
            show(Picture(self._view(scene)))
            drawn = clock.seconds()

    def _listen(self) -> None:
        self._driver.listeners.append(self._phase)
        self._box.log.listeners.append(self._teller.tell)

    def _write(self, write: Callable[[str], None]) -> None:
        while self._told:
            write(self._told.popleft())

    def _phase(self, news: Phase | PhaseReport) -> None:
        if isinstance(news, Phase):
            number = self._progress.number + 1 if self._progress else 1
            self._progress = Progress(self._box, news, number)
            self._teller.say(self._box.engine.now(), f"{news.name} …")
            return
        came = f"{news.pods_running} pods on {news.nodes} nodes, ${news.price_per_hour:.4f}/h"
        how = "done" if news.reached else "NOT REACHED"
        took = f"in {news.virtual_seconds:.1f} s"
        self._teller.say(self._box.engine.now(), f"{news.name}: {how} {took}: {came}")

    def _view(self, scene: Scene) -> View:
        ledger, now = self._box.ec2.ledger, self._box.engine.now()
        machines = scene.machines()
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
            running=self._box.chronicle.running,
            nodes=ledger.machines,
            price=ledger.price_per_hour(),
            spent=ledger.cost(now),
            machines=machines,
            most=scene.most,
            waiting=scene.waiting(),
            counts=scene.counts(),
            workloads=scene.workloads,
            events=tuple(self._told),
        )
