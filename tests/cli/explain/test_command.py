"""``dovetail explain``: why nodes stay and pods wait, from a dump of a cluster."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from dovetail.ports.api_resources import DEPLOYMENTS, NODES, PODS, RESOURCES
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.storage.frozen_object import thaw
from dovetail.simulator.cluster import Box
from tests.support.boxes import a_box, a_node_class, a_pool, a_story, an_app, wait

PROTECTED = {"karpenter.sh/do-not-disrupt": "true"}
M5_LARGE_SPOT = 0.03648


def a_willing_pool(policy: str = "WhenEmptyOrUnderutilized") -> dict[str, Any]:
    rules = {
        "consolidationPolicy": policy,
        "consolidateAfter": "10m",
        "budgets": [{"nodes": "100%"}],
    }
    return a_pool(disruption=rules)


def a_budget(app: str) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": app}}},
    }


def half_empty(*more: dict[str, Any], pool: dict[str, Any] | None = None) -> Box:
    """Four nodes with two pods each, of which one each has gone."""
    web = an_app("web", replicas=8)
    (container,) = web["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "900m", "memory": "1Gi"}}
    objects = (a_node_class(), pool or a_willing_pool(), web, *more)
    box = a_box(a_story(objects=objects, home=0))
    wait(box, 60)
    for node in sorted(one["metadata"]["name"] for one in box.api.list(NODES).items)[:4]:
        _delete_one_pod_of(box, node)
    box.api.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 4}}, PatchType.MERGE, "default")
    wait(box, 300)
    return box


def _delete_one_pod_of(box: Box, node: str) -> None:
    """The ReplicaSet lets pods go that cost least to delete: one on each node."""
    pods = [one for one in box.api.list(PODS).items if one["spec"].get("nodeName") == node]
    if pods:
        box.api.patch(
            PODS,
            pods[0]["metadata"]["name"],
            {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-100"}}},
            PatchType.MERGE,
            "default",
        )


def dump(box: Box, folder: Path) -> str:
    """Write a cluster down as kubectl does."""
    items = [
        {"apiVersion": kind.api_version, "kind": kind.kind, **thaw(one)}
        for kind in RESOURCES
        for one in box.api.list(kind).items
    ]
    file = folder / "dump.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(file)


def explain(*words: str, files: Sequence[str]) -> Result:
    clusters = [word for file in files for word in ("--cluster", file)]
    return CliRunner().invoke(cli, ["explain", *words, *clusters], prog_name="dovetail")


def told(*words: str, file: str) -> Any:
    result = explain(*words, "-o", "json", files=[file])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A half-empty cluster whose pods may not be moved, and a pod that nothing can take."""
    huge = an_app("huge", replicas=1)
    (container,) = huge["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "64"}}
    return dump(half_empty(a_budget("web"), huge), tmp_path_factory.mktemp("held"))


def test_every_node_is_listed_with_its_price_and_the_reason_why_it_stays(held: str) -> None:
    nodes = told("node", file=held)["nodes"]

    ours = [one for one in nodes if one["code"] != "unmanaged"]
    assert len(ours) == 4
    assert {one["because"] for one in ours} == {"Pdb default/web prevents pod evictions"}
    assert [one["price"] for one in ours] == [pytest.approx(M5_LARGE_SPOT)] * 4


def test_the_table_ends_with_what_all_nodes_cost(held: str) -> None:
    result = explain("node", files=[held])

    assert "4 nodes, $0.1459 per hour ($107 a month)." in result.stdout
    assert "Prices: " in result.stdout


def test_a_node_that_is_not_ours_has_no_price_and_is_not_counted(tmp_path: Path) -> None:
    box = a_box(a_story(objects=(a_node_class(), a_pool()), home=2))
    wait(box, 60)

    result = explain("node", files=[dump(box, tmp_path)])

    assert "       -  unmanaged" in result.stdout
    assert "2 without a price are not counted." in result.stdout


def test_a_blocker_is_ranked_by_what_could_be_saved_without_it(held: str) -> None:
    found = told("blockers", file=held)

    (first,) = found["blockers"]
    assert first["blocker"] == {"kind": "PodDisruptionBudget", "name": "default/web"}
    assert len(first["nodes"]) == 4
    assert first["price"] == pytest.approx(4 * M5_LARGE_SPOT)
    assert first["saving"] == pytest.approx(2 * M5_LARGE_SPOT)
    assert found["saving"] == 0


def test_a_pool_that_consolidates_only_empty_nodes_is_a_blocker(tmp_path: Path) -> None:
    file = dump(half_empty(pool=a_willing_pool("WhenEmpty")), tmp_path)

    (first,) = told("blockers", file=file)["blockers"]

    assert first["blocker"] == {"kind": "NodePool", "name": "default"}
    assert first["saving"] == pytest.approx(2 * M5_LARGE_SPOT)


def test_where_nobody_holds_anything_that_is_said(tmp_path: Path) -> None:
    file = dump(a_box(a_story(objects=(a_node_class(), a_pool()))), tmp_path)

    result = explain("blockers", files=[file])

    assert "Nobody keeps a node from being given back." in result.stdout


def test_one_node_is_told_with_its_pods_its_room_and_who_could_change_that(held: str) -> None:
    name = told("node", file=held)["nodes"][0]["node"]

    result = explain("node", name, files=[held])

    assert f"Node {name} stays: Pdb default/web prevents pod evictions." in result.stdout
    assert "Who could change that: PodDisruptionBudget default/web" in result.stdout
    assert "m5.large spot us-east-1" in result.stdout
    assert "1 pods would need another node: default/web-" in result.stdout


def test_a_pod_that_waits_is_told_why_pool_by_pool(held: str) -> None:
    result = explain("pod", _pod(held, "huge"), files=[held])

    assert "can get no node." in result.stdout
    assert "NodePool default: too large for every type; closest is m5.large" in result.stdout


def test_a_pod_that_holds_its_node_is_told_what_that_costs(held: str) -> None:
    result = explain("pod", _pod(held, "web"), files=[held])

    assert "PodDisruptionBudget default/web lets nobody evict it now." in result.stdout
    assert "That costs $0.0365 per hour ($27 a month)." in result.stdout


def test_a_pod_that_could_have_a_node_is_told_which_and_for_how_much(tmp_path: Path) -> None:
    box = a_box(a_story(objects=(a_node_class(), a_pool(), an_app(replicas=1))))
    wait(box, 1)  # Nothing is bought before pods have been gathered.
    file = dump(box, tmp_path)

    found = told("pod", _pod(file, "web"), file=file)

    assert (found["waiting"], found["new"], found["new_nodepool"]) == (True, "m5.large", "default")
    assert found["new_price"] == pytest.approx(M5_LARGE_SPOT)


def test_a_pod_for_which_a_claim_was_made_is_told_which(tmp_path: Path) -> None:
    box = a_box(a_story(objects=(a_node_class(), a_pool(), an_app(replicas=1))))
    wait(box, 5)
    file = dump(box, tmp_path)

    found = told("pod", _pod(file, "web"), file=file)

    assert found["claim"].startswith("default-")


def test_a_name_that_is_not_there_gives_the_nearest_one(held: str) -> None:
    name = told("node", file=held)["nodes"][0]["node"]

    result = explain("node", name[:-1], files=[held])

    assert result.exit_code == 1
    assert f"did you mean '{name}'?" in result.stderr
    assert explain("pod", "nobody", files=[held]).exit_code == 1


def test_a_dump_without_nodes_says_how_to_make_one(tmp_path: Path) -> None:
    file = tmp_path / "empty.json"
    file.write_text('{"apiVersion": "v1", "kind": "List", "items": []}')

    result = explain("node", files=[str(file)])

    assert result.exit_code == 1
    assert "kubectl get nodes,pods" in result.stderr


def _pod(file: str, prefix: str) -> str:
    items = json.loads(Path(file).read_text())["items"]
    return next(
        one["metadata"]["name"]
        for one in items
        if one["kind"] == "Pod" and one["metadata"]["name"].startswith(prefix)
    )


def test_a_dump_and_a_kubeconfig_at_once_are_refused(held: str) -> None:
    result = explain("node", "--kubeconfig", "mine", files=[held])

    assert result.exit_code == 1
    assert "not both" in result.stderr
