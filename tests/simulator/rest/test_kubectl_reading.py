"""kubectl looks: get, describe, watch, explain."""

import json
from datetime import timedelta
from select import select

import yaml

from tests.simulator.rest.objects import (
    add_claim,
    add_class,
    add_deployment,
    add_event,
    add_node,
    add_pod,
    add_pool,
    add_replica_set,
)
from tests.simulator.rest.rest_server import Cluster, Kubectl


def rows(table: str) -> list[list[str]]:
    """Return the cells of a table; columns are at least three blanks apart."""
    return [[cell.strip() for cell in line.split("   ") if cell] for line in table.splitlines()]


def test_nodes_are_shown_with_the_usual_columns(cluster: Cluster, kubectl: Kubectl) -> None:
    add_node(cluster)
    cluster.clock.time += timedelta(minutes=5, seconds=7)

    narrow, wide = kubectl("get", "nodes"), kubectl("get", "nodes", "-o", "wide")

    assert rows(narrow) == [
        ["NAME", "STATUS", "ROLES", "AGE", "VERSION"],
        ["ip-10-0-0-1", "Ready", "<none>", "5m7s", "v1.37.0"],
    ]
    assert rows(wide)[0][5:] == [
        "INTERNAL-IP", "EXTERNAL-IP", "OS-IMAGE", "KERNEL-VERSION", "CONTAINER-RUNTIME"
    ]  # fmt: skip
    assert rows(wide)[1][5:] == ["10.0.0.1", "<none>", "Bottlerocket OS", "<unknown>", "<unknown>"]


def test_pods_of_all_namespaces_are_shown_with_the_usual_columns(cluster: Cluster, kubectl: Kubectl) -> None:
    add_pod(cluster, "web")
    add_pod(cluster, "dns", namespace="kube-system")

    shown = rows(kubectl("get", "pods", "-A", "-o", "wide"))

    assert shown[0] == [
        "NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE",
        "NOMINATED NODE", "READINESS GATES",
    ]  # fmt: skip
    assert shown[1][:5] == ["default", "web", "1/1", "Running", "0"]
    assert shown[2][:2] == ["kube-system", "dns"]


def test_karpenters_kinds_are_shown_with_karpenters_columns(cluster: Cluster, kubectl: Kubectl) -> None:
    add_pool(cluster)
    add_claim(cluster)
    add_class(cluster)

    pools = rows(kubectl("get", "nodepools", "-o", "wide"))
    claims = rows(kubectl("get", "nodeclaims", "-o", "wide"))
    classes = rows(kubectl("get", "ec2nodeclasses", "-o", "wide"))
    narrow = rows(kubectl("get", "nodepools,nodeclaims"))

    assert pools == [
        ["NAME", "NODECLASS", "NODES", "READY", "AGE", "WEIGHT", "CPU", "MEMORY"],
        ["default", "default", "2", "True", "0s", "10", "8", "16Gi"],
    ]
    assert claims[0] == [
        "NAME", "TYPE", "CAPACITY", "ZONE", "NODE", "READY", "AGE",
        "IMAGEID", "ID", "NODEPOOL", "NODECLASS", "DRIFTED",
    ]  # fmt: skip
    assert claims[1][:6] == [
        "default-x7k2p", "m7g.large", "spot", "us-east-1a", "ip-10-0-0-1", "True"
    ]  # fmt: skip
    assert classes == [["NAME", "READY", "AGE", "ROLE"], ["default", "True", "0s", "KarpenterNodeRole"]]
    assert narrow[0] == ["NAME", "NODECLASS", "NODES", "READY", "AGE"]
    assert narrow[3] == ["NAME", "TYPE", "CAPACITY", "ZONE", "NODE", "READY", "AGE"]


def test_many_kinds_are_listed_at_once(cluster: Cluster, kubectl: Kubectl) -> None:
    add_replica_set(cluster, add_deployment(cluster), "1")
    add_event(cluster, add_pod(cluster, "web-1"), "Nominated", "should schedule on nodeclaim")
    kinds = "deployments,replicasets,statefulsets,daemonsets,jobs,pods,events,pdb,svc,sc,leases"

    shown = kubectl("get", kinds)

    assert "deployment.apps/web   2/2     2            2" in shown
    assert "replicaset.apps/web-1   2         2         2" in shown
    assert "pod/web-1   1/1     Running" in shown
    assert "Normal   Nominated   pod/web-1   should schedule on nodeclaim" in shown


