"""The documentation: built without a warning, complete, and usable offline."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from playwright.sync_api import Browser, expect

from tests.docs.test_links import ROOT

_SOURCE = re.compile(r"^\s*(```|\|.*\||[-*] \S|\d+\. \S|#+ )|```|\]\(")
"""Markdown that no reader should see in a text."""


class _Texts(HTMLParser):
    """Lines of paragraphs, without code, and addresses that a browser loads."""

    _CODE = frozenset({"pre", "code", "script", "style", "svg"})

    def __init__(self) -> None:
        super().__init__()
        self._code = 0
        self._paragraphs = 0
        self.lines: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._code += tag in self._CODE
        self._paragraphs += tag == "p"
        values = dict(attrs)
        is_loaded = tag in {"script", "img", "iframe"} or (
            tag == "link" and values.get("rel") in {"stylesheet", "icon", "preconnect"}
        )
        if is_loaded:
            self.loaded.append(values.get("src") or values.get("href") or "")

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in self._CODE
        self._paragraphs -= tag == "p"

    def handle_data(self, data: str) -> None:
        if self._paragraphs and not self._code:
            self.lines += data.splitlines()


@pytest.fixture(scope="module")
def pages_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the pages as ``make docs`` does."""
    folder = tmp_path_factory.mktemp("documentation")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", folder],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (built.returncode, built.stderr) == (0, "")
    return folder


def test_every_page_is_built_without_warnings_as_text_without_markup_and_loads_nothing_from_elsewhere(
    pages_folder: Path,
) -> None:
    pages = sorted(page for page in pages_folder.rglob("*.html") if page.name != "404.html")

    sources = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert sources <= {page.relative_to(pages_folder) for page in pages}
    for page in pages:
        texts = _Texts()
        texts.feed(page.read_text(encoding="utf-8"))
        assert [line for line in texts.lines if _SOURCE.search(line)] == [], page
        assert [address for address in texts.loaded if "//" in address] == [], page


@pytest.fixture
def address(pages_folder: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(pages_folder)))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.browser
def test_search_finds_a_page_without_a_request_to_another_host(address: str, browser: Browser) -> None:
    requests: list[str] = []
    errors: list[str] = []
    page = browser.new_page()
    page.on("request", lambda request: requests.append(request.url))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{address}/index.html")

    page.locator("input.md-search__input").click()
    page.locator("input.md-search__input").press_sequentially("burstable")
    page.locator(".md-search-result__link", has_text="Burstable").first.click()

    expect(page.locator("article h1").first).to_contain_text("urstable")
    assert [url for url in requests if not url.startswith((address, "blob:", "data:"))] == []
    assert errors == []
