"""Chromium, and servers that run beside the tests."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from dovetail.dashboard.server import DashboardServer
from dovetail.dashboard.sources.source import SourceStatus
from dovetail.view.document import View
from tests.dashboard.views import FakeSource

TOKEN = "a-token-of-enough-length"  # noqa: S105 - of a test


class Loop:
    """An asyncio loop in a thread: Playwright has one of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(60)

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class Dashboard:
    """A dashboard whose documents a test publishes."""

    def __init__(self, loop: Loop, source: Any) -> None:
        self._loop = loop
        self.source = source
        self._serving: Any = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def start(self) -> None:
        async def start() -> None:
            await self.source.start()
            self._serving = DashboardServer(self.source, get_token=lambda: TOKEN).serving(self.port)
            self.port = await self._serving.__aenter__()

        self._loop.run(start())

    def stop(self) -> None:
        if self._serving is not None:
            self._loop.run(self._serving.__aexit__(None, None, None))
            self._serving = None
            self._loop.run(self.source.close())

    def publish(self, view: View, **status: Any) -> None:
        self._loop.run(self.source.publish(view, SourceStatus(**status)))


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


@pytest.fixture
def serve(loop: Loop) -> Iterator[Callable[[Any], Dashboard]]:
    """Return a function that serves a document or a source."""
    with ExitStack() as stack:

        def serve(source: Any) -> Dashboard:
            dashboard = Dashboard(loop, FakeSource(source) if isinstance(source, View) else source)
            dashboard.start()
            stack.callback(dashboard.stop)
            return dashboard

        yield serve


class Watched:
    """Pages that fail the test if they log an error or ask another host."""

    def __init__(self, context: BrowserContext) -> None:
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.context = context
        context.on("request", lambda request: self.requests.append(request.url))
        context.on("weberror", lambda error: self.problems.append(str(error.error)))
        context.on("console", self._record)

    def _record(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def open(self, dashboard: Dashboard, route: str = "", *, token: str = TOKEN) -> Page:
        """Open a page with the token, wait for the first document, and go to a view."""
        page = self.context.new_page()
        page.set_default_timeout(15_000)
        page.goto(f"{dashboard.url}#token={token}")
        if token == TOKEN:
            page.wait_for_selector("time.clock")
            if route:
                page.evaluate("route => { location.hash = route; }", route)
        return page


@pytest.fixture(params=["light"])
def scheme(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def watched(browser: Browser, scheme: str) -> Iterator[Watched]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    watched = Watched(context)
    yield watched
    context.close()
    hosts = {url.split("/")[2].rpartition(":")[0] for url in watched.requests}
    assert hosts <= {"127.0.0.1"}
    assert watched.problems == []
