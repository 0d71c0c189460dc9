"""Hooks of mkdocs: pages and links outside of ``docs``.

Pages link to files of the repository, such as tests. With a ``repo_url`` these links lead
there; without one only their text stays. Pages of the root folder become its pages.
"""

import os
import re
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_ROOT: Final = Path(__file__).parent.parent
_DOCS: Final = _ROOT / "docs"
_PROJECT_PAGES: Final = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")
_CODE: Final = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)
_LINK: Final = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the decisions and the pages of the root folder to the navigation."""
    decisions = sorted(f"decisions/{path.name}" for path in (_DOCS / "decisions").glob("*.md"))
    nav: list[Any] = config.nav or []
    reference = next(item["Reference"] for item in nav if isinstance(item, dict) and "Reference" in item)
    reference += [{"Decisions": decisions}, {"Project": list(_PROJECT_PAGES)}]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the root folder."""
    for name in _PROJECT_PAGES:
        files.append(File.generated(config, name, abs_src_path=str(_ROOT / name)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite links to what is elsewhere; code stays as it is."""
    source = Path(page.file.abs_src_path or "")

    def rewrite(match: re.Match[str]) -> str:
        text, link = match.groups()
        path, hash_sign, anchor = link.partition("#")
        if "://" in link or not path:
            return match[0]
        url = _resolve((source.parent / path).resolve(), page.file.src_uri, config.repo_url)
        return f"[{_LINK.sub(rewrite, text)}]({url}{hash_sign}{anchor})" if url else text

    # Links have no code in their address, but may have some in their text: hide it first.
    codes: list[str] = []

    def hide(match: re.Match[str]) -> str:
        codes.append(match[0])
        return f"\0{len(codes) - 1}\0"

    rewritten = _LINK.sub(rewrite, _CODE.sub(hide, markdown))
    return re.sub("\0(\\d+)\0", lambda match: codes[int(match[1])], rewritten)


def _resolve(target: Path, page: str, repository: str | None) -> str:
    """Return the URL of a file as seen from a page; empty if there is none."""
    if target.is_relative_to(_DOCS) and target.is_file():
        location = target.relative_to(_DOCS).as_posix()
    elif target.parent == _ROOT and target.name in _PROJECT_PAGES:
        location = target.name
    elif repository and target.is_relative_to(_ROOT):
        return f"{repository.rstrip('/')}/blob/main/{target.relative_to(_ROOT).as_posix()}"
    else:
        return ""
    return os.path.relpath(location, os.path.dirname(page)).replace(os.sep, "/")
