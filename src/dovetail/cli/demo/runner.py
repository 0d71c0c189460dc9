"""Running a scenario: with a picture, with lines, or in silence."""

from collections import deque
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Final, Protocol

from rich.console import RenderableType

from dovetail.cli.demo.cluster_view import Scene
from dovetail.cli.demo.log_lines import ALIGNED, Teller
from dovetail.cli.demo.playback import Pace
from dovetail.cli.demo.progress import Progress
from dovetail.cli.demo.screen import Picture, View
from dovetail.codec.text.suggestions import count_of
from dovetail.simulator.cluster import Box
from dovetail.simulator.scenario.model import Phase, Scenario
from dovetail.simulator.scenario_runner import Driver, PhaseReport, Report

_LOOK: Final = timedelta(seconds=1)
"""Virtual time between two looks at what there is to tell."""
_SOON: Final = 0.05
"""Real seconds; pictures that follow faster than that are left out."""
_REMEMBERED: Final = 50
"""Lines; more than any terminal shows."""
_LAST: Final = 1.0
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
        self._progress: Progress | None = None

    def run(self) -> Report:
        """Run to the end without a word."""
        return self._driver.run()

    def tell(self, write: Callable[[str], None]) -> Report:
        """Run as fast as can be and write what happens, line by line."""
        told: deque[str] = deque()
        teller = Teller(self._start, told.append, fold=3, aligned=ALIGNED)
        self._listen(teller)

        def written() -> None:
            # From here and not from where it happens: a reader that has gone away
            # must stop the demo, and not look like a controller's fault.
            teller.finish()
            while told:
                write(told.popleft())

        return self._through(_LOOK, written)

    def show(self, show: Callable[[RenderableType], None], pace: Pace, clock: Clock) -> Report:
        """Run at a pace and show pictures of it."""
        told: deque[str] = deque(maxlen=_REMEMBERED)
        teller = Teller(self._start, told.append, fold=1, aligned=0)
        self._listen(teller)
        scene = Scene(self._box)
        player = _Player(show, clock)

        def look() -> None:
            teller.finish()
            player.at_pace(pace.lasts(busy=scene.catch_up()), lambda: self._view(scene, told))

        def dwell(news: Phase | PhaseReport) -> None:
            # Before the next phase undoes what this one has come to.
            if isinstance(news, PhaseReport):
                scene.catch_up()
                player.hold(self._view(scene, told), pace.dwells())

        self._driver.listeners.append(dwell)
        report = self._through(pace.step, look)
        player.hold(self._view(scene, told), _LAST)
        return report

    def _through(self, every: timedelta, look: Callable[[], None]) -> Report:
        """Run to the end, with a look each time so much virtual time has passed."""
        steps = self._driver.steps(every=every)
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                report: Report = stop.value
                break
            look()
        look()
        return report

    def _listen(self, teller: Teller) -> None:
        def phase(news: Phase | PhaseReport) -> None:
            teller.say(self._box.engine.now(), _told_of_phase(news))

        self._driver.listeners += [self._begin, phase]
        self._box.log.listeners.append(teller.tell)

    def _begin(self, news: Phase | PhaseReport) -> None:
        if isinstance(news, Phase):
            number = self._progress.number + 1 if self._progress else 1
            self._progress = Progress(self._box, news, number)

    def _view(self, scene: Scene, told: Iterable[str]) -> View:
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
            events=tuple(told),
        )


class _Player:
    """Shows pictures when they are due, and none that nobody could see."""

    def __init__(self, show: Callable[[RenderableType], None], clock: Clock) -> None:
        self._show = show
        self._clock = clock
        self._due = self._drawn = clock.seconds()

    def at_pace(self, lasts: float, view: Callable[[], View]) -> None:
        """Let so much real time pass, then show; leave it out if the last one is too fresh."""
        self._due += lasts
        if max(self._due, self._clock.seconds()) - self._drawn >= _SOON:
            self._clock.sleep(self._due - self._clock.seconds())
            self._draw(view())

    def hold(self, view: View, seconds: float) -> None:
        """Show and leave it there for a while."""
        self._draw(view)
        self._due += seconds
        self._clock.sleep(self._due - self._clock.seconds())

    def _draw(self, view: View) -> None:
        self._show(Picture(view))
        self._drawn = self._clock.seconds()


def _told_of_phase(news: Phase | PhaseReport) -> str:
    if isinstance(news, Phase):
        return f"{news.name} …"
    pods, nodes = count_of(news.pods_running, "pod"), count_of(news.nodes, "node")
    how = "done" if news.reached else "NOT REACHED"
    took = f"{news.name}: {how} in {news.virtual_seconds:.1f} s"
    return f"{took}: {pods} on {nodes}, ${news.price_per_hour:.4f}/h"
