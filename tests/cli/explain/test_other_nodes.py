"""Nodes that no NodePool launched: one price in ``explain``, ``top`` and ``savings``."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from tests.cli.clusters import a_live_node
from tests.dashboard.sources.list_server import list_server

ZONE = {"topology.kubernetes.io/region": "us-east-1", "topology.kubernetes.io/zone": "us-east-1a"}
TYPE = "node.kubernetes.io/instance-type"
SPOT = {"eks.amazonaws.com/nodegroup": "web", "eks.amazonaws.com/capacityType": "SPOT"}


def a_node(name: str, **labels: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**ZONE, **labels}, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "status": {
            "allocatable": {"cpu": "1930m", "memory": "3Gi", "pods": "17"},
            "capacity": {"cpu": "2", "memory": "4Gi", "pods": "17"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def a_fargate_pod(node: str) -> dict[str, Any]:
    size = {"CapacityProvisioned": "0.5vCPU 1GB"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "job", "namespace": "default", "uid": "1", "annotations": size},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "app"}]},
        "status": {"phase": "Running"},
    }


def a_pod(name: str, on: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"nodeName": on, "containers": [{"name": "main", "image": "app"}]},
        "status": {"phase": "Running"},
    }


@pytest.fixture
def mixed(tmp_path: Path) -> str:
    """Return the dump of a node group, an ASG, Fargate, a NodePool and an unknown type."""
    objects = [
        a_node("group", **{TYPE: "t3.medium", **SPOT}),
        a_node("asg", **{TYPE: "m5.large"}),
        a_node("fargate", **{"eks.amazonaws.com/compute-type": "fargate"}),
        a_node("pooled", **{TYPE: "m5.large", "karpenter.sh/nodepool": "default"}),
        a_node("unknown", **{TYPE: "zz9.large"}),
        a_fargate_pod("fargate"),
        a_pod("worker", on="unknown"),
    ]
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return str(path)


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(cli, [*arguments], prog_name="dovetail")
    assert result.exit_code == 0, result.output
    return result


def test_all_commands_have_one_price_for_every_node(mixed: str) -> None:
    prices = {"group": 0.0158, "asg": 0.096, "fargate": 0.0247, "pooled": 0.096}

    explained = json.loads(run("explain", "node", "--cluster", mixed, "-o", "json").stdout)["nodes"]
    blockers = json.loads(run("explain", "blockers", "--cluster", mixed, "-o", "json").stdout)
    shown = json.loads(run("top", "--cluster", mixed, "-o", "json").stdout)["nodes"]
    savings = json.loads(run("savings", "--cluster", mixed, "-o", "json").stdout)

    assert {node["node"]: round(node["price"], 4) for node in explained if node["price"]} == prices
    assert {
        node["name"]: round(node["pricePerHour"], 4) for node in shown.values() if node["pricePerHour"]
    } == prices
    assert blockers["price"] == pytest.approx(sum(prices.values()), abs=1e-3)
    assert savings["today"] == pytest.approx(sum(prices.values()), abs=1e-3)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("explain", "node"), "1 without a price is not counted"),
        (("explain", "node"), "unknown has no price: no on-demand price of zz9.large in us-east-1 is known"),
        (("explain", "blockers"), "1 without a price is not counted"),
        (("explain", "blockers"), "unknown has no price: no on-demand price of zz9.large"),
        (("explain", "pod", "worker"), "The price of its node is not known."),
        (("savings",), "1 node without a price, not in any sum"),
        (("top",), "+ 1 node without a price"),
    ],
)
def test_a_node_without_a_price_is_never_silently_0(
    mixed: str, arguments: tuple[str, ...], sentence: str
) -> None:
    assert sentence in run(*arguments, "--cluster", mixed).stdout


@pytest.mark.parametrize("what", ["node", "blockers"])
def test_kinds_that_a_dump_lacks_are_named(mixed: str, what: str) -> None:
    result = run("explain", what, "--cluster", mixed)

    assert result.stderr == (
        "note: the dump has no nodepools.karpenter.sh, nodeclaims.karpenter.sh, "
        "ec2nodeclasses.karpenter.k8s.aws, daemonsets.apps, poddisruptionbudgets.policy\n"
    )


def test_a_pod_on_fargate_costs_what_its_node_costs(mixed: str) -> None:
    pod = json.loads(run("explain", "pod", "job", "--cluster", mixed, "-o", "json").stdout)
    text = run("explain", "pod", "job", "--cluster", mixed).stdout

    assert pod["node_share"] == 1
    assert "Fargate bills the node for this pod alone: $0.0247 per hour" in text
    assert text.splitlines()[-1].startswith("Prices: AWS list prices")


def test_kinds_that_may_not_be_listed_are_named(tmp_path: Path) -> None:
    nodes = {"nodes": [a_live_node(number, managed=False) for number in range(2)]}

    with list_server(tmp_path, nodes, forbidden=["poddisruptionbudgets", "services"]) as server:
        result = run("explain", "node", "--kubeconfig", str(server.kubeconfig))

    (note,) = [line for line in result.stderr.splitlines() if line.startswith("note: ")]
    assert note.startswith("note: poddisruptionbudgets.policy could not be listed")


def test_a_node_with_the_label_of_a_nodepool_is_not_called_unmanaged(mixed: str) -> None:
    result = run("explain", "node", "pooled", "--cluster", mixed)

    assert "NodePool default by its label, but its NodeClaim is missing" in result.stdout
    assert "It costs $0.0960 per hour" in result.stdout


def a_nodepool(name: str, kind: str = "EC2NodeClass", group: str = "karpenter.k8s.aws") -> dict[str, Any]:
    reference = {"group": group, "kind": kind, "name": "default"}
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name, "uid": name},
        "spec": {"template": {"spec": {"nodeClassRef": reference, "requirements": []}}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def a_claim(name: str, pool: str) -> dict[str, Any]:
    conditions = [{"type": kind, "status": "True"} for kind in ("Launched", "Registered", "Initialized")]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {"name": name, "uid": name, "labels": {"karpenter.sh/nodepool": pool}},
        "spec": {"nodeClassRef": a_nodepool(pool)["spec"]["template"]["spec"]["nodeClassRef"]},
        "status": {"providerID": f"aws:///us-east-1a/{name}", "nodeName": name, "conditions": conditions},
    }


def a_pool_node(name: str, pool: str, **labels: str) -> dict[str, Any]:
    own = {"karpenter.sh/nodepool": pool, "karpenter.sh/capacity-type": "on-demand", TYPE: "m5.large"}
    states = {"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}
    node = a_node(name, **own, **states, **labels)
    return {**node, "spec": {"providerID": f"aws:///us-east-1a/{name}"}}


def write(tmp_path: Path, *objects: dict[str, Any]) -> str:
    path = tmp_path / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return str(path)


@pytest.mark.parametrize(
    ("pool", "cause"),
    [
        (a_nodepool("web"), "EC2NodeClass 'default' is missing or not ready"),
        (
            a_nodepool("web", "NodeClass", "eks.amazonaws.com"),
            "its NodeClass 'default' belongs to EKS Auto Mode",
        ),
    ],
    ids=["without its EC2NodeClass", "EKS Auto Mode"],
)
def test_nodes_of_a_nodepool_without_instance_types_have_their_price(
    tmp_path: Path, pool: dict[str, Any], cause: str
) -> None:
    dump = write(tmp_path, pool, a_claim("i-1", "web"), a_pool_node("i-1", "web"), a_pod("app", on="i-1"))

    explained = run("explain", "node", "--cluster", dump).stdout
    blockers = json.loads(run("explain", "blockers", "--cluster", dump, "-o", "json").stdout)
    shown = json.loads(run("top", "--cluster", dump, "-o", "json").stdout)
    savings = json.loads(run("savings", "--cluster", dump, "-o", "json").stdout)

    assert "  0.0960  " in explained
    assert f"  NodePool 'web' has no instance types: {cause}" in explained
    assert "1 node, $0.0960 per hour" in explained
    prices = [blockers["price"], shown["totals"]["pricePerHour"], savings["today"]]
    assert prices == pytest.approx([0.096] * 3)
    assert "It requests" in run("explain", "pod", "app", "--cluster", dump).stdout


def test_without_any_price_no_sum_is_0(tmp_path: Path) -> None:
    dump = write(tmp_path, a_node("unknown", **{TYPE: "zz9.large"}), a_pod("app", on="unknown"))

    for what in ("node", "blockers"):
        result = run("explain", what, "--cluster", dump).stdout
        assert "1 node; no price of a node is known." in result
        assert "$0.0000" not in result


def test_a_pod_on_fargate_gets_a_new_fargate_node(mixed: str) -> None:
    text = run("explain", "pod", "job", "--cluster", mixed).stdout

    assert "Without this node, it would get a new one: Fargate has a node for each pod." in text
    assert "would fit on" not in text


def test_nodes_of_fargate_are_not_said_to_have_a_nodepool_instead(tmp_path: Path) -> None:
    fargate = a_node("fargate", **{"eks.amazonaws.com/compute-type": "fargate"})

    alone = run("explain", "blockers", "--cluster", write(tmp_path, fargate, a_fargate_pod("fargate"))).stdout
    both = run("explain", "blockers", "--cluster", write(tmp_path, fargate, a_node("asg"))).stdout

    assert "dovetail savings" not in alone
    assert "1 node of no NodePool: `dovetail savings`" in both


def test_a_node_without_capacity_type_is_priced_and_said_to_have_no_known_offering(tmp_path: Path) -> None:
    dump = write(tmp_path, a_node("asg", **{TYPE: "m5.large"}))

    text = run("explain", "node", "asg", "--cluster", dump).stdout

    assert "It costs $0.0960 per hour" in text
    assert "\nm5.large us-east-1a\n" in text


def test_a_node_of_a_node_group_shows_the_capacity_type_of_its_price(mixed: str) -> None:
    assert "\nt3.medium spot us-east-1a\n" in run("explain", "node", "group", "--cluster", mixed).stdout


def test_a_hybrid_node_shows_no_empty_fields_and_why_it_has_no_price(tmp_path: Path) -> None:
    hybrid = a_node("hybrid", **{"eks.amazonaws.com/compute-type": "hybrid"})
    hybrid["metadata"]["labels"].pop("topology.kubernetes.io/zone")

    text = run("explain", "node", "hybrid", "--cluster", write(tmp_path, hybrid)).stdout

    assert "Its price is not known: a hybrid node" in text
    assert "NodePool -" not in text
    assert not any(line.startswith(";") for line in text.splitlines())


def test_a_node_of_a_nodepool_that_the_dump_lacks_names_it_in_every_command(tmp_path: Path) -> None:
    dump = write(tmp_path, a_claim("i-1", "web"), a_pool_node("i-1", "web"))

    assert "unmanaged  NodePool 'web' not found" in run("explain", "node", "--cluster", dump).stdout
    assert "unmanaged: NodePool 'web' not found" in run("top", "--once", "--cluster", dump).stdout


def test_a_nodepool_that_is_not_ready_is_named_where_a_pod_fits_nowhere(tmp_path: Path) -> None:
    pool = a_nodepool("web")
    pool["status"]["conditions"][0]["status"] = "False"
    objects = [
        a_nodepool("web")
        | {
            "apiVersion": "karpenter.k8s.aws/v1",
            "kind": "EC2NodeClass",
            "metadata": {"name": "default", "uid": "class"},
            "spec": {"amiSelectorTerms": [{"alias": "al2023@latest"}]},
            "status": {"subnets": [{"id": "subnet-1", "zone": "us-east-1a"}]},
        },
        pool,
        a_claim("i-1", "web"),
        a_pool_node("i-1", "web"),
        a_pod("app", on="i-1") | {"metadata": {"name": "app", "namespace": "default", "uid": "app"}},
    ]

    text = run("explain", "pod", "app", "--cluster", write(tmp_path, *objects)).stdout

    assert "NodePool web: is not ready" in text
