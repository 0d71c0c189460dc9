"""`make dist` and what `pip install` of its wheels gives."""

import shutil
import subprocess
import sys
import tarfile
import venv
from hashlib import sha256
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT_MB = 150

pytestmark = pytest.mark.slow


def run(*command: str | Path, code: int = 0) -> str:
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == code, result.stderr
    return result.stdout + result.stderr


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("dist")
    run(sys.executable, ROOT / "scripts" / "dist", target)
    return target


@pytest.fixture(scope="module")
def commands(packages: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel for all platforms and no extra: its folder of commands."""
    environment = tmp_path_factory.mktemp("environment")
    uv = shutil.which("uv")
    venv.create(environment, with_pip=uv is None)
    python = environment / "bin" / "python"
    install = [uv, "pip", "install", "--python", python] if uv else [python, "-m", "pip", "install"]
    compiled = [] if uv else ["--no-compile"]
    pinned = ["--require-hashes", "--only-binary=:all:", "-r", ROOT / "requirements" / "cli.txt"]
    run(*install, *compiled, "--quiet", *pinned)
    run(*install, "--quiet", "--no-deps", "--no-index", next(packages.glob("*none-any.whl")))
    return environment / "bin"


def test_two_builds_of_a_commit_are_the_same_bytes(packages: Path, tmp_path: Path) -> None:
    run(sys.executable, ROOT / "scripts" / "dist", tmp_path / "again")

    again = {path.name: sha256(path.read_bytes()).hexdigest() for path in (tmp_path / "again").iterdir()}
    assert again == {path.name: sha256(path.read_bytes()).hexdigest() for path in packages.iterdir()}
    assert any(name.endswith("none-any.whl") for name in again)


def test_the_source_archive_has_the_kernel_and_no_tests(packages: Path) -> None:
    with tarfile.open(next(packages.glob("*.tar.gz"))) as archive:
        names = [name.partition("/")[2] for name in archive.getnames()]

    assert "src/dovetail/core/scheduling/fleet/_kernel.c" in names
    assert not [name for name in names if name.startswith("tests")]


def test_an_installation_without_extras_simulates_plans_and_explains(commands: Path) -> None:
    plan = run(commands / "dovetail", "simulate", "-f", ROOT / "examples" / "manifests")

    assert "nodes" in plan
    assert "scale-100" in run(commands / "dovetail", "demo", "--list")
    assert "why a node is kept" in run(commands / "dovetail", "explain", "--help")


def test_it_is_small(commands: Path) -> None:
    files = [path for path in commands.parent.rglob("*") if path.is_file() and not path.is_symlink()]

    assert sum(path.stat().st_size for path in files) < LIMIT_MB * 1_000_000


def test_kubectl_finds_it_as_a_plugin(commands: Path) -> None:
    assert run(commands / "kubectl-dovetail", "--version") == run(commands / "dovetail", "--version")


@pytest.mark.parametrize(("command", "extra"), [("run", "run"), ("cluster", "cluster")])
def test_a_command_of_an_extra_says_how_to_install_it(commands: Path, command: str, extra: str) -> None:
    options = ["plan", "-f", ROOT / "examples"] if command == "cluster" else ["--help"]

    output = run(commands / "dovetail", command, *options, code=1)

    assert f"pip install 'dovetail[{extra}]'" in output
    assert "Traceback" not in output
