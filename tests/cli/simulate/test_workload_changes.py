"""Changed workloads on a dump of a cluster with managed and unmanaged nodes."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from dovetail.cli.main import cli
from tests.cli.clusters import (
    DAEMONS,
    WEB_REQUESTS,
    Raw,
    a_claim_of,
    a_daemon_set,
    a_live_node,
    a_spec,
    a_volume_in,
    daemon_pods,
    live_web,
    node_name,
    pool_and_class,
    web,
    written,
)

NODES, EACH = 6, 6
"""Six nodes of 3,920m; daemons take 75m and web 3,000m of each: room for one more web."""


def a_cluster(*more: Raw) -> list[Raw]:
    nodes = [a_live_node(i, managed=i < NODES // 2) for i in range(NODES)]
    claims = [a_claim_of(i) for i in range(NODES // 2)]
    daemons = [a_daemon_set(name) for name in DAEMONS]
    running = [pod for i in range(NODES) for pod in daemon_pods(i)]
    return [*nodes, *claims, *daemons, *running, *live_web(NODES, EACH), *pool_and_class(), *more]


def what_if(tmp_path: Path, change: Raw, *more: Raw) -> Any:
    dump = written(tmp_path / "cluster.json", *a_cluster(*more))
    manifest = tmp_path / "change.json"
    manifest.write_text(json.dumps(change))
    command = ["simulate", "--cluster", dump, "-f", str(manifest), "-o", "json"]
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_scaling_up_uses_existing_nodes_before_launching_one(tmp_path: Path) -> None:
    plan = what_if(tmp_path, web(NODES * EACH + 10))

    assert Counter(node["node"] for node in plan["existing"] for _ in node["pods"]) == Counter(
        node_name(i) for i in range(NODES)
    )
    assert sum(len(node["pods"]) for node in plan["nodes"]) == 4
    assert {node["instance_type"].partition(".")[0] for node in plan["nodes"]} == {"m5"}
    assert plan["totals"]["pods"] == 10


def test_new_nodes_run_the_daemonsets_of_the_dump(tmp_path: Path) -> None:
    plan = what_if(tmp_path, web(NODES * EACH + NODES + 1))

    [node] = plan["nodes"]
    assert len(node["pods"]) == 1
    assert node["requested"]["cpu"] == "575m"


def test_an_unchanged_deployment_needs_nothing(tmp_path: Path) -> None:
    plan = what_if(tmp_path, web(NODES * EACH))

    assert (plan["nodes"], plan["existing"], plan["unplaced"]) == ([], [], [])


def test_scaling_down_needs_nothing(tmp_path: Path) -> None:
    plan = what_if(tmp_path, web(3))

    assert (plan["nodes"], plan["existing"]) == ([], [])


def test_larger_requests_replace_the_pods_and_reuse_their_room(tmp_path: Path) -> None:
    plan = what_if(tmp_path, web(NODES * 3, {**WEB_REQUESTS, "cpu": "1"}))

    assert plan["nodes"] == []
    assert [len(node["pods"]) for node in plan["existing"]] == [3] * NODES


def a_database() -> Raw:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "db", "namespace": "shop"},
        "spec": a_spec({"cpu": "3"}, volumes=[volume]),
    }


def test_a_pod_is_placed_in_the_zone_of_its_volume(tmp_path: Path) -> None:
    plan = what_if(tmp_path, a_database(), *a_volume_in("us-east-1b", "data"))

    assert [(node["zone"], node["pods"]) for node in plan["nodes"]] == [("us-east-1b", ["shop/db"])]


def test_a_manifest_claim_can_name_its_volume(tmp_path: Path) -> None:
    claim, volume = a_volume_in("us-east-1b", "data")
    del claim["status"], claim["metadata"]["uid"], volume["metadata"]["uid"]
    whole = {"apiVersion": "v1", "kind": "List", "items": [a_database(), claim, volume]}

    plan = what_if(tmp_path, whole)

    assert [(node["zone"], node["pods"]) for node in plan["nodes"]] == [("us-east-1b", ["shop/db"])]
