"""Fork of a recorded cluster: everything is where it was, and nothing happens by itself."""

from datetime import timedelta
from typing import Any

import pytest

from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import (
    EC2_NODE_CLASSES,
    NODE_CLAIMS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    STATEFUL_SETS,
)
from dovetail.simulator.apiserver.options import ListOptions
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.ec2.account import InstanceState
from tests.support.simulator.clusters import an_app, scaled, wait
from tests.support.simulator.recorded import (
    a_budget,
    a_database,
    a_running_cluster,
    an_agent,
    changed_objects,
    fork,
    identities,
    of_kind,
    record,
    without,
)

TWO_HOURS = timedelta(hours=2)


@pytest.fixture(scope="module")
def recorded() -> SimulatedCluster:
    """A cluster with every kind of workload; tests do not change it."""
    return a_running_cluster(an_agent(), *a_database(), a_budget(), node_group=2)


def test_fork_of_a_cluster_at_rest_stays_at_rest(recorded: SimulatedCluster) -> None:
    forked = fork(record(recorded), recorded)
    before, launches = identities(forked), len(forked.ec2.billing.launches)
    wait(forked, 60)  # The simulation attaches volumes by itself.

    changed = changed_objects(forked, TWO_HOURS)

    assert changed == []
    assert identities(forked) == before == identities(recorded)
    assert len(forked.ec2.billing.launches) == launches
    assert forked.recorder.unsettled == 0


def test_fork_costs_what_the_cluster_costs(recorded: SimulatedCluster) -> None:
    forked = fork(record(recorded), recorded)

    assert forked.ec2.billing.price_per_hour() == pytest.approx(recorded.ec2.billing.price_per_hour())
    assert forked.ec2.billing.cost(forked.clock.now()) == 0


def test_instances_have_type_zone_capacity_type_and_age_of_their_nodeclaims(
    recorded: SimulatedCluster,
) -> None:
    def facts(cluster: SimulatedCluster) -> dict[str, Any]:
        return {
            instance.provider_id: (
                instance.choice.instance_type.name,
                instance.choice.offering,
                instance.image_id,
                instance.subnet,
                instance.security_groups,
                instance.launched.replace(microsecond=0),
                instance.state,
            )
            for instance in cluster.ec2.instances()
        }

    forked = fork(record(recorded), recorded)

    # A NodeClaim is created up to a second before its instance is launched.
    for provider_id, (*expected, launched, state) in facts(recorded).items():
        *actual, forked_launched, forked_state = facts(forked)[provider_id]
        assert actual == expected
        assert timedelta() <= launched - forked_launched <= timedelta(seconds=3)
        assert forked_state == state == InstanceState.RUNNING


def test_nodes_of_node_groups_are_billed_and_stay_when_they_are_empty(recorded: SimulatedCluster) -> None:
    forked = fork(record(recorded), recorded)

    assert len(forked.unmanaged) == 2
    assert forked.fork is not None
    assert (forked.fork.nodes, forked.fork.managed_nodes) == (5, 3)


def test_controllers_recreate_pods_that_are_deleted(recorded: SimulatedCluster) -> None:
    forked = fork(record(recorded), recorded)
    for pod in forked.api.list(PODS).items:
        forked.api.delete(PODS, pod["metadata"]["name"], pod["metadata"]["namespace"])

    wait(forked, 300)

    def owners(cluster: SimulatedCluster) -> list[str]:
        return sorted(
            pod["metadata"]["ownerReferences"][0]["name"]
            for pod in cluster.api.list(PODS).items
            if pod["status"]["phase"] == "Running"
        )

    assert owners(forked) == owners(recorded)
    assert not set(identities(forked)) & {pod["metadata"]["uid"] for pod in recorded.api.list(PODS).items}


def test_scaled_workload_gets_a_new_node(recorded: SimulatedCluster) -> None:
    from dovetail.simulator.scenario_actions import perform

    forked = fork(record(recorded), recorded)

    perform(scaled(5), forked)
    wait(forked, 300)

    assert forked.recorder.running == recorded.recorder.running + 2
    names = [node["metadata"]["name"] for node in forked.api.list(NODES).items]
    assert len(names) == len(set(names)) == 7


def test_volumes_keep_their_pods_in_their_zone(recorded: SimulatedCluster) -> None:
    forked = fork(record(recorded), recorded)

    def zones(cluster: SimulatedCluster) -> dict[str, str]:
        pods = cluster.api.list(PODS, ListOptions(namespace="shop")).items
        return {
            pod["metadata"]["name"]: cluster.api.get(NODES, pod["spec"]["nodeName"])["metadata"]["labels"][
                label_keys.ZONE
            ]
            for pod in pods
        }

    before = zones(forked)
    for name in before:
        forked.api.delete(PODS, name, "shop")
    wait(forked, 300)

    assert zones(forked) == before


