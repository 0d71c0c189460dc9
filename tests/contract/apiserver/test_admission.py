"""Validation and defaulting of an API server with Karpenter's CRDs."""

from typing import Any

import pytest

from dovetail.ports.api_resources import (
    CRON_JOBS,
    DEPLOYMENTS,
    EC2_NODE_CLASSES,
    JOBS,
    NODE_CLAIMS,
    NODE_POOLS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    PRIORITY_CLASSES,
    STATEFUL_SETS,
    Resource,
)
from dovetail.ports.kube_errors import Invalid
from tests.contract.apiserver.objects import (
    a_deployment,
    a_node_claim,
    a_node_class,
    a_node_pool,
    a_pdb,
    a_pod,
)
from tests.contract.apiserver.subject import Object, Subject

A_TEMPLATE: Object = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "app:1"}]},
}
A_STATEFUL_SPEC: Object = {
    "selector": {"matchLabels": {"app": "web"}},
    "template": A_TEMPLATE,
    "serviceName": "web",
    "replicas": 0,
}
A_JOB_TEMPLATE: Object = {
    "spec": {"template": {**A_TEMPLATE, "spec": {**A_TEMPLATE["spec"], "restartPolicy": "Never"}}}
}


def requiring(name: str, **requirement: Any) -> Object:
    """A pool with one requirement."""
    pool = a_node_pool(name)
    pool["spec"]["template"]["spec"]["requirements"] = [requirement]
    return pool


def with_template(name: str, **fields: Any) -> Object:
    pool = a_node_pool(name)
    pool["spec"]["template"]["spec"].update(fields)
    return pool


def labelled(name: str, **labels: str) -> Object:
    pool = a_node_pool(name)
    pool["spec"]["template"]["metadata"] = {"labels": labels}
    return pool


def create_error_fields(server: Subject, resource: Resource, obj: Object) -> list[str]:
    with pytest.raises(Invalid) as error:
        server.create(resource, obj)
    return error_fields(error.value)


def error_fields(error: Invalid) -> list[str]:
    """Return the fields that a refusal names.

    Kubernetes also says, of no field, that rules have not been looked at, and
    puts a dot before the path of a scale subresource.
    """
    fields = [cause["field"] for cause in error.details["causes"] if cause["field"] != "<nil>"]
    return [field.removeprefix(".") for field in fields]


def is_covered(prefixes: list[str], field: str) -> bool:
    """Return True if the errors are of the field or of a parent, where a rule may be."""
    return bool(prefixes) and all(field.startswith(prefix) for prefix in prefixes)


def test_a_pool_gets_the_defaults_of_its_crd(server: Subject) -> None:
    pool = server.create(NODE_POOLS, a_node_pool(server.unique("p")))

    assert pool["spec"]["disruption"] == {
        "consolidateAfter": "0s",
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "budgets": [{"nodes": "10%"}],
    }
    assert pool["spec"]["template"]["spec"]["expireAfter"] == "720h"


def test_defaults_set_missing_fields_and_keep_the_others(server: Subject) -> None:
    disruption = {"consolidateAfter": "30s", "budgets": [{"reasons": ["Empty"]}]}

    pool = server.create(NODE_POOLS, a_node_pool(server.unique("p"), disruption=disruption))

    assert pool["spec"]["disruption"] == {
        "consolidateAfter": "30s",
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "budgets": [{"nodes": "10%", "reasons": ["Empty"]}],
    }


def test_a_removed_default_is_set_again(server: Subject) -> None:
    name = server.unique("p")
    server.create(NODE_POOLS, a_node_pool(name))

    after = server.patch(NODE_POOLS, name, {"spec": {"disruption": None}})

    assert after["spec"]["disruption"]["budgets"] == [{"nodes": "10%"}]
    assert after["metadata"]["generation"] == 1


def test_claims_and_classes_get_their_defaults(server: Subject) -> None:
    claim = server.create(NODE_CLAIMS, a_node_claim(server.unique("c")))
    options = {"httpPutResponseHopLimit": 2}
    node_class = a_node_class(server.unique("k"), metadataOptions=options)

    assert claim["spec"]["expireAfter"] == "720h"
    assert server.create(EC2_NODE_CLASSES, node_class)["spec"]["metadataOptions"] == {
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "disabled",
        "httpPutResponseHopLimit": 2,
        "httpTokens": "required",
    }


