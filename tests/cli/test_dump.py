"""``dovetail dump``: kinds without objects differ from kinds that were not listed."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from tests.cli.clusters import a_live_node, written

NO_BUDGETS = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudgetList", "items": []}


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    return result


def test_a_dump_keeps_that_a_kind_was_listed_and_has_no_objects(tmp_path: Path) -> None:
    source = written(tmp_path / "kubectl.json", a_live_node(1, managed=False), NO_BUDGETS)
    file = str(tmp_path / "cluster.json")

    noted = run("dump", "--cluster", source, "-o", file).stderr
    explained = run("explain", "node", "--cluster", file).stderr

    assert NO_BUDGETS in json.loads(Path(file).read_text())["items"]
    assert "pods, nodepools.karpenter.sh" in noted
    assert "daemonsets.apps" in explained
    assert "poddisruptionbudgets" not in noted + explained


def test_migration_counts_a_kind_that_was_listed_without_objects_as_read(tmp_path: Path) -> None:
    no_claims = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaimList", "items": []}
    source = written(tmp_path / "kubectl.json", a_live_node(1, managed=False), no_claims)

    result = CliRunner().invoke(cli, ["migrate", "check", "--cluster", source])

    assert "the dump has no nodepools.karpenter.sh" in result.output
    assert "the dump has no nodeclaims.karpenter.sh" not in result.output
