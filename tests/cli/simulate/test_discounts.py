"""``dovetail simulate --discounts``: plans and prices after discounts."""

import json
from pathlib import Path

from click.testing import Result

from tests.cli.runs import LIVE, POOL, WEB, simulate

OFF = "discounts: [{percent: 10}]\n"
RESERVED = "reservations: [{name: ours, instanceType: m5.xlarge, count: 2, price: 0.11}]\n"


def discounted(tmp_path: Path, book: str, *args: str, manifests: tuple[str, ...] = ()) -> Result:
    folder = tmp_path / "manifests"
    folder.mkdir(exist_ok=True)
    file = tmp_path / "book.yaml"
    file.write_text(book)
    return simulate(folder, *(manifests or (WEB, POOL)), args=("--discounts", str(file), *args))


def test_prices_are_discounted_and_the_list_price_is_shown(tmp_path: Path) -> None:
    plain = json.loads(simulate(tmp_path, WEB, POOL, args=("-o", "json")).stdout)

    result = discounted(tmp_path, OFF)

    listed = plain["totals"]["price_per_hour"]
    assert result.exit_code == 0, result.output
    assert f"1 new node for 3 pods: ${listed * 0.9:.4f} per hour" in result.stdout
    assert f"after discounts of {tmp_path / 'book.yaml'} (list price would be ${listed:.4f}" in (
        result.stdout
    )


def test_reserved_instances_are_launched_on_demand_although_spot_is_allowed(tmp_path: Path) -> None:
    result = discounted(tmp_path, RESERVED, "-o", "json")

    plan = json.loads(result.stdout)
    (node,) = plan["nodes"]
    assert (node["instance_type"], node["capacity_type"]) == ("m5.xlarge", "on-demand")
    assert node["price_per_hour"] == 0.11
    assert plan["discounts"] == {
        "source": str(tmp_path / "book.yaml"),
        "list_price_per_hour": 0.192,
        "committed_per_hour": 0.22,
        "committed_used_before": 0.0,
        "committed_used": 0.11,
    }


def test_the_used_part_of_commitments_is_noted(tmp_path: Path) -> None:
    result = discounted(tmp_path, RESERVED)

    assert (
        "Note: $0.2200 per hour are committed: existing nodes use $0.0000, new ones $0.1100, "
        "$0.1100 are unused; new nodes add $0.0000 per hour"
    ) in result.stdout


def test_existing_nodes_use_their_part_of_a_commitment(tmp_path: Path) -> None:
    label = "topology.kubernetes.io/zone: eu-west-1a"
    typed = LIVE.replace(label, f"{label}\n        node.kubernetes.io/instance-type: m5.xlarge")
    (tmp_path / "dump.yaml").write_text(typed)

    result = discounted(tmp_path, RESERVED, "-o", "json", "--cluster", str(tmp_path / "dump.yaml"))

    assert json.loads(result.stdout)["discounts"]["committed_used_before"] == 0.11


def test_errors_of_discounts_and_manifests_are_reported_together(tmp_path: Path) -> None:
    wrong = POOL.replace("on-demand", "on_demand")

    result = discounted(tmp_path, "discounts: [{percent: 9%}]", manifests=(WEB, wrong))

    assert result.exit_code == 1
    assert "book.yaml:1 discounts[0].percent: '9%' is not a percentage; write 9" in (result.stderr)
    assert "'on_demand' is not a capacity type" in result.stderr
