"""Code of a plug-in: its files, found without importing it, and their hash."""

from collections.abc import Iterator
from hashlib import sha256
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from dovetail.policies.load import EXAMPLES, find_policy

_COMPILED: Final = "__pycache__"


def hash_plugin(text: str) -> str:
    """Return a hash of the code of a policy; empty: it belongs to this release.

    All files of its distribution and of its outermost package count, data files as well.
    """
    point = find_policy(text)
    if not isinstance(point, EntryPoint) or point in EXAMPLES.values():
        return ""
    digest = sha256(point.value.encode())
    for path in sorted({*_find_package_files(point.module), *_find_installed_files(point)}):
        if _COMPILED not in path.parts and path.is_file():
            digest.update(f"\0{path}\0".encode())
            digest.update(sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _find_installed_files(point: EntryPoint) -> Iterator[Path]:
    """Yield the files that an installer wrote; of an editable installation, few."""
    for file in (point.dist and point.dist.files) or ():
        yield Path(str(file.locate()))


def _find_package_files(module: str) -> Iterator[Path]:
    """Yield the files of the outermost package of a module, or of the module itself."""
    outermost, *inner = module.split(".")
    try:
        spec = find_spec(outermost)
        # A namespace package has parts of other distributions: the next package counts.
        while spec is not None and spec.origin is None and inner:
            spec = PathFinder.find_spec(f"{spec.name}.{inner.pop(0)}", spec.submodule_search_locations)
    except (ImportError, ValueError):
        return
    if spec is None:
        return
    for folder in spec.submodule_search_locations or ():
        yield from Path(folder).rglob("*")
    if spec.origin is not None:
        yield Path(spec.origin)
