"""The savings analysis: sums, blockers, inferred NodePools and bad input."""

from datetime import UTC, datetime
from typing import Any

import pytest
import yaml

from bench.node_group_cluster import node_group_cluster
from dovetail.codec.inputs.cluster_inputs import read_inputs
from dovetail.core.cost.node_groups import GroupKind
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.errors import DovetailError
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_POOLS
from dovetail.savings.analysis import SavingsInput, SavingsResult, analyse
from dovetail.savings.report import Savings
from dovetail.simulator.apiserver.server import ApiServer

NOW = datetime(2026, 11, 1, 12, 5, tzinfo=UTC)
Object = dict[str, Any]


def source(objects: list[Object], **fields: Any) -> SavingsInput:
    catalog = bundled_catalog()
    region = catalog.regions["us-east-1"]
    return SavingsInput(
        objects=objects, now=NOW, catalog=catalog, prices=bundled_prices(), region=region, **fields
    )


def analysed(objects: list[Object], **fields: Any) -> SavingsResult:
    return analyse(source(objects, **fields))


def report_on(objects: list[Object]) -> Savings:
    return analysed(objects).report


def fargate_node(name: str, pod: str) -> list[Object]:
    labels = {"eks.amazonaws.com/compute-type": "fargate", "topology.kubernetes.io/region": "us-east-1"}
    return [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}},
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": pod,
                "namespace": "default",
                "annotations": {"CapacityProvisioned": "0.25vCPU 0.5GB"},
            },
            "spec": {"nodeName": name, "containers": [{"name": "main", "image": "app"}]},
            "status": {"phase": "Running"},
        },
    ]


def nodes_of(objects: list[Object]) -> list[Object]:
    return [obj for obj in objects if obj["kind"] == "Node"]


def pods_of(objects: list[Object]) -> list[Object]:
    return [obj for obj in objects if obj["kind"] == "Pod"]


def is_of_daemon_set(pod: Object) -> bool:
    owners = pod["metadata"].get("ownerReferences") or ()
    return any(owner["kind"] == "DaemonSet" for owner in owners)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_uses_and_steps_add_up_to_todays_bill(seed: int) -> None:
    objects = node_group_cluster(20, 250, seed) + fargate_node("fargate-1", "job")

    report = report_on(objects)

    assert report.today == pytest.approx(sum(bill.price for bill in report.groups))
    assert report.today == pytest.approx(sum(line.price for line in report.uses))
    assert report.today == pytest.approx(sum(line.price for line in report.steps))
    assert all(line.price >= -1e-9 for line in (*report.uses, *report.steps, *report.options))
    assert all(line.assumes for line in (*report.uses, *report.steps, *report.options))
    assert report.bound <= report.from_scratch <= report.consolidated <= report.today


def test_nodes_of_node_groups_are_priced_by_group() -> None:
    report = report_on(node_group_cluster(6, 60))

    assert [(str(bill.group), bill.nodes, round(bill.price, 4)) for bill in report.groups] == [
        ("managed node group data", 2, 0.504),
        ("managed node group web", 2, 0.384),
        ("managed node group batch", 2, 0.2918),
    ]


def test_nodes_without_a_price_are_named_and_not_summed_as_zero() -> None:
    objects = node_group_cluster(6, 60)
    first, second = nodes_of(objects)[:2]
    first["metadata"]["labels"]["node.kubernetes.io/instance-type"] = "m99.large"
    second["metadata"]["labels"] = {"cloud.google.com/gke-nodepool": "pool-1"}

    report = report_on(objects)

    assert [(entry.node, entry.message) for entry in report.unpriced] == [
        (first["metadata"]["name"], "no on-demand price of m99.large in us-east-1 is known"),
        (second["metadata"]["name"], "a node of GKE; only AWS prices are known"),
    ]
    assert sum(bill.unpriced for bill in report.groups) == 2


def test_a_budget_that_allows_no_eviction_keeps_its_nodes() -> None:
    objects = node_group_cluster(12, 160)
    budget = next(obj for obj in objects if obj["kind"] == "PodDisruptionBudget")
    budget["spec"]["maxUnavailable"] = budget["status"]["disruptionsAllowed"] = 0

    with_budget = report_on(objects)
    without = report_on([obj for obj in objects if obj["kind"] != "PodDisruptionBudget"])

    assert with_budget.consolidated > without.consolidated
    assert with_budget.blockers[0].blocker == f"PodDisruptionBudget {budget['metadata']['namespace']}/app-0"
    assert without.blockers == []
    assert with_budget.from_scratch == pytest.approx(without.from_scratch)


