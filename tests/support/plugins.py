"""Plug-ins with consolidation policies, installed in a directory for one test."""

from pathlib import Path

import pytest


def install_plugin(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, source: str, *, attribute: str = "Plugin"
) -> None:
    """Write a module and its entry point as an installed package has them."""
    module = f"plugin_{name.replace('-', '_')}"
    (folder / f"{module}.py").write_text(source)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[dovetail.policies]\n{name} = {module}:{attribute}\n")
    monkeypatch.syspath_prepend(str(folder))
