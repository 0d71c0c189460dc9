"""What can be seen in Kubernetes: each thing that is broken is found, and nothing else."""

from collections.abc import Callable
from typing import Any

import pytest

from dovetail.doctor.api_resources import CRDS, FLOW_SCHEMAS, SERVICE_MONITORS
from dovetail.doctor.check import examined
from dovetail.doctor.checks.registry import CHECKS
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
from tests.doctor.conftest import Look

Break = Callable[[Cluster], None]
BROKEN: list[Any] = []
_CONTROLLER = {"app.kubernetes.io/name": "karpenter"}


def finds(*codes: str) -> Callable[[Break], Break]:
    """Say what is found when a cluster is broken like this: all of it, and nothing else."""

    def known(how: Break) -> Break:
        BROKEN.append(pytest.param(how, set(codes), id=f"{codes[0]}-{how.__name__}"))
        return how

    return known


def _refused(since: str) -> Break:
    told = condition(
        "ValidationSucceeded", "False", since=since, reason="RunInstancesAuthCheckFailed"
    )
    return lambda cluster: cluster.node_class(lambda one: one["status"].update(conditions=[told]))


@finds("I7")
def the_dry_run_was_refused_just_now(cluster: Cluster) -> None:
    _refused(ago(minutes=1))(cluster)


@finds("I7", "I11")
def the_dry_run_was_refused_long_ago(cluster: Cluster) -> None:
    _refused(ago(minutes=30))(cluster)


@finds("I9")
def a_role_has_a_name_that_is_too_long(cluster: Cluster) -> None:
    cluster.node_class(lambda one: one["spec"].update(role="KarpenterNodeRole-" + "x" * 50))


@finds("N5")
def the_load_balancer_controller_needs_metadata(cluster: Cluster) -> None:
    made = a_deployment("aws-load-balancer-controller", "kube-system", {"app": "lb"})
    made["spec"]["template"]["spec"]["containers"][0]["args"] = ["--cluster-name=demo"]
    cluster.put(kinds.DEPLOYMENTS, made)


@finds("N5")
def the_ebs_controller_needs_metadata(cluster: Cluster) -> None:
    cluster.put(
        kinds.DEPLOYMENTS, a_deployment("ebs-csi-controller", "kube-system", {"app": "ebs"})
    )


@finds("N6")
def the_controller_has_to_ask_for_its_region(cluster: Cluster) -> None:
    cluster.set("AWS_REGION", None)


@finds("K1")
def dns_waits_for_the_controller_and_the_controller_for_dns(cluster: Cluster) -> None:
    for number in (1, 2):
        cluster.api.delete(kinds.PODS, f"coredns-{number}", "kube-system")
    cluster.put(kinds.PODS, a_pod("waiting", "kube-system", "", {"k8s-app": "kube-dns"}))


@finds("K2")
def a_replica_of_the_controller_has_no_node(cluster: Cluster) -> None:
    cluster.api.delete(kinds.NODES, "home-2")
    cluster.api.delete(kinds.PODS, "karpenter-2", "kube-system")
    cluster.put(kinds.PODS, a_pod("karpenter-3", "kube-system", "", _CONTROLLER))


def _limit(name: str, value: str) -> Break:
    def how(spec: Any) -> None:
        spec["containers"][0]["resources"]["limits"][name] = value

    return lambda cluster: cluster.controller(how)


@finds("K3")
def the_controller_has_little_memory(cluster: Cluster) -> None:
    _limit("memory", "256Mi")(cluster)


@finds("K3")
def the_controller_has_little_cpu(cluster: Cluster) -> None:
    _limit("cpu", "100m")(cluster)


@finds("K3")
def the_controller_was_killed_for_its_memory(cluster: Cluster) -> None:
    last = {"lastState": {"terminated": {"reason": "OOMKilled"}}}

    def how(pod: Any) -> None:
        pod["status"]["containerStatuses"] = [last]

    cluster.change(kinds.PODS, "karpenter-1", how, "kube-system")


@finds("K4")
def a_definition_lacks_a_field_of_this_version(cluster: Cluster) -> None:
    versions = cluster.crd("nodepools.karpenter.sh")["spec"]["versions"]
    schema = versions[0]["schema"]["openAPIV3Schema"]
    del schema["properties"]["spec"]["properties"]["replicas"]


@finds("K4")
def a_definition_is_missing(cluster: Cluster) -> None:
    cluster.elsewhere[CRDS].remove(cluster.crd("ec2nodeclasses.karpenter.k8s.aws"))


@finds("K5")
def a_definition_belongs_to_another_release(cluster: Cluster) -> None:
    annotations = cluster.crd("nodepools.karpenter.sh")["metadata"]["annotations"]
    annotations["meta.helm.sh/release-name"] = "karpenter"


