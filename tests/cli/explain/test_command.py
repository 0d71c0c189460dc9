"""``dovetail explain``: keep reasons, pending pods and blockers, from a dump."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from dovetail.cli.explain.output import Nodes, format_nodes
from dovetail.cli.main import cli
from dovetail.core.disruption.command import KeepReason
from dovetail.core.disruption.explain import TargetFleet
from dovetail.ports.api_resources import DEPLOYMENTS, EVENTS, NODE_POOLS, NODES, PODS, RESOURCES
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.storage.frozen_object import thaw
from dovetail.simulator.cluster import SimulatedCluster
from tests.support.simulator.clusters import a_node_class, a_pool, an_app, build_cluster, build_scenario, wait

PROTECTED = {"karpenter.sh/do-not-disrupt": "true"}
M5_LARGE_SPOT = 0.03648
NODE_COST = 20 * 0.08 / 730 + 0.045 / 24


def a_consolidating_pool(policy: str = "WhenEmptyOrUnderutilized") -> dict[str, Any]:
    rules = {"consolidationPolicy": policy, "consolidateAfter": "10m", "budgets": [{"nodes": "100%"}]}
    return a_pool(disruption=rules)


def a_budget(app: str) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {"matchLabels": {"app": app}}},
    }


def half_empty_cluster(*more: dict[str, Any], pool: dict[str, Any] | None = None) -> SimulatedCluster:
    """Return a cluster of four nodes for two pods each, with one pod each."""
    web = an_app("web", replicas=8)
    (container,) = web["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "900m", "memory": "1Gi"}}
    objects = (a_node_class(), pool or a_consolidating_pool(), web, *more)
    cluster = build_cluster(build_scenario(objects=objects, node_group=0))
    wait(cluster, 60)
    for node in sorted(node["metadata"]["name"] for node in cluster.api.list(NODES).items)[:4]:
        _mark_one_pod_for_deletion(cluster, node)
    cluster.api.patch(DEPLOYMENTS, "web", {"spec": {"replicas": 4}}, PatchType.MERGE, "default")
    wait(cluster, 300)
    return cluster


def _mark_one_pod_for_deletion(cluster: SimulatedCluster, node: str) -> None:
    """Set the lowest deletion cost on one pod of a node: the ReplicaSet deletes it."""
    pods = [pod for pod in cluster.api.list(PODS).items if pod["spec"].get("nodeName") == node]
    if pods:
        cluster.api.patch(
            PODS,
            pods[0]["metadata"]["name"],
            {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-100"}}},
            PatchType.MERGE,
            "default",
        )


def dump(cluster: SimulatedCluster, folder: Path) -> str:
    """Write a cluster to a file, as kubectl does."""
    items = [
        {"apiVersion": kind.api_version, "kind": kind.kind, **thaw(obj)}
        for kind in RESOURCES
        for obj in cluster.api.list(kind).items
    ]
    file = folder / "dump.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(file)


def explain(*arguments: str, files: Sequence[str]) -> Result:
    clusters = [argument for file in files for argument in ("--cluster", file)]
    return CliRunner().invoke(cli, ["explain", *arguments, *clusters], prog_name="dovetail")


def explain_json(*arguments: str, file: str) -> Any:
    result = explain(*arguments, "-o", "json", files=[file])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a half-empty cluster with a PDB that allows no eviction, and an unschedulable pod."""
    huge = an_app("huge", replicas=1)
    (container,) = huge["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "64"}}
    return dump(half_empty_cluster(a_budget("web"), huge), tmp_path_factory.mktemp("held"))


def test_every_node_is_listed_with_its_price_and_keep_reason(held: str) -> None:
    nodes = explain_json("node", file=held)["nodes"]

    managed = [node for node in nodes if node["code"] != "unmanaged"]
    assert len(managed) == 4
    assert {node["because"] for node in managed} == {"Pdb default/web prevents pod evictions"}
    assert [node["price"] for node in managed] == [pytest.approx(M5_LARGE_SPOT)] * 4


def test_an_unknown_policy_is_named_with_the_nearest(held: str) -> None:
    result = explain("node", "--policy", "paybak", files=[held])

    assert result.exit_code == 1
    assert "did you mean 'payback'?" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{pod}x"], "there is no pod '{pod}x'; did you mean '{pod}'?\n"),
        (["nothing-like-it"], "there is no pod 'nothing-like-it'\n"),
        (["nothing-like-it", "-n", "default"], "there is no pod 'nothing-like-it' in namespace default\n"),
        (["{pod}", "-n", "kube-system"], "there is no pod kube-system/{pod}; it is in default\n"),
        (["kube-system/{pod}"], "there is no pod kube-system/{pod}; it is in default\n"),
    ],
)
def test_a_missing_pod_is_named_with_its_namespace_and_where_one_is(
    held: str, arguments: list[str], message: str
) -> None:
    name = _pod(held, "huge").rpartition("/")[2]

    result = explain("pod", *(text.format(pod=name) for text in arguments), files=[held])

    assert result.exit_code == 1
    assert message.format(pod=name) in result.stderr


