"""``dovetail simulate``: files become plans."""

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from dovetail.data.bundled import bundled_prices
from tests.cli.runs import HUGE, LIVE, POOL, WEB, simulate


def document(result: Result) -> dict[str, list[dict[str, object]]]:
    read: dict[str, list[dict[str, object]]] = json.loads(result.stdout)
    return read


def test_a_complete_plan_exits_with_0_and_has_a_price(tmp_path: Path) -> None:
    result = simulate(tmp_path, WEB, POOL)

    assert result.exit_code == 0, result.output
    assert "1 new node for 3 pods: $" in result.stdout
    assert "web × 3" in result.stdout
    assert "Prices: " in result.stdout


def test_an_unschedulable_pod_exits_with_2_and_the_reason(tmp_path: Path) -> None:
    result = simulate(tmp_path, HUGE, POOL)

    assert result.exit_code == 2, result.output
    assert "No node for 3 pods" in result.stdout
    assert re.search(r"general +resources +.*cpu", result.stdout, re.IGNORECASE)


def test_json_has_exactly_the_documented_fields(tmp_path: Path) -> None:
    result = simulate(tmp_path, WEB, POOL, args=("-o", "json"))

    plan = json.loads(result.stdout)
    assert list(plan) == ["nodes", "existing", "unplaced", "totals", "prices"]
    assert list(plan["nodes"][0]) == [
        *("name", "nodepool", "instance_type", "alternatives", "zone", "capacity_type"),
        *("price_per_hour", "pods", "requested", "allocatable", "price_estimated", "node_cost_per_hour"),
    ]
    assert plan["nodes"][0]["nodepool"] == "general"
    assert plan["nodes"][0]["instance_type"].startswith("m5.")
    assert len(plan["nodes"][0]["pods"]) == 3
    assert list(plan["totals"]) == [
        *("nodes", "pods", "price_per_hour", "price_per_month"),
        *("node_cost_per_hour", "cost_per_hour", "cost_per_month"),
    ]
    assert list(plan["prices"]) == ["source", "date"]
    assert plan["prices"]["source"]


def test_totals_have_instances_node_costs_and_their_sum(tmp_path: Path) -> None:
    result = simulate(tmp_path, WEB, POOL, args=("-o", "json", "--node-cost", "0.5"))

    totals = json.loads(result.stdout)["totals"]
    assert totals["node_cost_per_hour"] == 0.5
    assert totals["cost_per_hour"] == pytest.approx(totals["price_per_hour"] + 0.5)
    assert totals["cost_per_month"] == pytest.approx(totals["price_per_month"] + 365, abs=0.01)


def test_table_shows_the_total_with_node_costs(tmp_path: Path) -> None:
    assert (
        "\nWith node costs of $0.5000 each: $"
        in simulate(tmp_path, WEB, POOL, args=("--node-cost", "0.5")).stdout
    )
    assert "With node costs" not in simulate(tmp_path, WEB, POOL, args=("--node-cost", "0")).stdout


def test_node_cost_follows_the_volumes_of_the_node_class_and_the_annotation_of_the_nodepool(
    tmp_path: Path,
) -> None:
    node_class = """
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  amiSelectorTerms: [{alias: al2023@latest}]
  role: r
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
  blockDeviceMappings:
    - {deviceName: /dev/xvda, ebs: {volumeSize: 730Gi, volumeType: gp3}}
"""
    annotated = POOL.replace(
        "{name: general}", '{name: general, annotations: {dovetail.sh/node-cost: "0.25"}}'
    )

    def node_cost(*texts: str) -> float:
        result = simulate(tmp_path, WEB, *texts, args=("-o", "json"))
        cost: float = json.loads(result.stdout)["totals"]["node_cost_per_hour"]
        return cost

    assert node_cost(POOL, node_class) == pytest.approx(0.08 + 0.045 / 24, abs=1e-6)
    assert node_cost(annotated, node_class) == 0.25


def test_invalid_node_costs_are_errors_that_say_what_would_be_right(tmp_path: Path) -> None:
    monthly = POOL.replace("{name: general}", '{name: general, annotations: {dovetail.sh/node-cost: "15"}}')

    of_nodepool = simulate(tmp_path, WEB, monthly)
    of_option = simulate(tmp_path, WEB, POOL, args=("--node-cost", "15"))

    assert (of_nodepool.exit_code, of_option.exit_code) == (1, 1)
    assert "metadata.annotations['dovetail.sh/node-cost']: '15' is not an amount" in of_nodepool.stderr
    assert "0<=x<=10" in of_option.stderr


