"""The architecture page names files, packages, layers and functions that exist."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "dovetail"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
(LAYOUT,) = re.findall(r"```\nsrc/dovetail/\n(.*?)```", PAGE, re.DOTALL)
MAIN_LINES = dict(re.findall(r"^### ([^\n]+)\n\n((?:\d+\. [^\n]+\n)+)", PAGE, re.MULTILINE))
"""Title → its numbered list of files."""

STEP = re.compile(r"^(\d+)\. `([\w/]+\.py)` \(`(\w+)`\): ", re.MULTILINE)
MAX_FILES = 12
EACH_LINE = pytest.mark.parametrize("title", MAIN_LINES)


def steps(title: str) -> list[tuple[str, str]]:
    """Return file and function of every step of a main line."""
    return [(path, name) for _, path, name in STEP.findall(MAIN_LINES[title])]


def defined_in(path: Path) -> set[str]:
    """Return the names of all functions, methods and classes of a module."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return {node.name for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, kinds)}


def test_the_five_main_lines_are_on_the_page() -> None:
    assert list(MAIN_LINES) == [
        "Pending pod → running node",
        "Node deleted → gone",
        "`dovetail simulate`",
        "`dovetail preview`",
        "`dovetail cluster apply`",
    ]


@EACH_LINE
def test_a_main_line_has_at_most_12_files(title: str) -> None:
    numbers = [int(number) for number, _, _ in STEP.findall(MAIN_LINES[title])]

    assert numbers == list(range(1, MAIN_LINES[title].count("\n") + 1))
    assert len({path for path, _ in steps(title)}) == len(numbers) <= MAX_FILES


@EACH_LINE
def test_every_function_of_a_main_line_is_defined_in_its_file(title: str) -> None:
    missing = [
        f"{path}: {name}"
        for path, name in steps(title)
        if not (SOURCE / path).exists() or name not in defined_in(SOURCE / path)
    ]

    assert missing == []


@EACH_LINE
def test_every_function_of_a_main_line_is_used_by_an_earlier_file(title: str) -> None:
    """A step is called from a file before it, or is the start, or reacts to a watch event."""
    files = [path for path, _ in steps(title)]
    unused = [
        f"{path}: {name}"
        for number, (path, name) in enumerate(steps(title))
        if number > 0
        and name not in ("reconcile", "Reflectors", "apply_event", "ClusterHandler")
        and not any(
            re.search(rf"\b{name}\b", (SOURCE / earlier).read_text("utf-8"))
            for earlier in files
            if earlier != path
        )
    ]

    assert unused == []


def test_every_file_and_package_that_the_page_names_exists() -> None:
    words = re.findall(r"`([\w./]+(?:\.py|/))`", PAGE)

    assert words
    assert [word for word in words if not (SOURCE / word).exists() and not (ROOT / word).exists()] == []


def test_every_package_is_in_the_tree() -> None:
    folders = [folder for parent in ("", "core", "simulator") for folder in (SOURCE / parent).iterdir()]
    packages = sorted(folder.name for folder in folders if (folder / "__init__.py").exists())

    assert [name for name in packages if f"{name}/" not in LAYOUT] == []


def test_every_package_of_the_tree_exists() -> None:
    packages = {folder.name for folder in SOURCE.rglob("*") if (folder / "__init__.py").exists()}
    before_bench = LAYOUT.partition("\nbench/")[0]
    names = set(re.findall(r"(?:^|  )([a-z0-9]+)/", before_bench, re.MULTILINE))

    assert sorted(names - packages) == []


def test_every_module_of_the_tree_exists() -> None:
    """Words with an underscore are modules, and so are all words of a list."""
    modules = {path.stem for path in SOURCE.rglob("*.py")}
    words = set(re.findall(r"\b([a-z0-9]+_[a-z_0-9]+)\b", LAYOUT.partition("\nbench/")[0]))
    lists = re.findall(r"^ +([a-z]+)/ +([a-z_]+(?:, [a-z_]+)+)(?: …)?$", LAYOUT, re.MULTILINE)

    assert sorted(words - modules) == []
    assert [
        (folder, word) for folder, names in lists for word in names.split(", ") if word not in modules
    ] == []


def test_layers_of_the_page_are_those_that_import_linter_checks() -> None:
    (checked,) = re.findall(r"\nlayers = \[\n(.*?)\]", (ROOT / "pyproject.toml").read_text(), re.DOTALL)
    layers = [re.sub(r"[()]", "", line) for line in re.findall(r'"(.*?)"', checked)]

    assert "".join(f"    {line}\n" for line in layers if line != "__main__") in PAGE


def test_only_the_named_modules_import_the_aws_sdk() -> None:
    (bullet,) = re.findall(r"- \*\*The AWS SDK\*\*(.*?)\n\n", PAGE, re.DOTALL)
    importers = {
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*.py")
        if re.search(r"^ *(?:import|from) (?:boto3|botocore)\b", path.read_text("utf-8"), re.MULTILINE)
    }

    outside = {path for path in importers if not path.startswith("aws/")}
    assert outside == set(re.findall(r"`([\w/]+\.py)`", bullet))
