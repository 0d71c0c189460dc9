"""``dovetail crds`` as a user runs it."""

from pathlib import Path

import yaml
from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from dovetail.codec.crds.definitions import DEFINITIONS


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["crds", *arguments], prog_name="dovetail")


def test_all_definitions_are_printed_for_kubectl() -> None:
    result = run()

    assert result.exit_code == 0
    printed = list(yaml.safe_load_all(result.stdout))
    assert printed == [one.written() for one in DEFINITIONS]


def test_some_can_be_asked_for() -> None:
    result = run("NodePool", "NodeOverlay")

    printed = [one["spec"]["names"]["kind"] for one in yaml.safe_load_all(result.stdout)]
    assert printed == ["NodePool", "NodeOverlay"]


def test_a_misspelt_kind_is_told_with_those_that_there_are() -> None:
    result = run("nodepols")

    assert result.exit_code == 1
    assert "'NodePool', 'NodeClaim', 'EC2NodeClass'" in result.stderr
    assert result.stdout == ""


def test_each_can_have_a_file_of_its_own(tmp_path: Path) -> None:
    result = run("--directory", str(tmp_path / "crds"))

    assert result.exit_code == 0
    assert result.stderr == f"5 definitions written to {tmp_path / 'crds'}\n"
    written = {path.name: yaml.safe_load(path.read_text()) for path in tmp_path.rglob("*.yaml")}
    assert written["karpenter.sh_nodepools.yaml"]["spec"]["names"]["kind"] == "NodePool"
    assert len(written) == 5


def test_a_directory_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")

    result = run("--directory", str(tmp_path / "taken"))

    assert result.exit_code == 1
    assert result.stderr == f"Error: {tmp_path / 'taken'} cannot be written: File exists\n"


def test_the_tab_key_finishes_a_kind() -> None:
    asked = {
        "_DOVETAIL_COMPLETE": "bash_complete",
        "COMP_WORDS": "dovetail crds NodeP",
        "COMP_CWORD": "2",
    }

    result = CliRunner().invoke(cli, [], prog_name="dovetail", env=asked)

    assert "plain,NodePool" in result.stdout
