"""The examples do what the README says they do."""

from pathlib import Path

from click.testing import CliRunner

from dovetail.cli.main import cli

EXAMPLES = Path(__file__).parents[2] / "examples"


def simulate(*names: str) -> tuple[int, str, str]:
    named = [arg for name in names for arg in ("-f", str(EXAMPLES / name))]
    result = CliRunner().invoke(cli, ["simulate", *named])
    return result.exit_code, result.stdout, result.stderr


def test_every_pod_of_the_example_shop_finds_a_node() -> None:
    code, told, _ = simulate("manifests")

    assert code == 0, told
    assert "per month" in told


def test_the_refused_example_says_how_close_it_came() -> None:
    code, told, _ = simulate("refused", "manifests/nodepools.yaml", "manifests/nodeclass.yaml")

    assert code == 2
    assert "No node for 3 pods" in told
    assert "too large for every type; closest is" in told
    assert "would fit if" in told
    assert "would fit with the toleration" in told
    assert "asks for shop.example/tier In [batch]" in told


def test_the_broken_example_is_told_all_its_mistakes_at_once() -> None:
    code, told, complaints = simulate("broken")

    assert code == 1
    assert told == ""
    assert "did you mean 'on-demand'?" in complaints
    assert len(complaints.splitlines()) > 20
