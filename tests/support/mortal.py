"""Controllers that are killed after a given step, and started again."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import count
from typing import TypeVar

from dovetail.data.bundled import bundled_prices
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.ports.api_resources import EVENTS
from dovetail.ports.kube_client import Kube
from dovetail.simulator.checks.invariants import GuardedKube
from dovetail.simulator.cluster import Box
from dovetail.simulator.ec2.billing import Purchase
from dovetail.simulator.event_loop import Pause
from dovetail.simulator.scenario.model import Scenario
from tests.support.boxes import wait
from tests.support.requests import READS, Front, Request

T = TypeVar("T")
DEAD_FOR = timedelta(seconds=7)
MOST_STEPS = 400


class Fate:
    """Decides after which step the controllers die; they come back a little later."""

    def __init__(self, steps: int) -> None:
        self._left = steps
        self.box: Box | None = None
        self.struck = ""

    def step(self, what: str) -> bool:
        """Count something done; tell whether it was the last thing."""
        if self.box is None or self.struck:
            return False
        self._left -= 1
        if self._left:
            return False
        self.struck = what
        self.box.operator.kill()
        self.box.engine.after(DEAD_FOR, self.box.restart)
        return True


class MortalKube(Front):
    """The way to the API server of somebody who may die after any write."""

    def __init__(self, kube: Kube, fate: Fate) -> None:
        super().__init__(kube)
        self._fate = fate

    async def passing(self, request: Request, answer: Awaitable[T]) -> T:
        answered = await answer
        if request.verb in READS or request.resource is EVENTS:
            return answered
        if self._fate.step(f"{request.verb} {request.resource.kind} {request.subresource}"):
            await Pause()  # Nobody ends it: the process is gone.
        return answered


def a_mortal_box(scenario: Scenario, catalog: Catalog, fate: Fate) -> Box:
    """A cluster whose controllers die after a step that fate chooses."""
    box = Box(
        scenario,
        catalog=catalog,
        prices=bundled_prices(),
        kube=lambda api, invariants: MortalKube(GuardedKube(api, invariants), fate),
    )

    def bought_or_given_back(purchase: Purchase) -> None:
        fate.step("give back" if purchase.shutting_down else "buy")

    box.ec2.ledger.listeners.append(bought_or_given_back)
    return box


def for_every_step(
    a_box: Callable[[Fate], Box],
    prepare: Callable[[Box], None],
    check: Callable[[Box, str], None],
) -> int:
    """Kill after the first step, the second, and so on, until there are no more."""
    for steps in count(1):
        assert steps < MOST_STEPS, "there is no end to it"
        fate = Fate(steps)
        box = a_box(fate)
        wait(box, 3)
        prepare(box)
        fate.box = box
        check(box, f"killed after step {steps}")
        assert box.invariants.violations == [], f"{steps}: {fate.struck}"
        if not fate.struck:
            return steps - 1
    raise AssertionError("counting never ends")
