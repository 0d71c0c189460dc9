"""The examples do what the README says they do."""

from pathlib import Path

from click.testing import CliRunner

from dovetail.cli.main import cli

EXAMPLES = Path(__file__).parents[2] / "examples"


def simulate(*names: str) -> tuple[int, str, str]:
    named = [arg for name in names for arg in ("-f", str(EXAMPLES / name))]
    result = CliRunner().invoke(cli, ["simulate", *named])
    return result.exit_code, result.stdout, result.stderr


def test_every_pod_of_the_example_gets_a_node() -> None:
    code, output, _ = simulate("manifests")

    assert code == 0, output
    assert "per month" in output


def test_the_unschedulable_example_has_detailed_reasons() -> None:
    code, output, _ = simulate("unschedulable", "manifests/nodepools.yaml", "manifests/nodeclass.yaml")

    assert code == 2
    assert "No node for 3 pods" in output
    assert "too large for every type; closest is" in output
    assert "would fit if" in output
    assert "would fit with the toleration" in output
    assert "requires shop.example/tier In [batch]" in output


def test_the_invalid_example_has_all_its_errors_reported_at_once() -> None:
    code, output, errors = simulate("invalid")

    assert code == 1
    assert output == ""
    assert "did you mean 'on-demand'?" in errors
    assert len(errors.splitlines()) > 20
