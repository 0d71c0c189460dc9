"""The Dockerfile: non-root, pinned, without secrets; its installation works."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"


def instructions() -> list[tuple[str, str]]:
    """Return the name and arguments of each instruction, continued lines joined."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE)
    joined = re.sub(r"\\\n\s*", " ", text)
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in joined.splitlines() if line.strip()]


def last_stage() -> list[tuple[str, str]]:
    lines = instructions()
    start = max(index for index, (name, _) in enumerate(lines) if name == "FROM")
    return lines[start:]


def test_the_image_runs_as_non_root_without_a_shell() -> None:
    stage = dict(last_stage())

    assert stage["USER"] == "65532:65532"
    assert json.loads(stage["ENTRYPOINT"]) == ["/opt/dovetail/bin/dovetail"]
    assert json.loads(stage["CMD"]) == ["run"]
    assert stage["ENV"].split()[0] == "PYTHONDONTWRITEBYTECODE=1"


def test_no_instruction_uses_a_shell() -> None:
    for name, rest in instructions():
        if name in ("RUN", "ENTRYPOINT", "CMD"):
            assert isinstance(json.loads(rest), list)


def test_the_last_stage_is_empty_but_for_the_files_that_the_first_selects() -> None:
    stage = last_stage()

    assert stage[0] == ("FROM", "scratch")
    assert [rest for name, rest in stage if name in ("COPY", "ADD", "RUN")] == ["--from=build /rootfs /"]


def test_the_base_image_is_pinned_by_digest() -> None:
    (base,) = [rest for name, rest in instructions() if name == "ARG"]

    assert re.fullmatch(r"BASE=docker\.io/library/python:3\.11-bookworm@sha256:[0-9a-f]{64}", base)
    assert [rest for name, rest in instructions() if name == "FROM"] == ["${BASE} AS build", "scratch"]


def test_copied_paths_exist_and_are_not_ignored() -> None:
    included = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().split()
    copied = [
        source
        for name, rest in instructions()
        if name == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]

    assert copied
    for source in copied:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in included, source


def test_all_requirements_are_pinned_by_hash() -> None:
    installs = [json.loads(rest) for name, rest in instructions() if name == "RUN" and '"install"' in rest]

    assert len(installs) == 3
    for command in installs:
        assert "--require-hashes" in command or {"--no-deps", "--no-index"} <= set(command)


def test_the_dockerfile_contains_no_secret_and_no_host() -> None:
    text = DOCKERFILE.read_text()

    assert not re.search(r"(?i)token|password|secret|aws_access|https?://", text)


def test_the_python_version_is_supported() -> None:
    (version,) = [match[1] for name, rest in instructions() if (match := re.match(r"BASE=.*:([\d.]+)", rest))]
    required = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]

    assert required.startswith(">=")
    assert _numbers(version) >= _numbers(required.removeprefix(">="))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


@pytest.mark.slow
def test_the_installed_package_works_without_the_sources(tmp_path: Path) -> None:
    """Run the steps of the Dockerfile with this Python, in a temporary folder."""
    uv, environment = shutil.which("uv"), tmp_path / "venv"

    def step(*command: str | Path) -> str:
        result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        return result.stdout

    sources = tmp_path / "sources"
    sources.mkdir()
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, sources)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so")
    shutil.copytree(ROOT / "src", sources / "src", ignore=ignored)
    wheels = tmp_path / "dist"
    step(sys.executable, "-c", _BUILD, sources, wheels)
    venv.create(environment, with_pip=uv is None)
    python = environment / "bin" / "python"
    pip = [uv, "pip", "install", "--python", python] if uv else [python, "-m", "pip", "install"]
    pinned = ["--require-hashes", "--only-binary=:all:", "-r", ROOT / "requirements" / "run.txt"]
    # Python compiles what it imports.
    compiled = [] if uv else ["--no-compile"]
    step(*pip, "--quiet", *compiled, *pinned)
    step(*pip, "--quiet", "--no-deps", "--no-index", "--find-links", wheels, "dovetail")

    assert "Run the autoscaler for a cluster" in step(environment / "bin" / "dovetail", "run", "--help")
    # The wheel includes data files.
    assert "m5.large" in step(environment / "bin" / "dovetail", "catalog", "show", "m5.large")
    if shutil.which("cc"):
        step(python, "-c", "import dovetail.core.scheduling.fleet._kernel")


_BUILD = """
import os, sys
from setuptools import build_meta
os.chdir(sys.argv[1]); os.makedirs(sys.argv[2])
build_meta.build_wheel(sys.argv[2])
"""
