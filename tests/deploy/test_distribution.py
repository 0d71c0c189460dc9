"""`make dist` and what `pip install` of its wheels gives."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
from hashlib import sha256
from pathlib import Path

import pytest
import yaml

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
    """As installed: without the bytecode that Python writes when commands run."""
    files = [
        path
        for path in commands.parent.rglob("*")
        if path.is_file() and not path.is_symlink() and path.suffix != ".pyc"
    ]

    assert sum(path.stat().st_size for path in files) < LIMIT_MB * 1_000_000


def test_kubectl_finds_it_as_a_plugin(commands: Path) -> None:
    assert run(commands / "kubectl-dovetail", "--version") == run(commands / "dovetail", "--version")


def test_every_command_has_a_manual_page_and_every_shell_a_completion_script(commands: Path) -> None:
    share = commands.parent / "share"
    listed = re.findall(r"^  ([a-z]+)  ", run(commands / "dovetail", "--help"), re.MULTILINE)
    pages = {path.stem for path in (share / "man" / "man1").iterdir()}

    assert len(listed) > 10
    assert pages >= {"dovetail", "dovetail-cluster-plan"} | {f"dovetail-{name}" for name in listed}
    for path in ("bash-completion/completions/dovetail", "zsh/site-functions/_dovetail"):
        assert "_DOVETAIL_COMPLETE" in (share / path).read_text()
    assert "_DOVETAIL_COMPLETE" in (share / "fish/vendor_completions.d/dovetail.fish").read_text()


def test_groff_formats_a_manual_page_without_a_warning(commands: Path) -> None:
    groff = shutil.which("groff")
    if groff is None:
        pytest.skip("groff is not installed")

    page = run(
        groff, "-man", "-ww", "-Kutf8", "-Tutf8", commands.parent / "share/man/man1/dovetail-simulate.1"
    )

    assert "warning" not in page
    assert "Exit" not in page.partition("NAME")[0]
    assert "dovetail-simulate - Plan nodes for the pods of manifests" in re.sub(r"\x1b\[\d*m", "", page)


def test_the_krew_manifest_names_the_plugin_archive_and_its_hash(packages: Path) -> None:
    manifest = yaml.safe_load((packages / "dovetail.yaml").read_text())
    (platform,) = manifest["spec"]["platforms"]
    archive = packages / platform["uri"].rpartition("/")[2]

    assert manifest["metadata"]["name"] == "dovetail"
    assert re.fullmatch(r"v\d+\.\d+\.\d+", manifest["spec"]["version"])
    assert platform["sha256"] == sha256(archive.read_bytes()).hexdigest()
    with tarfile.open(archive) as plugin:
        modes = {member.name: member.mode for member in plugin.getmembers()}
    assert modes[platform["bin"]] == 0o755
    assert {"LICENSE", "requirements.txt"} < modes.keys()


def test_the_krew_plugin_runs_the_environment_that_its_first_call_created(
    packages: Path, commands: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    with tarfile.open(next(packages.glob("kubectl-dovetail-*.tar.gz"))) as plugin:
        plugin.extraction_filter = getattr(tarfile, "data_filter", None)
        plugin.extractall(store)  # noqa: S202 - made by `make dist`
    linked = tmp_path / "kubectl-dovetail"
    linked.symlink_to(store / "kubectl-dovetail")
    environment = tmp_path / "cache" / "dovetail" / "kubectl-plugin" / "0.1.0"
    environment.parent.mkdir(parents=True)
    # Stands in for the downloads: an environment of the same packages.
    environment.symlink_to(commands.parent)

    output = subprocess.run(
        [linked, "--version"],
        env={"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": os.defpath},
        capture_output=True,
        text=True,
        check=True,
    )

    assert output.stdout == run(commands / "dovetail", "--version")


@pytest.mark.parametrize(("command", "extra"), [("run", "run"), ("cluster", "cluster")])
def test_a_command_of_an_extra_says_how_to_install_it(
    commands: Path, packages: Path, command: str, extra: str
) -> None:
    options = ["plan", "-f", ROOT / "examples"] if command == "cluster" else ["--help"]

    output = run(commands / "dovetail", command, *options, code=1)

    (wheel,) = packages.glob("*none-any.whl")
    assert f"pip install 'dovetail[{extra}] @ {wheel.as_uri()}'" in output
    assert "Traceback" not in output
