"""``dovetail simulate`` with burstable types, small nodes and pods without requests."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runs import POOL, WEB, simulate

BURSTABLE_POOL = POOL.replace("[m5]", "[m5, t3]").replace("[spot, on-demand]", "[on-demand]")
T3_POOL = POOL.replace("[m5]", "[t3]").replace("[spot, on-demand]", "[on-demand]")
BUSY = WEB.replace("cpu: 500m, memory: 1Gi", "cpu: 1500m")
BARE = WEB.replace("resources: {requests: {cpu: 500m, memory: 1Gi}}", "resources: {}")


def plan_of(folder: Path, *manifests: str, args: tuple[str, ...] = ()) -> dict[str, Any]:
    result = simulate(folder, *manifests, args=("-o", "json", *args))
    read: dict[str, Any] = json.loads(result.stdout)
    return read


def types_in(plan: dict[str, Any]) -> set[str]:
    return {node["instance_type"] for node in plan["nodes"]}


def test_policy_decides_between_burstable_and_other_types(tmp_path: Path) -> None:
    default = plan_of(tmp_path, BUSY, BURSTABLE_POOL)
    allowed = plan_of(tmp_path, BUSY, BURSTABLE_POOL, args=("--burstable", "allow", "--min-node-memory", "0"))
    small = WEB.replace("cpu: 500m", "cpu: 10m")
    avoided = plan_of(tmp_path, small, BURSTABLE_POOL, args=("--burstable", "avoid"))

    assert not any(name.startswith("t3.nano") for name in types_in(default))
    assert types_in(allowed) == {"t3.nano"}
    assert all(name.startswith("m5.") for name in types_in(avoided))


def test_json_of_a_burstable_node_has_its_credits(tmp_path: Path) -> None:
    node, *_ = plan_of(tmp_path, BUSY, T3_POOL)["nodes"]

    burstable = node["burstable"]
    assert list(burstable) == [
        *("policy", "unlimited", "expected_cpu", "baseline_cpu", "surplus_per_hour", "baseline_assumed"),
        "note",
    ]
    assert (burstable["policy"], burstable["unlimited"]) == ("baseline", True)
    assert burstable["surplus_per_hour"] > 0
    assert node["price_per_hour"] > burstable["surplus_per_hour"]


def test_json_of_other_nodes_has_no_credits(tmp_path: Path) -> None:
    assert "burstable" not in plan_of(tmp_path, WEB, POOL)["nodes"][0]


def test_table_notes_why_a_burstable_type_is_used(tmp_path: Path) -> None:
    result = simulate(tmp_path, BUSY, T3_POOL)

    assert "surplus credits add" in result.stdout
    assert "included" in result.stdout
    assert "are burstable: " in result.stdout or "is burstable: " in result.stdout


def test_type_that_leaves_hardly_any_memory_is_noted(tmp_path: Path) -> None:
    nano = "        - {key: node.kubernetes.io/instance-type, operator: In, values: [t3.nano]}\n"

    result = simulate(tmp_path, BARE, T3_POOL + nano)

    assert "t3.nano leaves 74 MiB of memory for pods; no other type fits" in result.stdout


def test_pods_without_requests_are_planned_with_assumed_ones(tmp_path: Path) -> None:
    bare = simulate(tmp_path, BARE, POOL)
    assumed = simulate(tmp_path, BARE, POOL, args=("--assume-requests", "cpu=2,memory=1Gi"))
    plan = plan_of(tmp_path, BARE, POOL, args=("--assume-requests", "cpu=2,memory=1Gi"))

    assert "3 pods request neither CPU nor memory" in bare.stdout
    assert "3 pods without requests planned with cpu 2, memory 1Gi" in assumed.stdout
    assert "request neither" not in assumed.stdout
    assert sum(int(node["requested"]["cpu"]) for node in plan["nodes"]) == 6


def test_assumed_requests_do_not_change_requests_of_pods(tmp_path: Path) -> None:
    plain = plan_of(tmp_path, WEB, POOL)

    assert plan_of(tmp_path, WEB, POOL, args=("--assume-requests", "cpu=8,memory=8Gi")) == plain


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--assume-requests", "gpu=1", "'gpu=1' is neither cpu=QUANTITY nor memory=QUANTITY"),
        ("--assume-requests", "cpu", "'cpu' is neither cpu=QUANTITY nor memory=QUANTITY"),
        ("--assume-requests", "cpu=much", "cpu: 'much' is not a quantity"),
        ("--assume-requests", "cpu=1,cpu=2", "cpu is given twice"),
        ("--assume-requests", "memory=0", "memory=0 is not greater than zero"),
        ("--min-node-memory", "128mb", "did you mean '128Mi'?"),
        ("--min-node-memory", "-1Mi", "'-1Mi' is negative"),
        ("--burstable", "never", "'never' is not one of"),
    ],
)
def test_wrong_value_is_rejected_with_what_would_be_right(
    tmp_path: Path, option: str, value: str, message: str
) -> None:
    result = simulate(tmp_path, WEB, POOL, args=(f"{option}={value}",))

    assert result.exit_code == 1
    assert message in result.output
