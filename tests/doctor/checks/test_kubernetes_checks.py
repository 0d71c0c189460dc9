"""Checks of facts from Kubernetes: each error has exactly its findings."""

from collections.abc import Callable
from typing import Any

import pytest

from dovetail.doctor.api_resources import CRDS, FLOW_SCHEMAS, SERVICE_MONITORS
from dovetail.doctor.run import run_checks
from dovetail.ports import api_resources as kinds
from tests.doctor.cluster import (
    Cluster,
    a_budget,
    a_claim,
    a_controller,
    a_daemon_set,
    a_deployment,
    a_node,
    a_pod,
    a_pool,
    ago,
    condition,
)
from tests.doctor.conftest import Gather

Break = Callable[[Cluster], None]
BROKEN: list[Any] = []
_CONTROLLER = {"app.kubernetes.io/name": "karpenter"}


def finds(*codes: str) -> Callable[[Break], Break]:
    """Declare the codes of all findings of a cluster that is broken like this."""

    def register(break_cluster: Break) -> Break:
        BROKEN.append(pytest.param(break_cluster, set(codes), id=f"{codes[0]}-{break_cluster.__name__}"))
        return break_cluster

    return register


def _dry_run_denied(since: str) -> Break:
    denied = condition("ValidationSucceeded", "False", since=since, reason="RunInstancesAuthCheckFailed")
    return lambda cluster: cluster.node_class(
        lambda node_class: node_class["status"].update(conditions=[denied])
    )


@finds("I7")
def dry_run_was_denied_recently(cluster: Cluster) -> None:
    _dry_run_denied(ago(minutes=1))(cluster)


@finds("I7", "I11")
def dry_run_was_denied_long_ago(cluster: Cluster) -> None:
    _dry_run_denied(ago(minutes=30))(cluster)


@finds("I9")
def role_name_is_too_long(cluster: Cluster) -> None:
    cluster.node_class(lambda node_class: node_class["spec"].update(role="KarpenterNodeRole-" + "x" * 50))


@finds("N5")
def load_balancer_controller_needs_instance_metadata(cluster: Cluster) -> None:
    deployment = a_deployment("aws-load-balancer-controller", "kube-system", {"app": "lb"})
    deployment["spec"]["template"]["spec"]["containers"][0]["args"] = ["--cluster-name=demo"]
    cluster.put(kinds.DEPLOYMENTS, deployment)


@finds("N5")
def ebs_controller_needs_instance_metadata(cluster: Cluster) -> None:
    cluster.put(kinds.DEPLOYMENTS, a_deployment("ebs-csi-controller", "kube-system", {"app": "ebs"}))


@finds("N6")
def controller_has_no_region(cluster: Cluster) -> None:
    cluster.set("AWS_REGION", None)


@finds("K1")
def coredns_runs_only_on_nodes_of_nodepools(cluster: Cluster) -> None:
    for number in (1, 2):
        cluster.api.delete(kinds.PODS, f"coredns-{number}", "kube-system")
    cluster.put(kinds.PODS, a_pod("waiting", "kube-system", "", {"k8s-app": "kube-dns"}))


@finds("K2")
def controller_replica_has_no_node(cluster: Cluster) -> None:
    cluster.api.delete(kinds.NODES, "managed-2")
    cluster.api.delete(kinds.PODS, "karpenter-2", "kube-system")
    cluster.put(kinds.PODS, a_pod("karpenter-3", "kube-system", "", _CONTROLLER))


def _limit(name: str, value: str) -> Break:
    def edit(spec: Any) -> None:
        spec["containers"][0]["resources"]["limits"][name] = value

    return lambda cluster: cluster.controller(edit)


@finds("K3")
def controller_has_too_little_memory(cluster: Cluster) -> None:
    _limit("memory", "256Mi")(cluster)


@finds("K3")
def controller_has_too_little_cpu(cluster: Cluster) -> None:
    _limit("cpu", "100m")(cluster)


@finds("K3")
def controller_was_oom_killed(cluster: Cluster) -> None:
    last = {"lastState": {"terminated": {"reason": "OOMKilled"}}}

    def edit(pod: Any) -> None:
        pod["status"]["containerStatuses"] = [last]

    cluster.change(kinds.PODS, "karpenter-1", edit, "kube-system")