@pytest.mark.parametrize(
    "requirement",
    [
        {"key": "karpenter.sh/nodepool", "operator": "Exists"},
        {"key": "karpenter.sh/mine", "operator": "Exists"},
        {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n"]},
        {"key": "karpenter.k8s.aws/unknown", "operator": "Exists"},
        {"key": "a b", "operator": "Exists"},
        {"key": "team", "operator": "Is", "values": ["a"]},
        {"key": "team", "operator": "In", "values": []},
        {"key": "team", "operator": "Gt", "values": ["1", "2"]},
        {"key": "team", "operator": "Lt", "values": ["-1"]},
        {"key": "team", "operator": "In", "values": ["a"], "minValues": 2},
        {"key": "team", "operator": "Exists", "minValues": 0},
        {"key": "team", "operator": "Exists", "minValues": 51},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["sport"]},
        {"key": "karpenter.k8s.aws/instance-tenancy", "operator": "In", "values": ["alone"]},
    ],
)
def test_a_pool_with_an_invalid_requirement_is_rejected(server: Subject, requirement: dict[str, Any]) -> None:
    fields = create_error_fields(server, NODE_POOLS, requiring(server.unique("p"), **requirement))

    assert all(field.startswith("spec.template.spec.requirements") for field in fields)


@pytest.mark.parametrize(
    "requirement",
    [
        {"key": "kubernetes.io/arch", "operator": "In", "values": ["x86_64"]},
        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["sport", "spot"]},
        {"key": "node.kubernetes.io/mine", "operator": "DoesNotExist"},
        {"key": "karpenter.k8s.aws/instance-cpu", "operator": "Gte", "values": ["4"]},
        {"key": "team", "operator": "In", "values": [f"v{number}" for number in range(60)]},
    ],
)
def test_a_pool_that_the_crd_accepts_is_accepted_however_odd(
    server: Subject, requirement: dict[str, Any]
) -> None:
    server.create(NODE_POOLS, requiring(server.unique("p"), **requirement))


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"weight": 0}, "spec.weight"),
        ({"weight": 101}, "spec.weight"),
        ({"replicas": -1}, "spec.replicas"),
        ({"replicas": 1, "weight": 5}, "spec.weight"),
        ({"replicas": 1, "limits": {"cpu": "4"}}, "spec.limits"),
        ({"disruption": {"consolidateAfter": "-1s"}}, "spec.disruption.consolidateAfter"),
        ({"disruption": {"consolidateAfter": "1d"}}, "spec.disruption.consolidateAfter"),
        ({"disruption": {"consolidationPolicy": "whenempty"}}, "spec.disruption.consolidationPolicy"),
        ({"disruption": {"budgets": [{"nodes": "1000%"}]}}, "spec.disruption.budgets[0].nodes"),
        ({"disruption": {"budgets": [{"schedule": "@daily"}]}}, "spec.disruption.budgets[0]"),
        (
            {"disruption": {"budgets": [{"schedule": "@daily", "duration": "30s"}]}},
            "spec.disruption.budgets[0].duration",
        ),
        ({"disruption": {"budgets": [{"reasons": ["Bored"]}]}}, "spec.disruption.budgets[0].reasons[0]"),
        ({"disruption": {"budgets": [{"nodes": "1"}] * 51}}, "spec.disruption.budgets"),
    ],
)
def test_a_pool_that_breaks_a_rule_is_rejected_with_its_field(
    server: Subject, spec: dict[str, Any], field: str
) -> None:
    fields = create_error_fields(server, NODE_POOLS, a_node_pool(server.unique("p"), **spec))

    assert is_covered(fields, field)


@pytest.mark.parametrize(
    ("template", "field"),
    [
        ({"expireAfter": "1y"}, "expireAfter"),
        ({"terminationGracePeriod": "Never"}, "terminationGracePeriod"),
        ({"taints": [{"key": "", "effect": "NoSchedule"}]}, "taints[0].key"),
        ({"taints": [{"key": "a", "effect": "Sometimes"}]}, "taints[0].effect"),
        ({"taints": [{"key": "a", "value": "?", "effect": "NoSchedule"}]}, "taints[0].value"),
        ({"nodeClassRef": {"group": "g", "kind": "K", "name": ""}}, "nodeClassRef.name"),
        ({"nodeClassRef": {"group": "g/v1", "kind": "K", "name": "n"}}, "nodeClassRef.group"),
        ({"requirements": None}, "requirements"),
        ({"requirements": [{"key": "a", "operator": "Exists"}] * 101}, "requirements"),
    ],
)
def test_a_pool_whose_template_breaks_a_rule_is_rejected_with_its_field(
    server: Subject, template: dict[str, Any], field: str
) -> None:
    pool = with_template(server.unique("p"), **template)

    fields = create_error_fields(server, NODE_POOLS, pool)

    assert is_covered(fields, f"spec.template.spec.{field}")


