"""``dovetail crds`` on the command line."""

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
    assert printed == [definition.encode() for definition in DEFINITIONS]


def test_selected_kinds_are_printed() -> None:
    result = run("NodePool", "NodeOverlay")

    printed = [crd["spec"]["names"]["kind"] for crd in yaml.safe_load_all(result.stdout)]
    assert printed == ["NodePool", "NodeOverlay"]


def test_an_unknown_kind_is_rejected_with_all_kinds() -> None:
    result = run("nodepols")

    assert result.exit_code == 1
    assert "'NodePool', 'NodeClaim', 'EC2NodeClass'" in result.stderr
    assert result.stdout == ""


def test_each_definition_is_written_to_its_own_file(tmp_path: Path) -> None:
    result = run("--directory", str(tmp_path / "crds"))

    assert result.exit_code == 0
    assert result.stderr == f"5 definitions written to {tmp_path / 'crds'}\n"
    written = {path.name: yaml.safe_load(path.read_text()) for path in tmp_path.rglob("*.yaml")}
    assert written["karpenter.sh_nodepools.yaml"]["spec"]["names"]["kind"] == "NodePool"
    assert len(written) == 5


def test_a_directory_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")

    result = run("--directory", str(tmp_path / "taken"))

    assert result.exit_code == 1
    assert result.stderr == f"error: {tmp_path / 'taken'} cannot be written: File exists\n"


def test_kinds_are_completed() -> None:
    asked = {"_DOVETAIL_COMPLETE": "bash_complete", "COMP_WORDS": "dovetail crds NodeP", "COMP_CWORD": "2"}

    result = CliRunner().invoke(cli, [], prog_name="dovetail", env=asked)

    assert "plain,NodePool" in result.stdout
