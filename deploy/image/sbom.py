"""Write the bill of materials of the image, in the format CycloneDX 1.5.

    sbom.py ROOTFS ENVIRONMENT REPORT

Lists the Python packages of the environment with the hashes of their archives (from
the report of pip), the Python interpreter, and the Debian packages that libraries come
from. It contains no time and no random number: equal images have equal files.
"""

import json
import platform
import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

FILE = "usr/share/sbom/dovetail.cdx.json"
Component = dict[str, Any]


def main(rootfs: Path, environment: Path, report: Path) -> None:
    """Write the file into the root file system."""
    hashes = _archive_hashes(report)
    installed = {_normal(package.name): package for package in _installed(rootfs, environment)}
    project = installed["dovetail"]
    components = [_python_package(package, hashes) for _, package in sorted(installed.items())]
    components = [component for component in components if component["name"] != "dovetail"]
    components += [_interpreter(), *_debian_packages(rootfs)]
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**_python_package(project, hashes), "type": "application"}},
        "components": components,
        "dependencies": [
            {"ref": _purl(package), "dependsOn": sorted(_dependencies(package, installed))}
            for _, package in sorted(installed.items())
        ],
    }
    target = rootfs / FILE
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(document, indent=1) + "\n")


def _installed(rootfs: Path, environment: Path) -> Iterator[Distribution]:
    (packages,) = (rootfs / environment.relative_to("/")).glob("lib/python*/site-packages")
    yield from distributions(path=[str(packages)])


def _archive_hashes(report: Path) -> dict[str, str]:
    """Return the SHA-256 of each package's archive, by name; pip before 23.1 calls the field `hash`."""
    archives = {
        _normal(entry["metadata"]["name"]): entry["download_info"]["archive_info"]
        for entry in json.loads(report.read_text())["install"]
    }
    hashes = {
        name: archive.get("hashes", {}).get("sha256") or archive.get("hash", "").removeprefix("sha256=")
        for name, archive in archives.items()
    }
    return {name: value for name, value in hashes.items() if value}


def _python_package(package: Distribution, hashes: dict[str, str]) -> Component:
    name = _normal(package.name)
    component = _component("library", name, package.version, _purl(package))
    if name in hashes:
        component["hashes"] = [{"alg": "SHA-256", "content": hashes[name]}]
    licence = package.metadata["License-Expression"] or package.metadata["License"]
    if licence:
        # A field of one line; some packages put the whole text here.
        component["licenses"] = [{"license": {"name": licence.strip().splitlines()[0]}}]
    return component


def _interpreter() -> Component:
    version = platform.python_version()
    return _component("platform", "cpython", version, f"pkg:generic/python@{version}")


def _debian_packages(rootfs: Path) -> Iterator[Component]:
    for status in sorted((rootfs / "var" / "lib" / "dpkg" / "status.d").iterdir()):
        fields = dict(re.findall(r"^(Version|Architecture): (.+)$", status.read_text(), re.MULTILINE))
        purl = f"pkg:deb/debian/{status.name}@{fields['Version']}?arch={fields['Architecture']}"
        yield _component("library", status.name, fields["Version"], purl.replace("+", "%2B"))


def _component(kind: str, name: str, version: str, purl: str) -> Component:
    return {"type": kind, "bom-ref": purl, "name": name, "version": version, "purl": purl}


def _dependencies(package: Distribution, installed: dict[str, Distribution]) -> set[str]:
    """Return the references of the installed packages that a package requires, with any extra."""
    required = (re.match(r"[A-Za-z0-9._-]+", line) for line in package.requires or ())
    names = {_normal(match[0]) for match in required if match}
    return {_purl(installed[name]) for name in names & installed.keys() if installed[name] != package}


def _purl(package: Distribution) -> str:
    return f"pkg:pypi/{_normal(package.name)}@{package.version}"


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:4]))
