"""The cluster in a box, served to kubectl until somebody has seen enough."""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec

from dovetail.logs import Line
from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.cluster import Box
from dovetail.simulator.rest.kubeconfig import kubeconfig
from dovetail.simulator.rest.pacing import FRESH, Pace
from dovetail.simulator.rest.server import Server
from dovetail.simulator.scenario.model import Scenario
from dovetail.simulator.scenario_runner import Driver

CONTROLLER: tuple[str, str] = ("karpenter", "controller")
"""The label of the pod whose log is that of the controllers."""


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """Where the cluster can be reached, and with what."""

    url: str
    kubeconfig: dict[str, Any]


class Sandbox:
    """A box on a port of this machine."""

    def __init__(
        self,
        box: Box,
        *,
        token: str,
        clock: Callable[[], float],
        scenario: Scenario,
        speed: float = 1.0,
    ) -> None:
        """Prepare to serve a box made from ``scenario``, whose phases will be played."""
        story = Driver(box, scenario).steps(every=timedelta(seconds=FRESH * speed))
        self._pace = Pace(box.engine, speed=speed, clock=clock, story=story)
        self._token = token
        self._said: list[str] = []
        box.log.listeners.append(self._hear)
        self._server = Server(
            box.api,
            token=token,
            now=box.engine.now,
            on_activity=self._pace.wake,
            logs=self._log_of,
        )

    async def run(self, *, port: int, ready: Callable[[Served], None], stop: asyncio.Event) -> None:
        """Serve until ``stop``; ``ready`` is told where."""
        chosen = await self._server.start(port)
        url = f"https://127.0.0.1:{chosen}"
        config = kubeconfig(url, self._token, self._server.certificate)
        try:
            ready(Served(url=url, kubeconfig=config))
            await self._pace.run(stop)
        finally:
            await self._server.stop()

    def _hear(self, line: Line) -> None:
        if line.level != "DEBUG":
            self._said.append(line.as_json())

    def _log_of(self, pod: Object) -> list[str] | None:
        key, value = CONTROLLER
        ours = look(pod, "metadata", "labels", key) == value
        return self._said if ours else None