def test_a_taint_may_come_with_two_effects(server: Subject) -> None:
    taints = [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}]

    server.create(NODE_POOLS, with_template(server.unique("p"), taints=taints))


@pytest.mark.parametrize(
    "labels", [{"karpenter.sh/nodepool": "x"}, {"kubernetes.io/hostname": "x"}, {"team": "not good"}]
)
def test_a_pool_with_a_reserved_label_is_rejected(server: Subject, labels: dict[str, str]) -> None:
    fields = create_error_fields(server, NODE_POOLS, labelled(server.unique("p"), **labels))

    assert all(field.startswith("spec.template.metadata.labels") for field in fields)


def test_all_errors_of_a_pool_are_reported_at_once(server: Subject) -> None:
    pool = requiring(server.unique("p"), key="team", operator="Is", values=["a"])
    pool["spec"]["weight"] = 1000

    fields = create_error_fields(server, NODE_POOLS, pool)

    assert sorted(fields) == ["spec.template.spec.requirements[0].operator", "spec.weight"]


def test_a_pool_may_change_the_name_but_not_the_kind_of_its_node_class(server: Subject) -> None:
    name = server.unique("p")
    server.create(NODE_POOLS, a_node_pool(name))

    def referring(**reference: str) -> Object:
        return {"spec": {"template": {"spec": {"nodeClassRef": reference}}}}

    server.patch(NODE_POOLS, name, referring(name="other"))
    for wrong in ({"group": "else.io"}, {"kind": "OtherClass"}):
        with pytest.raises(Invalid, match="cannot be changed"):
            server.patch(NODE_POOLS, name, referring(**wrong))


def test_a_pool_stays_static_or_dynamic(server: Subject) -> None:
    static, dynamic = server.unique("static"), server.unique("dynamic")
    server.create(NODE_POOLS, a_node_pool(static, replicas=1))
    server.create(NODE_POOLS, a_node_pool(dynamic))

    server.patch(NODE_POOLS, static, {"spec": {"replicas": 3, "limits": {"nodes": 5}}})
    with pytest.raises(Invalid, match="replicas"):
        server.patch(NODE_POOLS, static, {"spec": {"replicas": None}})
    with pytest.raises(Invalid, match="replicas"):
        server.patch(NODE_POOLS, dynamic, {"spec": {"replicas": 1}})


def test_the_spec_of_a_claim_is_immutable(server: Subject) -> None:
    name = server.unique("c")
    server.create(NODE_CLAIMS, a_node_claim(name))

    with pytest.raises(Invalid, match="cannot be changed"):
        server.patch(NODE_CLAIMS, name, {"spec": {"expireAfter": "1h"}})


def test_a_claim_may_name_its_pool(server: Subject) -> None:
    pool = {"key": "karpenter.sh/nodepool", "operator": "In", "values": ["default"]}

    server.create(NODE_CLAIMS, a_node_claim(server.unique("c"), requirements=[pool]))


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"role": None}, "spec.role"),
        ({"instanceProfile": "p"}, "spec.role"),
        ({"subnetSelectorTerms": []}, "spec.subnetSelectorTerms"),
        ({"subnetSelectorTerms": [{}]}, "spec.subnetSelectorTerms[0]"),
        ({"amiSelectorTerms": [{"alias": "al2023"}]}, "spec.amiSelectorTerms[0].alias"),
        ({"amiSelectorTerms": [{"id": "ami-1"}]}, "spec.amiFamily"),
        ({"amiFamily": "Ubuntu"}, "spec.amiFamily"),
        ({"tags": {"karpenter.sh/nodepool": "x"}}, "spec.tags['karpenter.sh/nodepool']"),
        ({"metadataOptions": {"httpTokens": "maybe"}}, "spec.metadataOptions.httpTokens"),
    ],
)
def test_a_node_class_that_breaks_a_rule_is_rejected_with_its_field(
    server: Subject, spec: dict[str, Any], field: str
) -> None:
    fields = create_error_fields(server, EC2_NODE_CLASSES, a_node_class(server.unique("k"), **spec))

    assert is_covered(fields, field)


