"""Select the files of the image: an environment, its Python and their libraries.

    root_filesystem.py ENVIRONMENT TARGET

Runs in the build stage of the Dockerfile, with the Python of the base image. The
result has no shell, no package manager and no files that the controller does not
read. Files keep their paths, so that links and library paths stay valid.
"""

import compileall
import os
import py_compile
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

USER = 65532
UNUSED_MODULES = (
    "config-*",
    "dist-packages",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "pydoc_data",
    "site-packages",
    "test",
    "tests",
    "tkinter",
    "turtledemo",
    "turtle.py",
    "_tkinter*.so",
)
"""Parts of the standard library, and Python packages of the base, without a use here."""
UNUSED_PARTS = "lib/python*/site-packages/cel_expr_python/ext/*.so"
"""Files of the environment: extensions of CEL that no expression can use, 38 MB."""
PROGRAMS = ("dovetail", "python*")
"""Programs of the environment that stay; other packages have some, too."""
EMPTY_FOLDERS = ("dev", "etc", "proc", "sys", "tmp", "run", "var")


def main(environment: Path, target: Path) -> None:
    """Copy the files to a new folder and compile the modules."""
    programs = [path for path in (environment / "bin").glob("*[!_]") if not _matches(path.name, PROGRAMS)]
    for path in [*programs, *environment.glob(UNUSED_PARTS)]:
        path.unlink()
    roots = [environment, *_python()]
    files = list(dict.fromkeys(path for root in roots for path in _walk(root)))
    binaries = [path for path in files if _is_binary(path)]
    libraries = sorted(_libraries(binaries))
    for folder in EMPTY_FOLDERS:
        (target / folder).mkdir(parents=True, exist_ok=True)
    (target / "tmp").chmod(0o1777)
    # Merged /usr: the loader's path, which is part of every program, starts with such a link.
    for folder in (Path("/lib"), Path("/lib64")):
        if folder.is_symlink():
            (target / folder.name).symlink_to(os.readlink(folder))
    packages = _packages([*binaries, *libraries, Path(os.__file__)])
    for path in [*files, *libraries, *_certificates(), *_documents(packages)]:
        _copy(path, target)
    _write_user(target)
    _write_package_database(packages, target)
    # The file system is read-only at run time. Hashes instead of times: equal files for equal sources.
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    for root in roots:
        if root.is_dir():
            strip = {"stripdir": str(target), "prependdir": "/"}
            compileall.compile_dir(_at(root, target), quiet=2, invalidation_mode=unchecked, **strip)


def _python() -> list[Path]:
    """Return the interpreter of the base image, the links to it, and the standard library."""
    links = [Path(sys.executable)]
    while links[-1].is_symlink():
        links.append(links[-1].parent / os.readlink(links[-1]))
    return [*links, Path(sysconfig.get_path("stdlib"))]


def _walk(root: Path) -> Iterator[Path]:
    if not root.is_dir():
        yield root
        return
    for folder, folders, names in os.walk(root):
        path = Path(folder)
        unused = UNUSED_MODULES if path == root else ("__pycache__",)
        folders[:] = [name for name in folders if not _matches(name, (*unused, "__pycache__"))]
        # A link to a folder is copied as a link.
        links = [name for name in folders if (path / name).is_symlink()]
        yield from (path / name for name in [*links, *names] if not _matches(name, unused))


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(Path(name).match(pattern) for pattern in patterns)


def _is_binary(path: Path) -> bool:
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _libraries(programs: Iterable[Path]) -> set[Path]:
    """Return the shared libraries of the base that programs load, and the links to them."""
    output = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    found = {Path(match) for match in re.findall(r"(?:=> |^\s*)(/\S+) \(0x", output, re.MULTILINE)}
    links = set()
    for path in found:
        while path.is_symlink():
            links.add(path)
            path = path.parent / os.readlink(path)
        links.add(path)
    return links


def _certificates() -> list[Path]:
    """Return the certificate authorities, and the folder where OpenSSL looks for them."""
    places = [Path("/usr/lib/ssl/certs"), Path("/usr/lib/ssl/openssl.cnf"), Path("/etc/ssl/openssl.cnf")]
    return [*places, *Path("/etc/ssl/certs").glob("*"), Path("/etc/os-release")]


def _packages(files: Iterable[Path]) -> list[str]:
    """Return the Debian packages of files; a Python that is no Debian package has none."""
    names = set()
    # dpkg knows a file by the path of its package, which may be the one before /usr was merged.
    paths = {str(variant) for path in files for variant in (path, path.resolve(), _unmerged(path))}
    listing = subprocess.run(
        ["dpkg-query", "--search", *sorted(paths)], capture_output=True, text=True, check=False
    ).stdout
    for line in listing.splitlines():
        owners, separator, _path = line.rpartition(": ")
        if separator and not owners.startswith("diversion"):
            names |= {owner.partition(":")[0] for owner in owners.split(", ")}
    return sorted(names | {"ca-certificates"})


def _unmerged(path: Path) -> Path:
    return Path("/", path.relative_to("/usr")) if path.is_relative_to("/usr") else path


def _documents(packages: Iterable[str]) -> Iterator[Path]:
    for name in packages:
        yield Path("/usr/share/doc", name, "copyright")


def _copy(path: Path, target: Path) -> None:
    """Copy a file or link; a link to somewhere outside becomes a file."""
    copy = _at(path, target)
    if copy.exists() or copy.is_symlink() or not path.exists():
        return
    copy.parent.mkdir(parents=True, exist_ok=True)
    is_certificate = path.is_relative_to("/etc/ssl/certs") and path.is_file()
    shutil.copy2(path, copy, follow_symlinks=is_certificate or path == Path("/etc/os-release"))


def _at(path: Path, target: Path) -> Path:
    """Return the path of a file below the target, with links of its folders resolved."""
    return target / path.parent.resolve().relative_to("/") / path.name


def _write_user(target: Path) -> None:
    (target / "etc" / "passwd").write_text(
        f"root:x:0:0:root:/nonexistent:/nonexistent\nnonroot:x:{USER}:{USER}:nonroot:/nonexistent:/nonexistent\n"
    )
    (target / "etc" / "group").write_text(f"root:x:0:\nnonroot:x:{USER}:\n")


def _write_package_database(packages: Iterable[str], target: Path) -> None:
    """Write what scanners read in images without dpkg: one file per package."""
    folder = target / "var" / "lib" / "dpkg" / "status.d"
    folder.mkdir(parents=True)
    for name in packages:
        status = subprocess.run(["dpkg-query", "--status", name], capture_output=True, text=True, check=True)
        (folder / name).write_text(status.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
