"""Structure of the source tree: sizes of folders and modules, names of classes and annotations."""

import ast
import re
from collections import Counter, defaultdict
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "dovetail"

MAX_MODULES = 16
"""Modules in a folder, without ``__init__.py``."""

MAX_LINES = 500
"""Lines of a module; a longer module has more than one concept."""

MIN_LINES = 60
"""Lines below which a module with a single sibling importer belongs in that importer."""

SMALL_MODULES = {
    "aws.amifamily.custom": "one module per AMI family",
    "controllers.nodeclaim.lifecycle.initialization": "one module per phase of the lifecycle",
    "controllers.provisioning.batch_window": "a concept of its own, with its own tests",
}
"""Modules below MIN_LINES with one sibling importer that stay separate, and why."""

SAME_NAME: dict[str, str] = {}
"""Class names that two modules of one package share, as ``package.Class``, and why."""

SUITES = {
    Path("aws/emulator"): "moto, where it behaves as EC2 does",
    Path("aws/golden"): "the requests of all AWS adapters together",
}
"""Folders of tests that are about more than one package, and why."""

OWN_PREFIX = "dovetail.sh/"


@cache
def trees() -> dict[str, ast.Module]:
    """Return the syntax tree of every module, by its dotted name below ``dovetail``."""
    return {dotted(path): ast.parse(path.read_text(encoding="utf-8")) for path in modules()}


@cache
def modules() -> list[Path]:
    return [path for path in sorted(SOURCE.rglob("*.py")) if path.name != "__init__.py"]


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def imported(tree: ast.Module) -> set[str]:
    """Return every name that a module imports from ``dovetail``, dotted; imports in functions count."""
    names = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return {name.removeprefix("dovetail.") for name in names if name.startswith("dovetail.")}


def importers(parsed: dict[str, ast.Module]) -> dict[str, set[str]]:
    """Return the modules that import each module."""
    result = defaultdict[str, set[str]](set)
    for module, tree in parsed.items():
        for name in imported(tree):
            result[name].add(module)
    return result


def is_sibling(module: str, other: str) -> bool:
    return module.rpartition(".")[0] == other.rpartition(".")[0]


@cache
def exported_by_packages() -> set[str]:
    """Return the modules whose names some ``__init__.py`` exports."""
    texts = [path.read_text(encoding="utf-8") for path in SOURCE.rglob("__init__.py")]
    return {
        name.removeprefix("dovetail.") for text in texts for name in re.findall(r"dovetail\.[\w.]+", text)
    }


def test_no_folder_has_more_than_16_modules() -> None:
    counts = Counter(path.parent for path in modules())

    assert {str(folder): count for folder, count in counts.items() if count > MAX_MODULES} == {}


def test_no_module_has_more_than_500_lines() -> None:
    lengths = {dotted(path): len(path.read_text(encoding="utf-8").splitlines()) for path in modules()}

    assert {module: length for module, length in lengths.items() if length > MAX_LINES} == {}


def test_small_modules_with_a_single_sibling_importer_are_merged_into_it() -> None:
    lengths = {dotted(path): len(path.read_text(encoding="utf-8").splitlines()) for path in modules()}
    by_module = importers(trees())

    mergeable = {
        module
        for module, length in lengths.items()
        if length < MIN_LINES
        and len(by_module[module]) == 1
        and all(is_sibling(module, importer) for importer in by_module[module])
        and module not in exported_by_packages()
    }

    assert mergeable - SMALL_MODULES.keys() == set()
    assert SMALL_MODULES.keys() - mergeable == set(), "no longer exceptions"


def test_public_class_names_are_unique_within_a_package() -> None:
    defined = defaultdict[str, list[str]](list)
    for module, tree in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined[f"{module.partition('.')[0]}.{node.name}"].append(module)

    repeated = {name: places for name, places in defined.items() if len(places) > 1}
    assert {name: places for name, places in repeated.items() if name not in SAME_NAME} == {}


def test_own_annotations_labels_and_tags_have_one_prefix() -> None:
    strings = {
        node.value
        for tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }

    keys = {text for text in strings if re.fullmatch(r"[\w.-]*dovetail[\w.-]*[/:][\w./:-]+", text)}
    assert {key for key in keys if key.startswith(OWN_PREFIX)}, "the pattern finds none"
    assert {key for key in keys if not key.startswith(OWN_PREFIX)} == set()


def test_packages_hold_exports_only() -> None:
    definitions = [
        f"{path.relative_to(SOURCE)}: {node.name}"
        for path in sorted(SOURCE.rglob("__init__.py"))
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name != "__getattr__"
    ]

    assert definitions == []


def test_folders_of_tests_are_those_of_the_packages() -> None:
    packages = {folder.name for folder in SOURCE.iterdir() if (folder / "__init__.py").exists()}
    folders = [path.parent.relative_to(ROOT / "tests") for path in (ROOT / "tests").rglob("test_*.py")]
    in_packages = {folder for folder in folders if folder.parts and folder.parts[0] in packages}

    # A module may have a folder of tests.
    unknown = [
        str(folder)
        for folder in in_packages
        if folder not in SUITES
        and not (SOURCE / folder).is_dir()
        and not (SOURCE / folder).with_suffix(".py").exists()
    ]
    assert sorted(unknown) == []