def test_the_table_ends_with_the_total_price(held: str) -> None:
    result = explain("node", files=[held])

    assert "4 nodes, $0.1459 per hour ($107 a month)." in result.stdout
    assert "Prices: " in result.stdout


def test_a_node_of_a_node_group_is_priced_from_its_labels(tmp_path: Path) -> None:
    cluster = build_cluster(build_scenario(objects=(a_node_class(), a_pool()), node_group=2))
    wait(cluster, 60)

    result = explain("node", files=[dump(cluster, tmp_path)])

    assert "  0.0208  unmanaged  it belongs to " in result.stdout
    assert "2 nodes, $0.0416 per hour ($30 a month)." in result.stdout


def test_blockers_name_the_command_for_nodes_of_no_nodepool(tmp_path: Path) -> None:
    cluster = build_cluster(build_scenario(objects=(a_node_class(), a_pool()), node_group=2))
    wait(cluster, 60)

    result = explain("blockers", files=[dump(cluster, tmp_path)])

    assert "2 nodes of no NodePool: `dovetail savings` says" in result.stdout


def test_a_blocker_is_ranked_by_the_saving_without_it(held: str) -> None:
    report = explain_json("blockers", file=held)

    (first,) = report["blockers"]
    assert first["blocker"] == {"kind": "PodDisruptionBudget", "name": "default/web"}
    assert len(first["nodes"]) == 4
    assert first["price"] == pytest.approx(4 * M5_LARGE_SPOT)
    assert first["saving"] == pytest.approx(2 * (M5_LARGE_SPOT + NODE_COST))
    assert report["saving"] == 0


def test_a_nodepool_that_consolidates_only_empty_nodes_is_a_blocker(tmp_path: Path) -> None:
    file = dump(half_empty_cluster(pool=a_consolidating_pool("WhenEmpty")), tmp_path)

    (first,) = explain_json("blockers", file=file)["blockers"]

    assert first["blocker"] == {"kind": "NodePool", "name": "default"}
    assert first["saving"] == pytest.approx(2 * (M5_LARGE_SPOT + NODE_COST))


def test_without_blockers_a_message_is_shown(tmp_path: Path) -> None:
    file = dump(build_cluster(build_scenario(objects=(a_node_class(), a_pool()))), tmp_path)

    result = explain("blockers", files=[file])

    assert "Nothing blocks the termination of a node." in result.stdout


def test_one_node_is_shown_with_pods_free_resources_and_blocker(held: str) -> None:
    name = explain_json("node", file=held)["nodes"][0]["node"]

    result = explain("node", name, files=[held])

    assert f"Node {name} stays: Pdb default/web prevents pod evictions." in result.stdout
    assert "Blocker: PodDisruptionBudget default/web" in result.stdout
    assert "m5.large spot us-east-1" in result.stdout
    assert "1 pod would need another node: default/web-" in result.stdout