def test_a_node_class_may_change_from_role_to_instance_profile(server: Subject) -> None:
    name = server.unique("k")
    server.create(EC2_NODE_CLASSES, a_node_class(name))

    server.patch(EC2_NODE_CLASSES, name, {"spec": {"role": None, "instanceProfile": "p"}})


CONTAINER: Object = {"name": "main", "image": "app:1"}
SPREAD: Object = {
    "maxSkew": 1,
    "topologyKey": "topology.kubernetes.io/zone",
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"app": "web"}},
}


def asking(requests: dict[str, Any], limits: dict[str, Any]) -> Object:
    return {"containers": [{**CONTAINER, "resources": {"requests": requests, "limits": limits}}]}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"containers": []}, "spec.containers"),
        ({"containers": [{"image": "a"}]}, "spec.containers[0].name"),
        ({"containers": [{"name": "A_b", "image": "a"}]}, "spec.containers[0].name"),
        ({"containers": [{"name": "a"}]}, "spec.containers[0].image"),
        ({"containers": [CONTAINER, CONTAINER]}, "spec.containers[1].name"),
        (
            {"containers": [{**CONTAINER, "ports": [{"hostPort": 80}]}]},
            "spec.containers[0].ports[0].containerPort",
        ),
        ({"restartPolicy": "Sometimes"}, "spec.restartPolicy"),
        (asking({"cpu": "-1"}, {}), "spec.containers[0].resources.requests[cpu]"),
        (asking({"cpu": "2"}, {"cpu": "1"}), "spec.containers[0].resources.requests"),
    ],
)
def test_a_pod_that_breaks_a_rule_is_rejected_with_its_field(
    server: Subject, spec: dict[str, Any], field: str
) -> None:
    assert create_error_fields(server, PODS, a_pod("p", **spec)) == [field]


@pytest.mark.parametrize("spreads", [[SPREAD, {**SPREAD, "maxSkew": 2}], [{**SPREAD, "minDomains": 2}]])
def test_a_pod_with_an_invalid_spread_constraint_is_rejected(server: Subject, spreads: list[Object]) -> None:
    [field] = create_error_fields(server, PODS, a_pod("p", topologySpreadConstraints=spreads))

    assert field.startswith("spec.topologySpreadConstraints[")


def test_match_label_keys_are_merged_into_the_selector(server: Subject) -> None:
    spread = {**SPREAD, "matchLabelKeys": ["rev", "missing"]}
    term = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "mismatchLabelKeys": ["rev"],
    }
    rules = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}

    pod = a_pod(
        "p",
        labels={"app": "web", "rev": "7"},
        topologySpreadConstraints=[spread],
        affinity={"podAntiAffinity": rules},
    )
    spec = server.create(PODS, pod)["spec"]

    [spread] = spec["topologySpreadConstraints"]
    [term] = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    alike = {"key": "rev", "operator": "In", "values": ["7"]}
    assert spread["labelSelector"]["matchExpressions"] == [alike]
    assert term["labelSelector"]["matchExpressions"] == [{**alike, "operator": "NotIn"}]


def test_a_workload_must_select_the_pods_of_its_template(server: Subject) -> None:
    other = a_deployment("d", selector={"matchLabels": {"app": "else"}})

    assert create_error_fields(server, DEPLOYMENTS, other) == ["spec.template.metadata.labels"]


def test_the_selector_of_a_workload_is_immutable(server: Subject) -> None:
    server.create(DEPLOYMENTS, a_deployment("d"))
    selector = {"matchLabels": {"app": "web", "more": "x"}}

    with pytest.raises(Invalid, match="immutable"):
        server.patch(DEPLOYMENTS, "d", {"spec": {"selector": selector}})


def test_the_template_of_a_workload_is_validated_like_a_pod(server: Subject) -> None:
    server.create(DEPLOYMENTS, a_deployment("d"))
    nameless = {"template": {"spec": {"containers": [{"image": "a"}]}}}

    with pytest.raises(Invalid) as error:
        server.patch(DEPLOYMENTS, "d", {"spec": nameless})

    assert error_fields(error.value) == ["spec.template.spec.containers[0].name"]