def test_budget_status_is_recomputed_from_the_pods(recorded: SimulatedCluster) -> None:
    objects = record(recorded)
    for pdb in of_kind(objects, "PodDisruptionBudget"):
        pdb["status"] = {"disruptionsAllowed": 99, "expectedPods": 99, "observedGeneration": 1}

    forked = fork(objects, recorded)
    wait(forked, 1)

    status = forked.api.get(POD_DISRUPTION_BUDGETS, "web", "default")["status"]
    assert (status["disruptionsAllowed"], status["expectedPods"], status["currentHealthy"]) == (1, 3, 3)


def test_revisions_that_kubernetes_computed_do_not_roll_out_pods_again(recorded: SimulatedCluster) -> None:
    objects = record(recorded)
    for pod in of_kind(objects, "Pod"):
        labels = pod["metadata"]["labels"]
        if "controller-revision-hash" in labels:
            hash_value = labels["controller-revision-hash"]
            labels["controller-revision-hash"] = "db-5f7c9" if "-" in hash_value else "5f7c9"
    for stateful_set in of_kind(objects, "StatefulSet"):
        stateful_set["status"] |= {"currentRevision": "db-5f7c9", "updateRevision": "db-5f7c9"}
    forked = fork(without(objects, "ControllerRevision"), recorded)
    before = identities(forked)

    wait(forked, 600)

    assert identities(forked) == before
    status = forked.api.get(STATEFUL_SETS, "db", "shop")["status"]
    assert status["currentRevision"] == status["updateRevision"]


def test_resolved_images_subnets_and_security_groups_stay_those_of_the_cluster(
    recorded: SimulatedCluster,
) -> None:
    objects = record(recorded)
    (node_class,) = of_kind(objects, "EC2NodeClass")
    image = node_class["status"]["amis"][0]
    for claim in of_kind(objects, "NodeClaim"):
        assert claim["status"]["imageID"] == image["id"]
        claim["status"]["imageID"] = "ami-0123456789abcdef0"
    image |= {"id": "ami-0123456789abcdef0", "name": "amazon-eks-node-al2023-x86_64-standard-1.34-v20260101"}
    for number, subnet in enumerate(node_class["status"]["subnets"]):
        subnet["id"] = f"subnet-{number}"
    node_class["status"]["securityGroups"] = [{"id": "sg-1", "name": "nodes"}, {"id": "sg-2", "name": "more"}]
    forked = fork(objects, recorded)
    before = identities(forked)

    wait(forked, 1800)

    assert identities(forked) == before
    assert forked.recorder.drifted == set()
    status = forked.api.get(EC2_NODE_CLASSES, "default")["status"]
    assert [group["id"] for group in status["securityGroups"]] == ["sg-1", "sg-2"]


def test_claim_that_has_drifted_stays_drifted_and_is_replaced(recorded: SimulatedCluster) -> None:
    objects = record(recorded)
    drifted = of_kind(objects, "NodeClaim")[0]
    drifted["status"]["imageID"] = "ami-0000000000000000f"

    forked = fork(objects, recorded)
    wait(forked, 1800)

    names = {claim["metadata"]["name"] for claim in forked.api.list(NODE_CLAIMS).items}
    assert drifted["metadata"]["name"] not in names
    assert len(names) == 3


def test_node_that_is_being_launched_registers_in_the_fork() -> None:
    cluster = a_running_cluster(replicas=1)
    cluster.apply([an_app(replicas=2)])
    wait(cluster, 3)
    launching = [
        claim["metadata"]["name"]
        for claim in cluster.api.list(NODE_CLAIMS).items
        if not claim["status"].get("nodeName")
    ]
    assert len(launching) == 1

    forked = fork(record(cluster), cluster)
    wait(forked, 120)

    claims = {claim["metadata"]["name"]: claim for claim in forked.api.list(NODE_CLAIMS).items}
    assert len(claims) == 2
    assert claims[launching[0]]["status"]["nodeName"]
    assert forked.recorder.unsettled == 0


def test_node_that_is_being_deleted_is_gone_soon_in_the_fork() -> None:
    cluster = a_running_cluster(replicas=2)
    name = cluster.api.list(NODE_CLAIMS).items[0]["metadata"]["name"]
    cluster.api.delete(NODE_CLAIMS, name)
    wait(cluster, 0.5)
    objects = record(cluster)
    assert any(claim["metadata"].get("deletionTimestamp") for claim in of_kind(objects, "NodeClaim"))

    forked = fork(objects, cluster)
    wait(forked, 300)

    names = {claim["metadata"]["name"] for claim in forked.api.list(NODE_CLAIMS).items}
    assert name not in names
    assert (len(names), forked.recorder.running, forked.recorder.unsettled) == (2, 2, 0)