def test_fargate_stays_as_it_is() -> None:
    alone = report_on(node_group_cluster(6, 60))

    report = report_on(node_group_cluster(6, 60) + fargate_node("fargate-1", "job"))

    price = 0.25 * 0.04048 + 0.5 * 0.004445
    assert report.fixed == pytest.approx(price)
    assert report.from_scratch == pytest.approx(alone.from_scratch + price)
    assert any("Fargate at" in note for note in report.notes)


@pytest.mark.parametrize(("bound", "note"), [(1, "1 node stays: "), (2, "2 nodes stay: ")])
def test_nodes_whose_pods_fit_on_no_other_are_counted_in_a_note(bound: int, note: str) -> None:
    objects = node_group_cluster(6, 60)
    outside = {"matchExpressions": [{"key": "karpenter.sh/nodepool", "operator": "DoesNotExist"}]}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [outside]}}
    for node in nodes_of(objects)[:bound]:
        on_node = [obj for obj in objects if obj.get("spec", {}).get("nodeName") == node["metadata"]["name"]]
        app = next(pod for pod in on_node if pod["metadata"]["name"].startswith("app-"))
        app["spec"]["affinity"] = {"nodeAffinity": terms}

    report = report_on(objects)

    assert [text for text in report.notes if text.startswith(note)]


def test_pods_on_demand_move_to_spot_only_as_an_option() -> None:
    report = report_on(node_group_cluster(12, 160))
    spot = next(line for line in report.options if "spot" in line.name)

    assert spot.price > 0
    assert "interruptions" in spot.assumes


def test_older_generations_name_their_successors() -> None:
    report = report_on(node_group_cluster(6, 60))

    line = report.options[-1]
    assert line.price > 0
    assert "m5.xlarge → " in line.assumes


def test_inferred_nodepools_pass_validation_and_the_definitions() -> None:
    objects = node_group_cluster(6, 60)
    taint = {"key": "dedicated", "value": "data", "effect": "NoSchedule"}
    for node in nodes_of(objects):
        if node["metadata"]["labels"]["eks.amazonaws.com/nodegroup"] == "data":
            node["spec"]["taints"] = [taint]

    adopted = analysed(objects).adopted
    manifests = [obj for group in adopted.manifests().values() for obj in group]

    inputs = read_inputs([("pools.yaml", yaml.safe_dump_all(manifests).encode())])
    pools = {pool.name: pool for pool in inputs.nodepools}
    api = ApiServer(now=lambda: NOW)
    for obj in manifests:
        api.create(NODE_POOLS if obj["kind"] == "NodePool" else EC2_NODE_CLASSES, obj)
    assert sorted(pools) == ["batch", "data", "web"]
    assert dict(pools["data"].template.labels) == {"team.example.com/tier": "data"}
    assert [taint.key for taint in pools["data"].template.taints] == ["dedicated"]
    assert [node_class.name for node_class in inputs.node_classes] == ["al2023"]
    assert manifests[0]["spec"]["role"] == "KarpenterNodeRole-shop"


def test_keep_types_restricts_inferred_nodepools_to_the_types_of_their_group() -> None:
    adopted = analysed(node_group_cluster(6, 60), keep_types=True).adopted

    by_name = {inferred.pool.name: inferred.pool for inferred in adopted.inferred}
    values = {spec.key: spec.values for spec in by_name["web"].template.requirements}
    assert values["node.kubernetes.io/instance-type"] == ("m5.xlarge",)


def test_nodes_of_a_nodepool_without_nodeclaims_are_adopted_and_said() -> None:
    objects = node_group_cluster(6, 60)
    for node in nodes_of(objects):
        node["metadata"]["labels"]["karpenter.sh/nodepool"] = "default"
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "template": {
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                    "requirements": [],
                }
            }
        },
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }

    report = report_on([*objects, pool])

    assert report.from_scratch < report.today
    assert report.groups[0].group.kind is GroupKind.NODEPOOL
    assert any("6 nodes of NodePools without a NodeClaim" in note for note in report.notes)
    assert any("EC2NodeClass default is not in the input" in note for note in report.notes)


def test_a_nodepool_without_ready_condition_is_taken_as_ready() -> None:
    objects = node_group_cluster(6, 60)
    for node in nodes_of(objects):
        node["metadata"]["labels"]["karpenter.sh/nodepool"] = "old"
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "old"}
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "old"},
        "spec": {"template": {"spec": {"nodeClassRef": reference, "requirements": []}}},
    }

    report = report_on([*objects, pool])

    assert report.from_scratch < report.today