@finds("K5")
def a_definition_belongs_to_no_release(cluster: Cluster) -> None:
    del cluster.crd("nodeclaims.karpenter.sh")["metadata"]["annotations"]


@finds("K6")
def a_conversion_webhook_is_left_over(cluster: Cluster) -> None:
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
    left = {"compatibility.karpenter.sh/v1beta1-kubelet-conversion": "{}"}
    cluster.change(
        kinds.NODE_POOLS, "default", lambda one: one["metadata"].update(annotations=left)
    )


@finds("K8")
def spot_is_allowed_and_no_queue_is_set(cluster: Cluster) -> None:
    cluster.set("INTERRUPTION_QUEUE", None)


@finds("K9")
def the_termination_handler_drains_as_well(cluster: Cluster) -> None:
    cluster.put(kinds.DAEMON_SETS, a_daemon_set("aws-node-termination-handler"))


@finds("K10")
def the_controller_is_elsewhere_without_a_flow_schema(cluster: Cluster) -> None:
    _move_controller(cluster)
    general = {"metadata": {"name": "service-accounts"}, "spec": {"rules": []}}
    cluster.elsewhere[FLOW_SCHEMAS].append(general)


def _move_controller(cluster: Cluster) -> None:
    cluster.api.delete(kinds.DEPLOYMENTS, "karpenter", "kube-system")
    cluster.put(kinds.DEPLOYMENTS, a_controller("karpenter"))
    cluster.put(kinds.PODS, a_pod("karpenter-1", "karpenter", "home-1", _CONTROLLER))


def _require(key: str, *values: str) -> Break:
    asked = {"key": key, "operator": "In", "values": list(values)}
    return lambda cluster: cluster.pool(
        lambda spec: spec["template"]["spec"]["requirements"].append(asked)
    )


@finds("K11")
def a_capacity_type_is_misspelt(cluster: Cluster) -> None:
    def how(spec: Any) -> None:
        spec["template"]["spec"]["requirements"][0]["values"] = ["spot", "on_demand"]

    cluster.pool(how)


@finds("K11")
def a_zone_is_none_of_the_subnets(cluster: Cluster) -> None:
    _require("topology.kubernetes.io/zone", "eu-west-1a")(cluster)


@finds("K11")
def no_type_satisfies_a_pool(cluster: Cluster) -> None:
    _require("karpenter.k8s.aws/instance-gpu-name", "t4")(cluster)


@finds("K12")
def a_node_lacks_what_its_claim_was_bought_for(cluster: Cluster) -> None:
    def how(claim: Any) -> None:
        claim["status"]["conditions"] = [condition("Registered")]

    cluster.api.delete(kinds.NODE_CLAIMS, "default-1")
    claim = a_claim("default-1", cluster.instance, "bought")
    claim["spec"]["resources"]["requests"] = {"nvidia.com/gpu": "1"}
    how(claim)
    cluster.put(kinds.NODE_CLAIMS, claim)


@finds("K13")
def pods_say_nothing_of_their_size(cluster: Cluster) -> None:
    pod = a_pod("silent", "shop", "bought", {"app": "silent"})
    del pod["spec"]["containers"][0]["resources"]
    cluster.put(kinds.PODS, pod)


@finds("K13")
def a_storage_class_is_in_tree(cluster: Cluster) -> None:
    old = {"metadata": {"name": "gp2"}, "provisioner": "kubernetes.io/aws-ebs"}
    cluster.put(kinds.STORAGE_CLASSES, old)


@finds("K13")
def pools_lack_the_startup_taint_of_the_ebs_driver(cluster: Cluster) -> None:
    cluster.put(kinds.DAEMON_SETS, a_daemon_set("ebs-csi-node"))


@finds("K14")
def every_price_is_stored_as_a_series(cluster: Cluster) -> None:
    name = "karpenter_cloudprovider_instance_type_offering_price_estimate"
    cluster.metrics += [f'{name}{{instance_type="m{number}"}} 1' for number in range(3000)]
    cluster.elsewhere[SERVICE_MONITORS].append(
        {
            "metadata": {"name": "karpenter", "namespace": "kube-system"},
            "spec": {"selector": {"matchLabels": _CONTROLLER}, "endpoints": [{"port": "http"}]},
        }
    )


@finds("P1")
def the_latest_image_rolls_by_itself(cluster: Cluster) -> None:
    latest = [{"alias": "al2023@latest"}]
    cluster.node_class(lambda one: one["spec"].update(amiSelectorTerms=latest))


@finds("P2")
def a_pool_says_nothing_of_disruption(cluster: Cluster) -> None:
    cluster.pool(lambda spec: spec.pop("disruption"))


def _strict_budget(cluster: Cluster) -> None:
    cluster.api.delete(kinds.POD_DISRUPTION_BUDGETS, "web", "shop")
    cluster.put(kinds.POD_DISRUPTION_BUDGETS, a_budget(allowed=0))