def test_json_of_an_unschedulable_pod_names_nodepool_constraint_and_message(tmp_path: Path) -> None:
    result = simulate(tmp_path, HUGE, POOL, args=("-o", "json"))

    [first, *_] = document(result)["unplaced"]
    assert result.exit_code == 2
    assert list(first) == ["pod", "refusals"]
    assert isinstance(first["refusals"], list)
    assert list(first["refusals"][0]) == ["nodepool", "constraint", "message"]
    assert first["refusals"][0]["nodepool"] == "general"


def test_table_and_json_agree(tmp_path: Path) -> None:
    table, data = simulate(tmp_path, WEB, POOL), simulate(tmp_path, WEB, POOL, args=("-o", "json"))

    plan = json.loads(data.stdout)
    totals, [node] = plan["totals"], plan["nodes"]
    assert f"${totals['price_per_hour']:,.4f} per hour" in table.stdout
    assert f"${totals['price_per_month']:,.2f} per month" in table.stdout
    assert f"{totals['nodes']} new node for {totals['pods']} pods" in table.stdout
    for field in ("instance_type", "zone", "capacity_type", "nodepool"):
        assert node[field] in table.stdout
    assert f"or {', '.join(node['alternatives'][:3])}" in table.stdout
    assert (plan["prices"]["source"], plan["prices"]["date"]) != ("", "")
    assert f"{plan['prices']['source']}, {plan['prices']['date']}" in table.stdout


def test_yaml_and_json_agree(tmp_path: Path) -> None:
    as_json = simulate(tmp_path, WEB, POOL, args=("-o", "json"))
    as_yaml = simulate(tmp_path, WEB, POOL, args=("-o", "yaml"))

    assert yaml.safe_load(as_yaml.stdout) == json.loads(as_json.stdout)


def test_two_runs_print_the_same_text(tmp_path: Path) -> None:
    first, second = (simulate(tmp_path, WEB, POOL) for _ in range(2))

    assert first.stdout == second.stdout


def test_without_a_nodepool_a_default_one_is_used_and_noted(tmp_path: Path) -> None:
    result = simulate(tmp_path, WEB)

    assert result.exit_code == 0, result.output
    assert "Note: no NodePool given" in result.stdout


def test_notes_go_to_stderr_with_json_output(tmp_path: Path) -> None:
    result = simulate(tmp_path, WEB, args=("-o", "json"))

    assert json.loads(result.stdout)
    assert "note: no NodePool given" in result.stderr


def test_spot_is_launched_if_the_nodepool_allows_it_and_it_is_cheaper(tmp_path: Path) -> None:
    result = simulate(tmp_path, WEB, POOL, args=("-o", "json"))

    assert {node["capacity_type"] for node in document(result)["nodes"]} == {"spot"}


def test_nodes_are_launched_in_the_region_of_the_option(tmp_path: Path) -> None:
    result = simulate(tmp_path, WEB, args=("-o", "json", "--region", "eu-west-1"))

    assert all(str(node["zone"]).startswith("eu-west-1") for node in document(result)["nodes"])


def test_nodes_are_launched_only_in_the_zones_of_the_option(tmp_path: Path) -> None:
    result = simulate(tmp_path, WEB, args=("-o", "json", "--zones", "us-east-1b"))

    assert [node["zone"] for node in document(result)["nodes"]] == ["us-east-1b"]


def test_a_price_file_sets_the_price(tmp_path: Path) -> None:
    book = tmp_path / "book.csv"
    book.write_text(
        "# date: 2026-08-22\n"
        "instance_type,region,zone_id,on_demand_usd_per_hour,spot_usd_per_hour\n"
        "m5.large,us-east-1,use1-az1,0.5,\n"
        "m5.2xlarge,us-east-1,use1-az1,0.01,\n"
    )

    result = simulate(tmp_path, WEB, POOL, args=("-o", "json", "--prices", str(book)))

    plan = json.loads(result.stdout)
    assert plan["nodes"][0]["instance_type"] == "m5.2xlarge"
    assert plan["totals"]["price_per_hour"] == 0.01
    assert plan["prices"] == {"source": str(book), "date": "2026-08-22"}
    assert not plan["nodes"][0]["price_estimated"]