def test_pending_pod_gets_a_node_in_the_fork() -> None:
    cluster = a_running_cluster(replicas=1)
    objects = record(cluster)
    (pod,) = of_kind(objects, "Pod")
    pending = {
        **pod,
        "metadata": {
            "name": "waiting",
            "namespace": "default",
            "uid": "aaaa",
            "creationTimestamp": pod["metadata"]["creationTimestamp"],
        },
        "spec": {key: value for key, value in pod["spec"].items() if key != "nodeName"},
        "status": {"phase": "Pending"},
    }

    forked = fork([*objects, pending], cluster)
    assert forked.fork is not None
    assert forked.fork.pending_pods == 1
    wait(forked, 120)

    assert forked.api.get(PODS, "waiting", "default")["status"]["phase"] == "Running"


def test_fargate_nodes_are_priced_by_their_size_and_kept() -> None:
    cluster = a_running_cluster(replicas=1)
    objects = record(cluster)
    (node,) = [
        node for node in of_kind(objects, "Node") if label_keys.NODEPOOL not in node["metadata"]["labels"]
    ]
    node["metadata"]["labels"] = {
        "eks.amazonaws.com/compute-type": "fargate",
        label_keys.REGION: "us-east-1",
        label_keys.ZONE: "us-east-1a",
    }
    node["spec"]["providerID"] = "aws:///us-east-1a/0123abcd/fargate-ip-10-0-0-1.ec2.internal"
    node["status"]["capacity"] |= {"cpu": "2", "memory": "4Gi"}

    forked = fork(objects, cluster)
    wait(forked, 600)

    (launch,) = forked.unmanaged.values()
    assert launch.price == pytest.approx(2 * 0.04048 + 4 * 0.004445)
    assert len(forked.api.list(NODES).items) == 2


def test_running_job_is_as_long_as_earlier_ones_of_its_cronjob() -> None:
    cluster = a_running_cluster(replicas=1)
    objects = record(cluster)
    now = cluster.clock.now()

    def at(seconds: float) -> str:
        return (now + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")

    (pod,) = of_kind(objects, "Pod")
    cron = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "report", "uid": "c", "controller": True}
    labels = {"metadata": {"labels": {"job-name": "new"}}}
    template = {**labels, "spec": {"containers": pod["spec"]["containers"], "restartPolicy": "Never"}}
    spec = {"template": template, "completions": 1, "parallelism": 1, "manualSelector": True}
    spec["selector"] = {"matchLabels": {"job-name": "new"}}

    def a_job(name: str, status: dict[str, Any]) -> dict[str, Any]:
        meta = {"name": name, "namespace": "default", "uid": name, "ownerReferences": [cron]}
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec, "status": status}

    done = [{"type": "Complete", "status": "True"}]
    finished = {"startTime": at(-4000), "completionTime": at(-3400), "succeeded": 1, "conditions": done}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "new", "uid": "new", "controller": True}
    running = {
        **pod,
        "metadata": {
            "name": "new-x",
            "namespace": "default",
            "uid": "new-x",
            "labels": {"job-name": "new"},
            "annotations": {"karpenter.sh/do-not-disrupt": "true"},
            "finalizers": ["batch.kubernetes.io/job-tracking"],
            "creationTimestamp": at(-100),
            "ownerReferences": [owner],
        },
        "spec": {**pod["spec"], "restartPolicy": "Never"},
        "status": {**pod["status"], "startTime": at(-100)},
    }
    objects += [a_job("old", finished), a_job("new", {"startTime": at(-100), "active": 1}), running]

    forked = fork(objects, cluster)

    wait(forked, 480)
    assert forked.api.get(PODS, "new-x", "default")["status"]["phase"] == "Running"
    wait(forked, 40)
    assert forked.api.get(PODS, "new-x", "default")["status"]["phase"] == "Succeeded"


def test_pods_of_one_template_share_their_parts(recorded: SimulatedCluster) -> None:
    objects = record(recorded)
    pods = of_kind(objects, "Pod")
    forked = fork(objects, recorded)

    stored = {pod["metadata"]["uid"]: pod for pod in forked.api.list(PODS).items}

    of_app = [
        stored[pod["metadata"]["uid"]]
        for pod in pods
        if pod["metadata"].get("labels", {}).get("app") == "web"
    ]
    assert len(of_app) == 3
    assert len({id(pod["spec"]["containers"]) for pod in of_app}) == 1