@finds("K4")
def crd_lacks_a_field_of_this_version(cluster: Cluster) -> None:
    versions = cluster.crd("nodepools.karpenter.sh")["spec"]["versions"]
    schema = versions[0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["replicas"]


@finds("K4")
def crd_is_missing(cluster: Cluster) -> None:
    cluster.extra_objects[CRDS].remove(cluster.crd("ec2nodeclasses.karpenter.k8s.aws"))


@finds("K5")
def crd_belongs_to_another_release(cluster: Cluster) -> None:
    annotations = cluster.crd("nodepools.karpenter.sh")["metadata"]["annotations"]
    annotations["meta.helm.sh/release-name"] = "karpenter"


@finds("K5")
def crd_belongs_to_no_release(cluster: Cluster) -> None:
    del cluster.crd("nodeclaims.karpenter.sh")["metadata"]["annotations"]


@finds("K6")
def conversion_webhook_is_left_over(cluster: Cluster) -> None:
    service = {"name": "karpenter", "namespace": "karpenter"}
    cluster.crd("nodepools.karpenter.sh")["spec"]["conversion"] = {
        "strategy": "Webhook",
        "webhook": {"clientConfig": {"service": service}},
    }


@finds("K7")
def objects_are_stored_as_v1beta1(cluster: Cluster) -> None:
    cluster.crd("nodepools.karpenter.sh")["status"]["storedVersions"] = ["v1beta1", "v1"]


@finds("K7")
def kubelet_settings_are_left_in_an_annotation(cluster: Cluster) -> None:
    annotations = {"compatibility.karpenter.sh/v1beta1-kubelet-conversion": "{}"}
    cluster.change(kinds.NODE_POOLS, "default", lambda pool: pool["metadata"].update(annotations=annotations))


@finds("K8")
def spot_is_allowed_and_no_queue_is_set(cluster: Cluster) -> None:
    cluster.set("INTERRUPTION_QUEUE", None)


@finds("K9")
def termination_handler_drains_as_well(cluster: Cluster) -> None:
    cluster.put(kinds.DAEMON_SETS, a_daemon_set("aws-node-termination-handler"))


@finds("K10")
def controller_outside_kube_system_has_no_flow_schema(cluster: Cluster) -> None:
    _move_controller(cluster)
    general = {"metadata": {"name": "service-accounts"}, "spec": {"rules": []}}
    cluster.extra_objects[FLOW_SCHEMAS].append(general)


def _move_controller(cluster: Cluster) -> None:
    cluster.api.delete(kinds.DEPLOYMENTS, "karpenter", "kube-system")
    deployment = a_controller("karpenter")
    # The association is for kube-system; this controller has credentials of its own.
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    container["env"].append({"name": "AWS_WEB_IDENTITY_TOKEN_FILE", "value": "/token"})
    cluster.put(kinds.DEPLOYMENTS, deployment)
    cluster.put(kinds.PODS, a_pod("karpenter-1", "karpenter", "managed-1", _CONTROLLER))


def _require(key: str, *values: str) -> Break:
    requirement = {"key": key, "operator": "In", "values": list(values)}
    return lambda cluster: cluster.pool(
        lambda spec: spec["template"]["spec"]["requirements"].append(requirement)
    )


@finds("K11")
def capacity_type_is_misspelt(cluster: Cluster) -> None:
    def edit(spec: Any) -> None:
        spec["template"]["spec"]["requirements"][0]["values"] = ["spot", "on_demand"]

    cluster.pool(edit)


@finds("K11")
def zone_has_no_subnet(cluster: Cluster) -> None:
    _require("topology.kubernetes.io/zone", "eu-west-1a")(cluster)


@finds("K11")
def no_instance_type_satisfies_a_nodepool(cluster: Cluster) -> None:
    _require("karpenter.k8s.aws/instance-gpu-name", "t4")(cluster)


@finds("K12")
def node_lacks_a_resource_of_its_nodeclaim(cluster: Cluster) -> None:
    cluster.api.delete(kinds.NODE_CLAIMS, "default-1")
    claim = a_claim("default-1", cluster.instance, "launched")
    claim["spec"]["resources"]["requests"] = {"nvidia.com/gpu": "1"}
    claim["status"]["conditions"] = [condition("Registered")]
    cluster.put(kinds.NODE_CLAIMS, claim)


@finds("K13")
def pods_have_no_requests(cluster: Cluster) -> None:
    pod = a_pod("silent", "shop", "launched", {"app": "silent"})
    del pod["spec"]["containers"][0]["resources"]
    cluster.put(kinds.PODS, pod)


@finds("K13")
def storage_class_is_in_tree(cluster: Cluster) -> None:
    old = {"metadata": {"name": "gp2"}, "provisioner": "kubernetes.io/aws-ebs"}
    cluster.put(kinds.STORAGE_CLASSES, old)


@finds("K13")
def nodepools_lack_the_startup_taint_of_the_ebs_driver(cluster: Cluster) -> None:
    cluster.put(kinds.DAEMON_SETS, a_daemon_set("ebs-csi-node"))


@finds("K14")
def every_price_is_stored_as_a_metric_series(cluster: Cluster) -> None:
    name = "karpenter_cloudprovider_instance_type_offering_price_estimate"
    cluster.metrics += [f'{name}{{instance_type="m{number}"}} 1' for number in range(3000)]
    cluster.extra_objects[SERVICE_MONITORS].append(
        {
            "metadata": {"name": "karpenter", "namespace": "kube-system"},
            "spec": {"selector": {"matchLabels": _CONTROLLER}, "endpoints": [{"port": "http"}]},
        }
    )


@finds("P1")
def ami_alias_is_latest(cluster: Cluster) -> None:
    latest = [{"alias": "al2023@latest"}]
    cluster.node_class(lambda node_class: node_class["spec"].update(amiSelectorTerms=latest))


@finds("P2")
def nodepool_has_no_disruption_settings(cluster: Cluster) -> None:
    cluster.pool(lambda spec: spec.pop("disruption"))


def _strict_budget(cluster: Cluster) -> None:
    cluster.api.delete(kinds.POD_DISRUPTION_BUDGETS, "web", "shop")
    cluster.put(kinds.POD_DISRUPTION_BUDGETS, a_budget(allowed=0))


@finds("P3")
def pdb_allows_no_eviction(cluster: Cluster) -> None:
    cluster.pool(lambda spec: spec["template"]["spec"].update(terminationGracePeriod="24h"))
    _strict_budget(cluster)


@finds("P4", "P3")
def nodes_expire_with_pods_of_a_pdb_that_allows_no_eviction(cluster: Cluster) -> None:
    _strict_budget(cluster)


@finds("P4")
def nodes_expire_with_do_not_disrupt_pods(cluster: Cluster) -> None:
    keep = {"karpenter.sh/do-not-disrupt": "true"}
    cluster.change(kinds.PODS, "web", lambda pod: pod["metadata"].update(annotations=keep), "shop")


@finds("P5")
def most_deployments_have_preferred_spread(cluster: Cluster) -> None:
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    for number in range(6):
        name = f"web-{number}"
        deployment = a_deployment(name, "shop", {"app": name}, topologySpreadConstraints=[spread])
        cluster.put(kinds.DEPLOYMENTS, deployment)


@finds("P6")
def spot_nodepool_has_few_instance_types(cluster: Cluster) -> None:
    _require("karpenter.k8s.aws/instance-family", "m5")(cluster)


@finds("P8")
def two_nodepools_overlap(cluster: Cluster) -> None:
    cluster.put(kinds.NODE_POOLS, a_pool("twin"))


@finds("P9")
def nodepool_has_no_limits(cluster: Cluster) -> None:
    cluster.pool(lambda spec: spec.pop("limits"))


@finds("P10")
def consolidation_times_out(cluster: Cluster) -> None:
    name = "karpenter_voluntary_disruption_consolidation_timeouts_total"
    cluster.metrics.append(f'{name}{{consolidation_type="multi"}} 12')


@finds("D2", "K17")
def deleted_nodeclaim_has_a_finalizer_and_no_controller(cluster: Cluster) -> None:
    for number in (1, 2):
        cluster.api.delete(kinds.PODS, f"karpenter-{number}", "kube-system")
    finalizers = ["karpenter.sh/termination"]
    cluster.change(
        kinds.NODE_CLAIMS, "default-1", lambda claim: claim["metadata"].update(finalizers=finalizers)
    )
    cluster.api.delete(kinds.NODE_CLAIMS, "default-1")


@pytest.mark.parametrize(("break_cluster", "codes"), BROKEN)
def test_broken_installation_has_exactly_these_findings(
    break_cluster: Break, codes: set[str], cluster: Cluster, gather: Gather
) -> None:
    break_cluster(cluster)

    report = run_checks(gather(cluster))

    assert {finding.code for finding in report.findings} == codes


def test_controller_outside_kube_system_with_a_flow_schema_has_no_findings(
    cluster: Cluster, gather: Gather
) -> None:
    _move_controller(cluster)
    account = {"name": "karpenter", "namespace": "karpenter"}
    subject = {"kind": "ServiceAccount", "serviceAccount": account}
    schema = {"metadata": {"name": "karpenter"}, "spec": {"rules": [{"subjects": [subject]}]}}
    cluster.extra_objects[FLOW_SCHEMAS].append(schema)

    report = run_checks(gather(cluster))

    assert report.findings == ()


def test_node_that_registered_recently_has_no_findings(cluster: Cluster, gather: Gather) -> None:
    cluster.put(kinds.NODES, a_node("young", {"karpenter.sh/nodepool": "default"}))
    claim = a_claim("young", "i-1", "young")
    claim["status"]["conditions"] = [condition("Registered", since=ago(minutes=2))]
    cluster.put(kinds.NODE_CLAIMS, claim)

    report = run_checks(gather(cluster))

    assert report.findings == ()


def test_dovetail_needs_every_field_of_its_crds(cluster: Cluster, gather: Gather) -> None:
    cluster.api.delete(kinds.DEPLOYMENTS, "karpenter", "kube-system")
    deployment = a_controller()
    deployment["metadata"]["name"] = "dovetail"
    deployment["metadata"]["labels"]["app.kubernetes.io/name"] = "dovetail"
    cluster.put(kinds.DEPLOYMENTS, deployment)
    complete = run_checks(gather(cluster))
    versions = cluster.crd("ec2nodeclasses.karpenter.k8s.aws")["spec"]["versions"]
    fields = versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    del fields["cpuOptions"]

    report = run_checks(gather(cluster))

    assert complete.findings == ()
    (finding,) = report.findings
    assert (finding.code, finding.seen) == ("K4", "v1 has no spec.cpuOptions")
    assert finding.fix == "dovetail crds | kubectl apply --server-side -f -"