def test_the_restart_policy_must_suit_the_workload(server: Subject) -> None:
    job = {"metadata": {"name": "j"}, "spec": {"template": {"spec": a_pod("x")["spec"]}}}
    ending = a_deployment("d")
    ending["spec"]["template"]["spec"]["restartPolicy"] = "Never"

    assert create_error_fields(server, JOBS, job) == ["spec.template.spec.restartPolicy"]
    assert create_error_fields(server, DEPLOYMENTS, ending) == ["spec.template.spec.restartPolicy"]


def test_a_pdb_cannot_have_both_limits(server: Subject) -> None:
    both = a_pdb(minAvailable=1, maxUnavailable=1)

    assert create_error_fields(server, POD_DISRUPTION_BUDGETS, both) == ["spec"]


@pytest.mark.parametrize(
    ("resource", "spec", "fields"),
    [
        (CRON_JOBS, None, {"spec.schedule", "spec.jobTemplate.spec.template.spec.containers"}),
        (CRON_JOBS, {"schedule": "often", "jobTemplate": A_JOB_TEMPLATE}, {"spec.schedule"}),
        (PERSISTENT_VOLUMES, None, {"spec.accessModes", "spec.capacity", "spec"}),
        (PERSISTENT_VOLUME_CLAIMS, None, {"spec.accessModes", "spec.resources[storage]"}),
        (
            STATEFUL_SETS,
            {**A_STATEFUL_SPEC, "volumeClaimTemplates": [{}]},
            {"spec.volumeClaimTemplates[0].spec.accessModes", "spec.template.spec.volumes[0].name"},
        ),
        (
            POD_DISRUPTION_BUDGETS,
            {"selector": {"matchExpressions": [{}]}},
            {"spec.selector.matchExpressions[0].key", "spec.selector.matchExpressions[0].operator"},
        ),
        (
            POD_DISRUPTION_BUDGETS,
            {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            {"spec.selector.matchExpressions[0].values"},
        ),
        (
            DEPLOYMENTS,
            {"selector": {"matchExpressions": [{"key": "a"}]}, "template": A_TEMPLATE},
            {"spec.selector.matchExpressions[0].operator"},
        ),
        (
            PODS,
            {**A_TEMPLATE["spec"], "volumes": [{"persistentVolumeClaim": {}}]},
            {"spec.volumes[0].name", "spec.volumes[0].persistentVolumeClaim.claimName"},
        ),
        (NODES, {"taints": [{"value": "x", "effect": "NoSchedule"}]}, {"metadata.taints[0].key"}),
        (NODES, {"taints": [{"key": "a"}]}, {"metadata.taints[0].effect"}),
        (NODES, {"taints": [{"key": "a", "effect": "Never"}]}, {"metadata.taints[0].effect"}),
    ],
)
def test_an_object_without_its_required_parts_is_rejected(
    server: Subject, resource: Resource, spec: Object | None, fields: set[str]
) -> None:
    obj: Object = {"metadata": {"name": server.unique("odd")}, **({} if spec is None else {"spec": spec})}

    assert fields <= set(create_error_fields(server, resource, obj))


def test_a_pdb_without_a_spec_is_stored(server: Subject) -> None:
    server.create(POD_DISRUPTION_BUDGETS, {"metadata": {"name": server.unique("empty")}})


def test_a_node_condition_without_fields_is_stored(server: Subject) -> None:
    node: Object = {"metadata": {"name": server.unique("odd")}, "status": {"conditions": [{}]}}

    server.create(NODES, node)


def test_a_priorityclass_of_a_user_is_below_those_of_the_system(server: Subject) -> None:
    too_high = {"metadata": {"name": server.unique("too-high")}, "value": 2_000_000_000}

    with pytest.raises(Invalid) as rejected:
        server.create(PRIORITY_CLASSES, too_high)

    expected = "value: Forbidden: maximum allowed value of a user defined priority is 1000000000"
    assert expected in str(rejected.value)
    server.create(PRIORITY_CLASSES, {**too_high, "value": 1_000_000_000})


def test_the_prefix_of_the_systems_priorityclasses_is_reserved(server: Subject) -> None:
    name = f"system-{server.unique('mine')}"

    with pytest.raises(Invalid, match="prefix are reserved for system use only"):
        server.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": 1})
