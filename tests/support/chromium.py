"""Chromium for tests of pages."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

_PROGRAM = os.environ.get("CHROMIUM", "/usr/bin/chromium")


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a headless browser."""
    with sync_playwright() as playwright:
        # Chromium's own sandbox needs rights that containers often do not have.
        browser = playwright.chromium.launch(executable_path=_PROGRAM, args=["--no-sandbox"])
        yield browser
        browser.close()