@finds("P3")
def a_budget_allows_nothing(cluster: Cluster) -> None:
    cluster.pool(lambda spec: spec["template"]["spec"].update(terminationGracePeriod="24h"))
    _strict_budget(cluster)


@finds("P4", "P3")
def nodes_expire_under_pods_with_a_budget_that_allows_nothing(cluster: Cluster) -> None:
    _strict_budget(cluster)


@finds("P4")
def nodes_expire_under_pods_that_must_not_be_disturbed(cluster: Cluster) -> None:
    keep = {"karpenter.sh/do-not-disrupt": "true"}
    cluster.change(kinds.PODS, "web", lambda pod: pod["metadata"].update(annotations=keep), "shop")


@finds("P5")
def most_workloads_prefer_to_be_spread(cluster: Cluster) -> None:
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway"}
    for number in range(6):
        name = f"web-{number}"
        made = a_deployment(name, "shop", {"app": name}, topologySpreadConstraints=[spread])
        cluster.put(kinds.DEPLOYMENTS, made)


@finds("P6")
def a_spot_pool_has_few_types(cluster: Cluster) -> None:
    _require("karpenter.k8s.aws/instance-family", "m5")(cluster)


@finds("P8")
def two_pools_could_serve_the_same_pods(cluster: Cluster) -> None:
    cluster.put(kinds.NODE_POOLS, a_pool("twin"))


@finds("P9")
def a_pool_has_no_limits(cluster: Cluster) -> None:
    cluster.pool(lambda spec: spec.pop("limits"))


@finds("P10")
def consolidation_is_cut_off(cluster: Cluster) -> None:
    name = "karpenter_voluntary_disruption_consolidation_timeouts_total"
    cluster.metrics.append(f'{name}{{consolidation_type="multi"}} 12')


@finds("D2")
def a_claim_waits_for_a_controller_that_is_gone(cluster: Cluster) -> None:
    for number in (1, 2):
        cluster.api.delete(kinds.PODS, f"karpenter-{number}", "kube-system")
    finalizers = ["karpenter.sh/termination"]
    cluster.change(
        kinds.NODE_CLAIMS, "default-1", lambda one: one["metadata"].update(finalizers=finalizers)
    )
    cluster.api.delete(kinds.NODE_CLAIMS, "default-1")


@pytest.mark.parametrize(("how", "codes"), BROKEN)
def test_what_is_broken_is_found_and_nothing_else(
    how: Break, codes: set[str], cluster: Cluster, look: Look
) -> None:
    how(cluster)

    report = examined(look(cluster), CHECKS)

    assert {one.code for one in report.findings} == codes


def test_a_controller_elsewhere_is_fine_with_a_flow_schema_for_it(
    cluster: Cluster, look: Look
) -> None:
    _move_controller(cluster)
    who = {"kind": "ServiceAccount", "serviceAccount": {"name": "karpenter"}}
    who["serviceAccount"]["namespace"] = "karpenter"  # type: ignore[index]
    schema = {"metadata": {"name": "karpenter"}, "spec": {"rules": [{"subjects": [who]}]}}
    cluster.elsewhere[FLOW_SCHEMAS].append(schema)

    report = examined(look(cluster), CHECKS)

    assert report.findings == ()


def test_a_node_bought_moments_ago_may_still_be_starting(cluster: Cluster, look: Look) -> None:
    cluster.put(kinds.NODES, a_node("young", {"karpenter.sh/nodepool": "default"}))
    claim = a_claim("young", "i-1", "young")
    claim["status"]["conditions"] = [condition("Registered", since=ago(minutes=2))]
    cluster.put(kinds.NODE_CLAIMS, claim)

    report = examined(look(cluster), CHECKS)

    assert report.findings == ()


def test_our_own_controller_wants_every_field_of_our_own_definitions(
    cluster: Cluster, look: Look
) -> None:
    cluster.api.delete(kinds.DEPLOYMENTS, "karpenter", "kube-system")
    ours = a_controller()
    ours["metadata"]["name"] = "dovetail"
    ours["metadata"]["labels"]["app.kubernetes.io/name"] = "dovetail"
    cluster.put(kinds.DEPLOYMENTS, ours)
    whole = examined(look(cluster), CHECKS)
    versions = cluster.crd("ec2nodeclasses.karpenter.k8s.aws")["spec"]["versions"]
    fields = versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    del fields["cpuOptions"]

    report = examined(look(cluster), CHECKS)

    assert whole.findings == ()
    (finding,) = report.findings
    assert (finding.code, finding.seen) == ("K4", "v1 has no spec.cpuOptions")
    assert finding.fix == "dovetail crds | kubectl apply --server-side -f -"