def test_a_pending_pod_is_shown_with_the_reason_of_each_nodepool(held: str) -> None:
    result = explain("pod", _pod(held, "huge"), files=[held])

    assert "can get no node." in result.stdout
    assert "NodePool default: too large for every type; closest is m5.large" in result.stdout


def test_a_pod_with_complex_constraints_is_shown_as_such(tmp_path: Path) -> None:
    terms = [
        {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": {"matchLabels": {"app": str(n)}}}
        for n in range(100)
    ]
    app = an_app(replicas=1)
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    app["spec"]["template"]["spec"]["affinity"] = {"podAntiAffinity": required}
    cluster = build_cluster(build_scenario(objects=(a_node_class(), a_pool(), app)))
    wait(cluster, 1)
    file = dump(cluster, tmp_path)

    result = explain("pod", _pod(file, "web"), files=[file])

    assert "planned on its own, after all other pods" in result.stdout
    assert "m5.large" in result.stdout


def test_a_pod_that_keeps_its_node_is_shown_with_the_price(held: str) -> None:
    result = explain("pod", _pod(held, "web"), files=[held])

    assert "PodDisruptionBudget default/web allows no eviction now." in result.stdout
    assert "That costs $0.0365 per hour ($27 a month)." in result.stdout


def test_a_running_pod_is_shown_with_its_price_share_and_the_node_it_could_move_to(tmp_path: Path) -> None:
    file = dump(half_empty_cluster(), tmp_path)

    pod = explain_json("pod", _pod(file, "web"), file=file)
    result = explain("pod", _pod(file, "web"), files=[file])

    assert pod["node_price"] == pytest.approx(M5_LARGE_SPOT)
    assert pod["node_share"] == pytest.approx(0.9 / 1.93, rel=0.01)
    assert pod["existing"] not in ("", pod["node"])
    assert "It requests 47% of the node" in result.stdout
    assert f"Without this node, it would fit on {pod['existing']}." in result.stdout
    assert result.stdout.splitlines()[-1].startswith("Prices: ")


def test_a_drifted_node_whose_pods_fit_nowhere_stays_as_its_event_says(tmp_path: Path) -> None:
    objects = (a_node_class(), a_pool(), an_app(replicas=1))
    cluster = build_cluster(build_scenario(objects=objects, node_group=0))
    wait(cluster, 60)
    unknown = [{"key": "karpenter.k8s.aws/instance-family", "operator": "In", "values": ["m99"]}]
    patch = {"spec": {"template": {"spec": {"requirements": unknown}}}}
    cluster.api.patch(NODE_POOLS, "default", patch, PatchType.MERGE)
    wait(cluster, 60)

    (node,) = explain_json("node", file=dump(cluster, tmp_path))["nodes"]

    messages = [event["message"] for event in cluster.api.list(EVENTS).items]
    assert node["code"] == "no-place"
    assert node["because"].startswith("it has drifted (RequirementsDrifted), but Pod default/web")
    assert any("cannot be scheduled: default: no instance type meets" in message for message in messages)


def test_a_schedulable_pod_is_shown_with_its_new_node_and_price(tmp_path: Path) -> None:
    cluster = build_cluster(build_scenario(objects=(a_node_class(), a_pool(), an_app(replicas=1))))
    wait(cluster, 1)  # The batch window is still open: nothing is launched yet.
    file = dump(cluster, tmp_path)

    pod = explain_json("pod", _pod(file, "web"), file=file)

    assert (pod["waiting"], pod["new"], pod["new_nodepool"]) == (True, "m5.large", "default")
    assert pod["new_price"] == pytest.approx(M5_LARGE_SPOT)


def test_a_pod_with_an_assigned_nodeclaim_is_shown_with_it(tmp_path: Path) -> None:
    cluster = build_cluster(build_scenario(objects=(a_node_class(), a_pool(), an_app(replicas=1))))
    wait(cluster, 5)
    file = dump(cluster, tmp_path)

    pod = explain_json("pod", _pod(file, "web"), file=file)

    assert pod["claim"].startswith("default-")


def test_an_unknown_name_gets_a_suggestion(held: str) -> None:
    name = explain_json("node", file=held)["nodes"][0]["node"]

    result = explain("node", name[:-1], files=[held])

    assert result.exit_code == 1
    assert f"did you mean '{name}'?" in result.stderr
    assert explain("pod", "missing", files=[held]).exit_code == 1


def test_a_dump_without_nodes_is_rejected_with_the_command_for_one(tmp_path: Path) -> None:
    file = tmp_path / "empty.json"
    file.write_text('{"apiVersion": "v1", "kind": "List", "items": []}')

    result = explain("node", files=[str(file)])

    assert result.exit_code == 1
    assert "dovetail dump -o cluster.json" in result.stderr


def _pod(file: str, prefix: str) -> str:
    items = json.loads(Path(file).read_text())["items"]
    return next(
        item["metadata"]["name"]
        for item in items
        if item["kind"] == "Pod" and item["metadata"]["name"].startswith(prefix)
    )


def test_a_dump_and_a_kubeconfig_exclude_each_other(held: str) -> None:
    result = explain("node", "--kubeconfig", "mine", files=[held])

    assert result.exit_code == 1
    assert "not both" in result.stderr


def test_the_table_names_the_fleet_that_consolidation_is_heading_for() -> None:
    reasons = [KeepReason(node="n", price=19.8, code="not-cheaper", message="it would save nothing")]
    target = TargetFleet(nodes=1, price=19.8, target_nodes=8, target_price=13.61)

    lines = [str(line) for line in format_nodes(Nodes(nodes=reasons, target=target), "bundled")]

    assert "1 of them, 19.80 USD/h, may be replaced: could be 8 nodes for 13.61 USD/h." in lines


def test_a_target_that_saves_nothing_is_not_shown() -> None:
    reasons = [KeepReason(node="n", price=19.8, code="not-cheaper", message="it would save nothing")]
    target = TargetFleet(nodes=1, price=19.8, target_nodes=1, target_price=19.8)

    lines = [str(line) for line in format_nodes(Nodes(nodes=reasons, target=target), "bundled")]

    assert not any("could be" in line for line in lines)


def stuck_group(*types: str) -> SimulatedCluster:
    """Return a cluster with one pod of a group bound, and one that must share its host."""
    pool = a_pool()
    pool["spec"]["template"]["spec"]["requirements"][1]["values"] = list(types)
    group = an_app("group", replicas=1)
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "group"}}}
    required = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    group["spec"]["template"]["spec"]["affinity"] = required
    cluster = build_cluster(build_scenario(objects=(a_node_class(), pool, group), node_group=0))
    wait(cluster, 60)
    cluster.api.patch(DEPLOYMENTS, "group", {"spec": {"replicas": 2}}, PatchType.MERGE, "default")
    wait(cluster, 60)
    return cluster