def test_every_output_format_of_get_works(cluster: Cluster, kubectl: Kubectl) -> None:
    add_pod(cluster, "web")

    as_json = json.loads(kubectl("get", "pod", "web", "-o", "json"))
    as_yaml = yaml.safe_load(kubectl("get", "pods", "-o", "yaml"))
    by_name = kubectl("get", "pods", "-l", "app=web", "-o", "name")
    by_path = kubectl("get", "pods", "-o", "jsonpath={.items[*].status.phase}")
    by_column = kubectl("get", "pods", "-o", "custom-columns=N:.metadata.name", "--no-headers")
    by_order = kubectl("get", "pods", "--sort-by=.metadata.name")

    assert as_json["spec"]["containers"][0]["name"] == "app"
    assert as_yaml["items"][0]["metadata"]["name"] == "web"
    assert by_name == "pod/web\n"
    assert by_path == "Running"
    assert by_column == "web\n"
    assert "web" in by_order


def test_a_watch_prints_what_is_there_and_a_row_for_each_change(cluster: Cluster, kubectl: Kubectl) -> None:
    add_pod(cluster, "old")

    with kubectl.start("get", "pods", "--watch") as watching:
        assert watching.stdout is not None
        heading, old = watching.stdout.readline(), watching.stdout.readline()
        add_pod(cluster, "new")
        changes = [watching.stdout.readline().split()[:3] for _ in range(2)]
        watching.terminate()

    assert heading.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert old.startswith("old ")
    assert changes == [["new", "0/1", "Pending"], ["new", "1/1", "Running"]]


def test_a_watch_of_changes_only_leaves_out_what_is_there(cluster: Cluster, kubectl: Kubectl) -> None:
    add_pod(cluster, "old")

    with kubectl.start("get", "pods", "--watch-only") as watching:
        assert watching.stdout is not None
        # kubectl does not say when its watch has started: add pods until one is shown.
        for number in range(200):
            add_pod(cluster, f"new-{number}")
            if select([watching.stdout], [], [], 0.1)[0]:
                break
        heading, first = watching.stdout.readline(), watching.stdout.readline()
        watching.terminate()

    assert heading.startswith("NAME ")
    assert first.startswith("new-")


def test_describe_shows_an_object_with_its_events(cluster: Cluster, kubectl: Kubectl) -> None:
    node, pod = add_node(cluster), add_pod(cluster, "web")
    pool, claim, deployment = add_pool(cluster), add_claim(cluster), add_deployment(cluster)
    add_replica_set(cluster, deployment, "1")
    for about in (node, pod, pool, claim, deployment):
        add_event(cluster, about, "Noticed", f"{about['kind']} it is")

    shown = {
        "Node": kubectl("describe", "node", "ip-10-0-0-1"),
        "Pod": kubectl("describe", "pod", "web"),
        "NodePool": kubectl("describe", "nodepool", "default"),
        "NodeClaim": kubectl("describe", "nodeclaim", "default-x7k2p"),
        "Deployment": kubectl("describe", "deployment", "web"),
    }

    assert "(1 in total)" in shown["Node"]
    assert "web-1 (2/2 replicas created)" in shown["Deployment"]
    for kind, text in shown.items():
        assert f"{kind} it is" in text


def test_events_can_be_read_for_one_object(cluster: Cluster, kubectl: Kubectl) -> None:
    add_event(cluster, add_pod(cluster, "web"), "Nominated", "should schedule on nodeclaim")
    add_event(cluster, add_pod(cluster, "other"), "Nominated", "somewhere else")

    shown = kubectl("events", "--for=pod/web")

    assert "should schedule on nodeclaim" in shown
    assert "somewhere else" not in shown


def test_the_server_says_what_it_has(kubectl: Kubectl) -> None:
    kinds = kubectl("api-resources", "-o", "wide")
    versions = kubectl("api-versions").split()
    about = kubectl("cluster-info")
    version = kubectl("version")

    assert "ec2nc,ec2ncs" in kinds
    assert "karpenter.sh/v1" in versions
    assert "control plane" in about
    assert "Server Version: v1.36" in version


def test_explain_names_the_fields_of_a_kind(kubectl: Kubectl) -> None:
    budgets = kubectl("explain", "nodepool.spec.disruption.budgets")
    containers = kubectl("explain", "pod.spec.containers")

    assert "reasons\t<[]string>" in budgets
    assert "resources\t<ResourceRequirements>" in containers


def test_there_are_no_metrics_and_kubectl_says_so(kubectl: Kubectl) -> None:
    result = kubectl.run("top", "nodes")

    assert result.returncode == 1
    assert "Metrics API not available" in result.stderr


def test_the_caller_may_do_everything(kubectl: Kubectl) -> None:
    allowed = kubectl("auth", "can-i", "delete", "nodes")
    name = kubectl("auth", "whoami")

    assert allowed == "yes\n"
    assert "dovetail-sandbox" in name


def test_what_is_not_there_is_not_found(kubectl: Kubectl) -> None:
    pod, kind = kubectl.run("get", "pod", "missing"), kubectl.run("get", "unicorns")

    assert 'pods "missing" not found' in pod.stderr
    assert 'doesn\'t have a resource type "unicorns"' in kind.stderr