def test_nodes_of_auto_mode_stay_and_belong_to_aws() -> None:
    objects = node_group_cluster(6, 60)
    reference = {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"}
    pool = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "general-purpose"},
        "spec": {"template": {"spec": {"nodeClassRef": reference, "requirements": []}}},
    }
    claims = []
    for node in nodes_of(objects):
        auto = {"eks.amazonaws.com/compute-type": "auto", "karpenter.sh/nodepool": "general-purpose"}
        node["metadata"]["labels"] |= auto
        claim = {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "metadata": {"name": node["metadata"]["name"], "labels": auto},
            "spec": {"nodeClassRef": reference, "requirements": []},
            "status": {"providerID": node["spec"]["providerID"], "nodeName": node["metadata"]["name"]},
        }
        claims.append(claim)

    report = report_on([*objects, pool, *claims])

    assert report.fixed_nodes == 6
    assert report.from_scratch == pytest.approx(report.today)
    assert report.inferred_pools == []
    assert any("EKS Auto Mode belong to AWS" in note for note in report.notes)
    assert not any("EC2NodeClass" in note for note in report.notes)


def test_objects_without_name_and_nodes_without_provider_id_are_no_obstacle() -> None:
    objects = node_group_cluster(6, 60)
    for node in nodes_of(objects):
        del node["spec"]["providerID"]

    report = report_on([*objects, {"apiVersion": "v1", "kind": "Node"}, {"kind": "Pod", "metadata": {}}])

    assert report.nodes == 6
    assert report.from_scratch < report.today


def test_a_dump_without_pods_is_refused_with_the_command_for_one() -> None:
    with pytest.raises(DovetailError, match=r"no pods in the input.*dovetail dump"):
        report_on([obj for obj in node_group_cluster(3, 10) if obj["kind"] != "Pod"])


@pytest.mark.parametrize(
    ("labels", "provider", "cloud"),
    [
        ({"kubernetes.azure.com/agentpool": "system"}, "azure:///", "AKS"),
        ({"cloud.google.com/gke-nodepool": "default-pool"}, "gce://project/europe-west1-b/", "GKE"),
        ({"karpenter.sh/nodepool": "general"}, "azure:///", "azure"),
        ({}, "openstack:///", "openstack"),
    ],
)
def test_a_cluster_of_another_cloud_has_no_bill_but_the_price_of_its_pods_on_ec2(
    labels: dict[str, str], provider: str, cloud: str
) -> None:
    objects = node_group_cluster(3, 30)
    for node in nodes_of(objects):
        node["metadata"]["labels"] = labels
        node["spec"]["providerID"] = f"{provider}{node['metadata']['name']}"

    report = report_on(objects)

    assert (report.today, report.from_scratch, len(report.unpriced)) == (0.0, 0.0, 3)
    assert (report.uses, report.steps, report.options) == ([], [], [])
    assert report.other_cloud is not None
    assert report.other_cloud.clouds == [cloud]
    assert report.other_cloud.pods == len([pod for pod in pods_of(objects) if not is_of_daemon_set(pod)])
    assert report.other_cloud.price_on_ec2 > 0
    assert report.other_cloud.unschedulable == 0


def test_pods_of_another_cloud_that_fit_on_no_ec2_instance_are_counted_with_the_reason() -> None:
    objects = node_group_cluster(3, 30)
    for node in nodes_of(objects):
        node["metadata"]["labels"] = {"cloud.google.com/gke-nodepool": "default-pool"}
        node["spec"]["providerID"] = f"gce://project/europe-west1-b/{node['metadata']['name']}"
    pod = next(pod for pod in pods_of(objects) if not is_of_daemon_set(pod))
    pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "9000"}}

    report = report_on(objects)

    assert report.other_cloud is not None
    assert report.other_cloud.unschedulable == 1
    assert pod["metadata"]["name"] in report.other_cloud.message


def test_a_cluster_with_one_node_of_another_cloud_still_has_its_bill() -> None:
    objects = node_group_cluster(3, 30)
    node = nodes_of(objects)[0]
    node["metadata"]["labels"] = {"kubernetes.azure.com/agentpool": "system"}
    node["spec"]["providerID"] = "azure:///one"

    report = report_on(objects)

    assert report.other_cloud is None
    assert report.today > 0
    assert [entry.node for entry in report.unpriced] == [node["metadata"]["name"]]


def test_two_clusters_in_one_input_are_priced_each_by_its_region() -> None:
    objects = node_group_cluster(6, 60)
    for node in nodes_of(objects)[3:]:
        node["metadata"]["labels"]["topology.kubernetes.io/region"] = "eu-west-1"
        node["metadata"]["labels"]["topology.kubernetes.io/zone"] = "eu-west-1a"

    report = report_on(objects)

    assert report.today > report_on(node_group_cluster(6, 60)).today
    assert any("more than one region" in note for note in report.notes)
