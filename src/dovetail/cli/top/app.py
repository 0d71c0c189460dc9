"""Terminal application of ``dovetail top``."""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import ClassVar, Final

from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen

from dovetail.cli.top.screens import LISTS, HelpScreen, ListScreen, NodesScreen, ViewScreen
from dovetail.dashboard.sources.source import ViewSource, ViewUpdate
from dovetail.host.gc import ShortPauses

EXIT_INTERRUPTED: Final = 130
_SWITCH_SECONDS: Final = 0.001
"""Between threads: keys are answered while another thread evaluates the cluster; default 5 ms."""
_IDLE_SECONDS: Final = 5.0
"""Without a key, after which all garbage may be collected."""
_COLLECTION_SECONDS: Final = 60.0
OpenSource = Callable[[], Awaitable[ViewSource]]


class TopApp(App[int]):
    """Shows the documents of a source; the result is the exit code."""

    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "leave(0)", "Quit", show=False),
        Binding("ctrl+c", f"leave({EXIT_INTERRUPTED})", "Quit", show=False, priority=True),
        Binding("question_mark,f1", "help", "Help", show=False),
        Binding("p", "list('pending')", "Pending pods", show=False),
        Binding("d", "list('decisions')", "Decisions", show=False),
        Binding("o", "list('pools')", "NodePools", show=False),
        Binding("b", "list('blockers')", "Blockers", show=False),
        Binding("c", "list('claims')", "NodeClaims", show=False),
        Binding("n", "list('notices')", "Notices", show=False),
    ]

    def __init__(
        self, open_source: OpenSource, *, sort: str = "price", filter_text: str = "", ascii_only: bool = False
    ) -> None:
        # The colours of the terminal: readable on light and dark, and none with NO_COLOR.
        super().__init__(ansi_color=True)
        self.theme = "ansi-dark"
        self.animation_level = "none"
        self.update: ViewUpdate | None = None
        self.failure: Exception | None = None
        """Why the source cannot be read; the command reports it when the terminal is restored."""
        self._open_source = open_source
        self._pauses = ShortPauses()
        self._last_key = 0.0
        self._node_list = NodesScreen(sort=sort, filter_text=filter_text, ascii_only=ascii_only)

    def get_default_screen(self) -> Screen[None]:
        return self._node_list

    def on_mount(self) -> None:
        sys.setswitchinterval(_SWITCH_SECONDS)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self.action_leave, 128 + number)
        self.run_worker(self._follow(), exit_on_error=False)

    async def on_event(self, event: events.Event) -> None:
        if isinstance(event, events.Key):
            self._last_key = monotonic()
        await super().on_event(event)

    def _collect_garbage(self) -> None:
        if monotonic() - self._last_key >= _IDLE_SECONDS:
            self._pauses.collect()

    async def _follow(self) -> None:
        """Show each document; the source is closed in any case."""
        with self._pauses:
            await self._follow_source()

    async def _follow_source(self) -> None:
        source: ViewSource | None = None
        try:
            source = await self._open_source()
            await source.start()
            async for update in source.updates():
                if self.update is None:
                    self._pauses.exempt_existing()
                    self.set_interval(_COLLECTION_SECONDS, self._collect_garbage)
                self.update = update
                for screen in self.screen_stack:
                    if isinstance(screen, ViewScreen):
                        screen.show(update)
            await asyncio.Event().wait()
        except Exception as error:  # noqa: BLE001 - reported by the command, on a restored terminal
            self.failure = error
            self.exit(1)
        finally:
            if source is not None:
                await source.close()

    def _handle_exception(self, error: Exception) -> None:
        """Leave and have the command report a bug, instead of a traceback with all variables."""
        self.failure = self.failure or error
        self.exit(1)

    def action_leave(self, code: int) -> None:
        self.exit(code)

    def action_help(self) -> None:
        if not isinstance(self.screen, HelpScreen):
            self.push_screen(HelpScreen())

    def action_list(self, name: str) -> None:
        """Show a list instead of what is above the nodes."""
        while len(self.screen_stack) > 1:
            self.pop_screen()
        self.push_screen(ListScreen(LISTS[name], self.update))