@pytest.mark.parametrize(
    ("types", "remedy"),
    [
        (("m5.large", "m5.2xlarge"), "the feature gate HostGroupReplacement replaces the node"),
        (("m5.large",), "no NodePool has a node for all of them"),
    ],
    ids=["larger node", "no larger node"],
)
def test_a_pod_that_must_share_a_full_host_is_shown_with_the_host_and_a_remedy(
    tmp_path: Path, types: tuple[str, ...], remedy: str
) -> None:
    cluster = stuck_group(*types)
    pods = {bool(pod["spec"].get("nodeName")): pod for pod in cluster.api.list(PODS).items}
    waiting, bound = pods[False]["metadata"]["name"], pods[True]

    result = explain("pod", waiting, files=[dump(cluster, tmp_path)])

    host = f"Pod default/{bound['metadata']['name']} on Node {bound['spec']['nodeName']}"
    text = " ".join(result.stdout.split())
    assert f"It must share a host with {host}, which has no room for it." in text
    assert f"To resolve it: {remedy}" in text


def test_nodes_and_target_are_shown_with_their_node_costs() -> None:
    reasons = [
        KeepReason(node="n", price=19.8, node_cost=0.2, code="later", message="other nodes come first")
    ]
    target = TargetFleet(
        nodes=1, price=19.8, target_nodes=8, target_price=13.61, node_cost=0.2, target_node_cost=1.6
    )

    text = "\n".join(map(str, format_nodes(Nodes(nodes=reasons, target=target), "bundled")))

    assert "Node costs are $0.2000 per hour; in all $20.0000 per hour" in text
    assert "could be 8 nodes for 13.61 USD/h (with node costs 20.00 and 15.21)." in text