def test_a_type_or_region_that_a_price_file_lacks_has_an_estimated_price(tmp_path: Path) -> None:
    book = tmp_path / "book.csv"
    book.write_text(
        "instance_type,region,zone_id,on_demand_usd_per_hour,spot_usd_per_hour\n"
        "m5.large,us-east-1,use1-az1,90,\nm5.xlarge,us-east-1,use1-az1,,\n"
    )

    listed = simulate(tmp_path, WEB, POOL, args=("--prices", str(book)))
    elsewhere = simulate(
        tmp_path, WEB, POOL, args=("-o", "json", "--prices", str(book), "--region", "eu-west-1")
    )

    assert f"not in {book}: m5.2xlarge; used AWS list prices" in " ".join(listed.stdout.split())
    plan = json.loads(elsewhere.stdout)
    assert plan["nodes"][0]["price_estimated"]
    assert plan["prices"]["estimated_from"] == "us-east-1"
    assert plan["prices"]["region_factor"] == 1.115


def test_room_on_existing_nodes_is_used_first_and_their_region_is_the_default(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(WEB)
    live = tmp_path / "live.dump"
    live.write_text(LIVE)

    result = simulate(tmp_path, args=("--cluster", str(live), "-o", "json"))

    plan = json.loads(result.stdout)
    assert [node["node"] for node in plan["existing"]] == ["ip-10-0-1-1"]
    assert len(plan["existing"][0]["pods"]) in (1, 2)  # Which of them it takes is the solver's.
    assert [node["zone"][:-1] for node in plan["nodes"]] == ["eu-west-1"]
    assert plan["totals"]["pods"] == 4


def test_a_dump_alone_is_planned_for_its_pending_pods(tmp_path: Path) -> None:
    live = tmp_path / "live.yaml"
    live.write_text(LIVE)

    result = CliRunner().invoke(cli, ["simulate", "--cluster", str(live)])

    assert result.exit_code == 0, result.output
    assert "1 pod on existing nodes" in result.stdout


def test_ignored_kinds_are_noted(tmp_path: Path) -> None:
    result = simulate(tmp_path, WEB, "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: x}\n")

    assert result.exit_code == 0
    assert re.search("Note: .*1 Widget", result.stdout)


def test_an_estimated_price_is_noted(tmp_path: Path) -> None:
    guessed = min(name for name in bundled_prices().estimated if name.startswith("c8ib."))
    pinned = POOL.replace("instance-family", "instance-type").replace("[m5]", f"[{guessed}]")
    pinned = pinned.replace("karpenter.k8s.aws/instance-type", "node.kubernetes.io/instance-type")

    result = simulate(tmp_path, WEB, pinned)

    assert f"Note: prices estimated from related types: {guessed}" in result.stdout


def test_manifests_can_come_from_stdin() -> None:
    result = CliRunner().invoke(cli, ["simulate", "-f", "-"], input=WEB)

    assert result.exit_code == 0, result.output
    assert "3 pods" in result.stdout


def test_paths_of_an_expanded_glob_are_accepted(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(WEB)
    (tmp_path / "b.yaml").write_text(POOL)
    named = [str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")]

    result = CliRunner().invoke(cli, ["simulate", "-f", *named])

    assert result.exit_code == 0, result.output
    assert "general" in result.stdout


def test_windows_nodes_have_a_note_about_licences(tmp_path: Path) -> None:
    windows = WEB.replace("containers:", "nodeSelector: {kubernetes.io/os: windows}\n      containers:")
    pool = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: windows}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: windows}
      requirements: [{key: kubernetes.io/os, operator: In, values: [windows]}]
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: windows}
spec:
  amiSelectorTerms: [{alias: windows2022@latest}]
  role: nodes
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{tags: {a: b}}]
"""

    linux, with_windows = simulate(tmp_path, WEB), simulate(tmp_path, windows, pool)

    assert "licences" not in linux.stdout
    assert with_windows.exit_code == 0, with_windows.output
    assert "Windows nodes also need licences" in with_windows.stdout
