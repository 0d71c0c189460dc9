"""The way through the code: what the page names is there, and it names what is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "dovetail"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
(LAYOUT,) = re.findall(r"```\nsrc/dovetail/\n(.*?)```", PAGE, re.DOTALL)
PLACES = ("", "core/scheduling", "eks", "doctor", "kube")
"""Where names of files are looked for: the page speaks of a package, and then of its files."""


def is_there(name: str) -> bool:
    return any((SOURCE / place / name).exists() for place in PLACES) or (ROOT / name).exists()


def test_every_file_and_package_that_the_page_names_is_there() -> None:
    words = re.findall(r"`([\w./]+(?:\.py|/))`", PAGE)

    assert words
    assert [word for word in words if not is_there(word)] == []


def test_every_package_of_the_program_is_in_the_layout() -> None:
    inner = [one for parent in ("", "core", "simulator") for one in (SOURCE / parent).iterdir()]
    packages = sorted(one.name for one in inner if (one / "__init__.py").exists())

    assert [name for name in packages if f"{name}/" not in LAYOUT] == []


def test_the_layers_are_those_that_are_held() -> None:
    (held,) = re.findall(
        r"\nlayers = \[\n(.*?)\]", (ROOT / "pyproject.toml").read_text(), re.DOTALL
    )
    layers = [re.sub(r"[()]", "", line) for line in re.findall(r'"(.*?)"', held)]

    assert "".join(f"    {line}\n" for line in layers if line != "__main__") in PAGE