def a_ledger_dump(folder: Path, text: str) -> Path:
    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "dovetail-savings", "namespace": "kube-system"},
        "data": {"ledger.json": text},
    }
    file = folder / "ledger.json"
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [config_map]}))
    return file


RECORD = {
    "id": "one",
    "at": "2026-01-01T09:00:00Z",
    "reason": "Underutilized",
    "expected": 0.25,
    "removed": [
        {
            "claim": "old",
            "uid": "u",
            "node": "n",
            "nodepool": "default",
            "cost": 0.2,
            "goneAt": "2026-01-01T10:00:00Z",
            "until": "2026-01-01T12:00:00Z",
        }
    ],
}


def explain_savings(file: Path, *options: str) -> Result:
    return CliRunner().invoke(cli, ["explain", "savings", "--cluster", str(file), *options])


def test_savings_show_what_was_expected_and_what_was_saved(tmp_path: Path) -> None:
    ledger = {"since": "2026-01-01T09:00:00Z", "records": [RECORD]}

    result = explain_savings(a_ledger_dump(tmp_path, json.dumps(ledger)))

    assert result.exit_code == 0, result.output
    assert "Underutilized" in result.output
    assert "to 01-01 12:00" in result.output
    assert "Underutilized: 1 command, 1 node; expected $0.50, saved $0.40" in result.output
    assert all(len(line) <= 80 for line in result.output.splitlines())


def test_savings_as_json_have_the_fields_of_the_view(tmp_path: Path) -> None:
    ledger = {"since": "2026-01-01T09:00:00Z", "records": [RECORD]}

    result = explain_savings(a_ledger_dump(tmp_path, json.dumps(ledger)), "-o", "json")

    document = json.loads(result.output)
    assert document["savings"]["realized"] == pytest.approx(0.4)
    assert document["decisions"][0]["expectedPerHour"] == 0.25


def test_savings_of_an_empty_ledger_say_so(tmp_path: Path) -> None:
    result = explain_savings(a_ledger_dump(tmp_path, ""))

    assert (result.exit_code, result.output.strip()) == (0, "No disruption command has been recorded yet.")


@pytest.mark.parametrize(("text", "message"), [("{", "remove the key"), ('{"version": 9}', "version 9")])
def test_broken_ledger_is_an_error_without_a_traceback(tmp_path: Path, text: str, message: str) -> None:
    result = explain_savings(a_ledger_dump(tmp_path, text))

    assert result.exit_code == 1
    assert message in result.output
    assert "dovetail-savings" in result.output


def test_dump_without_the_ledger_is_an_error_that_says_how_to_get_it(tmp_path: Path) -> None:
    file = tmp_path / "dump.json"
    file.write_text('{"apiVersion": "v1", "kind": "List", "items": []}')

    result = explain_savings(file)

    assert result.exit_code == 1
    assert "kubectl get configmap dovetail-savings" in result.output
