"""The image's recipe: nobody, nothing secret, nothing unpinned; and what it installs works."""

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
    """Return what the file says: each instruction and the rest of it, lines joined."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE)
    joined = re.sub(r"\\\n\s*", " ", text)
    return [
        (line.split(" ", 1)[0], line.split(" ", 1)[1])
        for line in joined.splitlines()
        if line.strip()
    ]


def last_stage() -> list[tuple[str, str]]:
    told = instructions()
    begins = max(at for at, (name, _) in enumerate(told) if name == "FROM")
    return told[begins:]


def test_it_runs_as_nobody_and_needs_no_shell() -> None:
    told = dict(last_stage())

    assert told["USER"] == "65532:65532"
    assert json.loads(told["ENTRYPOINT"]) == ["/opt/dovetail/bin/dovetail"]
    assert json.loads(told["CMD"]) == ["run"]
    assert told["ENV"].split()[0] == "PYTHONDONTWRITEBYTECODE=1"


def test_nothing_is_run_through_a_shell() -> None:
    for name, rest in instructions():
        if name in ("RUN", "ENTRYPOINT", "CMD"):
            assert isinstance(json.loads(rest), list)


def test_the_last_stage_runs_nothing_and_takes_only_what_was_built() -> None:
    names = [name for name, _ in last_stage()]

    assert "RUN" not in names
    assert "ADD" not in names


def test_whatever_is_copied_is_there_and_let_through() -> None:
    let_through = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text().split()
    copied = [
        source
        for name, rest in instructions()
        if name == "COPY" and not rest.startswith("--from")
        for source in rest.split()[:-1]
    ]

    assert copied
    for source in copied:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in let_through, source


def test_everything_installed_is_pinned_by_hash() -> None:
    installs = [
        json.loads(rest) for name, rest in instructions() if name == "RUN" and '"install"' in rest
    ]

    assert len(installs) == 3
    for one in installs:
        assert "--require-hashes" in one or {"--no-deps", "--no-index"} <= set(one)


def test_no_secret_and_no_host_is_in_it() -> None:
    text = DOCKERFILE.read_text()

    assert not re.search(r"(?i)token|password|secret|aws_access|https?://", text)
    assert all(name != "ARG" or rest.startswith("PYTHON=") for name, rest in instructions())


def test_the_python_in_it_is_one_that_we_support() -> None:
    (version,) = [rest.partition("=")[2] for name, rest in instructions() if name == "ARG"]
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"]

    assert wanted.startswith(">=")
    assert _numbers(version) >= _numbers(wanted.removeprefix(">="))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


@pytest.mark.slow
def test_what_the_recipe_installs_works_without_the_sources(tmp_path: Path) -> None:
    """The same steps as in the file, with this Python and in a folder of its own."""
    uv, home = shutil.which("uv"), tmp_path / "venv"

    def step(*command: str | Path) -> str:
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    sources = tmp_path / "sources"
    sources.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, sources)
    ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", sources / "src", ignore=ignored)
    wheels = tmp_path / "dist"
    step(sys.executable, "-c", _BUILD, sources, wheels)
    venv.create(home, with_pip=uv is None)
    python = home / "bin" / "python"
    pip = [uv, "pip", "install", "--python", python] if uv else [python, "-m", "pip", "install"]
    pinned = ["--require-hashes", "--only-binary=:all:", "-r", ROOT / "requirements" / "run.txt"]
    step(*pip, "--quiet", *pinned)
    step(*pip, "--quiet", "--no-deps", "--no-index", "--find-links", wheels, "dovetail")

    assert "Run the autoscaler for a cluster" in step(home / "bin" / "dovetail", "run", "--help")
    # Data files are in the wheel, too.
    assert "m5.large" in step(home / "bin" / "dovetail", "catalog", "show", "m5.large")


_BUILD = """
import os, sys
from setuptools import build_meta
os.chdir(sys.argv[1]); os.makedirs(sys.argv[2])
build_meta.build_wheel(sys.argv[2])
"""
