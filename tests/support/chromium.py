"""Chromium for tests of pages."""

import os
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

_PROGRAM = os.environ.get("CHROMIUM", "/usr/bin/chromium")


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A headless browser; a process can have only one."""
    with sync_playwright() as playwright:
        # Chromium's own sandbox needs rights that containers often do not have.
        browser = playwright.chromium.launch(executable_path=_PROGRAM, args=["--no-sandbox"])
        yield browser
        browser.close()
