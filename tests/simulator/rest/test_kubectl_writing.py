"""kubectl changes things: apply, scale, patch, delete and the rest."""

import json
from typing import Any

import pytest

from dovetail.ports.api_resources import DEPLOYMENTS, NODE_POOLS, NODES, PODS, Resource
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.options import PatchType
from tests.simulator.rest.objects import (
    INFLATE,
    POOL,
    add,
    add_deployment,
    add_node,
    add_pod,
    add_replica_set,
)
from tests.simulator.rest.rest_server import Cluster, Kubectl


def stored(cluster: Cluster, resource: Resource, name: str) -> dict[str, Any]:
    namespace = "default" if resource.namespaced else ""
    return cluster.run(lambda: cluster.api.get(resource, name, namespace))


def test_apply_creates_then_changes_then_leaves_alone(cluster: Cluster, kubectl: Kubectl) -> None:
    said = [
        kubectl("apply", "-f", "-", stdin=INFLATE),
        kubectl("apply", "-f", "-", stdin=INFLATE.replace("pause:3.2", "pause:3.9")),
        kubectl("apply", "-f", "-", stdin=INFLATE.replace("pause:3.2", "pause:3.9")),
    ]

    assert [line.split()[1] for line in said] == ["created", "configured", "unchanged"]
    (container,) = stored(cluster, DEPLOYMENTS, "inflate")["spec"]["template"]["spec"]["containers"]
    assert container["image"].endswith("pause:3.9")
    assert container["resources"] == {"requests": {"cpu": 1}}


def test_server_side_apply_creates_updates_and_reports_conflicts(cluster: Cluster, kubectl: Kubectl) -> None:
    apply = ("apply", "--server-side", "-f", "-")

    first = kubectl(*apply, stdin=INFLATE)
    kubectl("scale", "deployment", "inflate", "--replicas=3")
    refused = kubectl.run(*apply, stdin=INFLATE)
    kubectl(*apply, "--force-conflicts", stdin=INFLATE)

    assert "serverside-applied" in first
    assert 'conflict with "kubectl"' in refused.stderr
    assert ".spec.replicas" in refused.stderr
    assert stored(cluster, DEPLOYMENTS, "inflate")["spec"]["replicas"] == 0


def test_diff_shows_what_apply_would_change_and_changes_nothing(cluster: Cluster, kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=POOL)
    before, activity = stored(cluster, NODE_POOLS, "default"), cluster.writes

    shown = kubectl.run("diff", "-f", "-", stdin=POOL.replace("weight: 10", "weight: 20"))

    assert shown.returncode == 1
    assert "-  weight: 10\n+  weight: 20" in shown.stdout
    assert stored(cluster, NODE_POOLS, "default") == before
    assert cluster.writes == activity


def test_a_dry_run_on_the_server_stores_nothing(cluster: Cluster, kubectl: Kubectl) -> None:
    said = kubectl("apply", "--dry-run=server", "-f", "-", stdin=POOL)

    assert "created (server dry run)" in said
    with pytest.raises(NotFound):
        stored(cluster, NODE_POOLS, "default")
    assert cluster.writes == 0


CHART = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: "app:reader"}
rules: [{apiGroups: [""], resources: [pods], verbs: [get, list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: "app:reader"}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "app:reader"}
subjects: [{kind: ServiceAccount, name: app, namespace: default}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: app}
rules: [{apiGroups: [coordination.k8s.io], resources: [leases], verbs: [get, update]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: app}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: app}
subjects: [{kind: User, name: ada, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: alb}
spec: {controller: ingress.k8s.aws/alb}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: app}
spec:
  ingressClassName: alb
  tls: [{hosts: [app.example.com], secretName: app}]
  rules:
    - host: app.example.com
      http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: app, port: {number: 80}}}}]}
---
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: app}
spec:
  podSelector: {matchLabels: {app: web}}
  ingress: [{from: [{namespaceSelector: {}}], ports: [{port: 80}]}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: app}
addressType: IPv4
endpoints: [{addresses: [10.0.0.1]}]
ports: [{name: http, port: 8080}]
---
apiVersion: v1
kind: ResourceQuota
metadata: {name: team}
spec: {hard: {pods: "10", limits.memory: 1Gi}}
"""


def test_the_kinds_of_common_charts_are_stored_and_listed(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=CHART)
    unchanged = kubectl("apply", "-f", "-", stdin=CHART)

    assert unchanged.count("unchanged") == 9
    assert "ClusterRole/app:reader" in kubectl("get", "clusterrolebindings")
    assert "ada" in kubectl("get", "rolebinding", "-o", "wide")
    assert "app.example.com" in kubectl("get", "ing")
    assert "80, 443" in kubectl("get", "ing")
    assert "app=web" in kubectl("get", "netpol")
    assert "10.0.0.1" in kubectl("get", "endpointslices")
    assert "ingress.k8s.aws/alb" in kubectl("get", "ingressclasses")
    assert "team" in kubectl("get", "quota")
    assert "verbs" in kubectl("explain", "clusterrole.rules")


def test_a_misspelt_field_is_refused_by_name(kubectl: Kubectl) -> None:
    deployment = kubectl.run("apply", "-f", "-", stdin=INFLATE.replace("replicas", "replcias"))
    pool = kubectl.run("apply", "-f", "-", stdin=POOL.replace("weight", "wieght"))

    for kind, field, result in (
        ("Deployment", "spec.replcias", deployment),
        ("NodePool", "spec.wieght", pool),
    ):
        message = (
            f'{kind} in version "v1" cannot be handled as a {kind}: strict decoding error: unknown field'
        )
        assert f'{message} "{field}"' in result.stderr


def test_a_misspelt_field_is_dropped_without_validation(cluster: Cluster, kubectl: Kubectl) -> None:
    misspelt = INFLATE.replace("replicas: 0", "replcias: 0")
    pool = POOL.replace("weight", "wieght")

    for option in ("--validate=false", "--validate=warn"):
        kubectl("apply", option, "-f", "-", stdin=misspelt)
        kubectl("apply", option, "-f", "-", stdin=pool)

    assert "replcias" not in stored(cluster, DEPLOYMENTS, "inflate")["spec"]
    assert "wieght" not in stored(cluster, NODE_POOLS, "default")["spec"]


def test_a_patch_stores_no_unknown_field_of_a_custom_resource(cluster: Cluster, kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=POOL)

    kubectl("patch", "nodepool", "default", "--type=merge", "-p", '{"spec":{"disruptin":{"a":1},"weight":7}}')

    spec = stored(cluster, NODE_POOLS, "default")["spec"]
    assert "disruptin" not in spec
    assert spec["weight"] == 7


def test_what_kubectl_makes_itself_is_created(cluster: Cluster, kubectl: Kubectl) -> None:
    kubectl("create", "deployment", "web", "--image=nginx", "--replicas=3")
    kubectl("create", "namespace", "shop")
    kubectl("create", "job", "once", "--image=busybox", "-n", "shop")
    kubectl("create", "configmap", "settings", "--from-literal=a=b")
    kubectl("create", "secret", "generic", "hidden", "--from-literal=a=b")
    kubectl("create", "pdb", "web", "--selector=app=web", "--min-available=50%")
    kubectl("create", "priorityclass", "high", "--value=1000")
    kubectl("run", "alone", "--image=nginx")
    kubectl("expose", "deployment", "web", "--port=80")

    web = stored(cluster, DEPLOYMENTS, "web")["spec"]
    assert web["replicas"] == 3
    assert web["template"]["spec"]["containers"][0]["image"] == "nginx"
    assert "50%" in kubectl("get", "pdb")
    assert "80/TCP" in kubectl("get", "services")
    assert "busybox" in kubectl("get", "jobs", "-n", "shop", "-o", "wide")
    assert kubectl("get", "secret", "hidden", "-o", "jsonpath={.data.a}") == "Yg=="


def test_scale_changes_replicas_of_workloads_and_of_pools(cluster: Cluster, kubectl: Kubectl) -> None:
    add_deployment(cluster)
    kubectl("apply", "-f", "-", stdin=POOL.replace("weight: 10", "replicas: 1"))

    kubectl("scale", "deployment", "web", "--replicas", "10")
    kubectl("scale", "nodepool", "default", "--replicas=3")
    refused = kubectl.run("scale", "deployment/web", "--current-replicas=2", "--replicas=4")

    assert stored(cluster, DEPLOYMENTS, "web")["spec"]["replicas"] == 10
    assert stored(cluster, NODE_POOLS, "default")["spec"]["replicas"] == 3
    assert "Expected replicas to be 2, was 10" in refused.stderr


def test_patches_of_all_types_change_what_they_say(cluster: Cluster, kubectl: Kubectl) -> None:
    add_deployment(cluster)
    container = {"name": "app", "resources": {"requests": {"cpu": "2"}}}
    strategic = {"spec": {"template": {"spec": {"containers": [container]}}}}
    operations = [{"op": "remove", "path": "/metadata/labels/team"}]

    kubectl("patch", "deploy", "web", "-p", json.dumps(strategic))
    kubectl("patch", "deploy", "web", "--type=merge", "-p", '{"metadata":{"labels":{"team":"a"}}}')
    kubectl("patch", "deploy", "web", "--type", "json", "-p", json.dumps(operations))
    kubectl(
        "patch", "deploy", "web", "--subresource=status", "--type=merge",
        "-p", '{"status":{"readyReplicas":1}}',
    )  # fmt: skip

    web = stored(cluster, DEPLOYMENTS, "web")
    (patched,) = web["spec"]["template"]["spec"]["containers"]
    assert patched == {**container, "image": "app:1"}
    assert "labels" not in web["metadata"]
    assert web["status"]["readyReplicas"] == 1


def test_labels_annotations_and_taints_come_and_go(cluster: Cluster, kubectl: Kubectl) -> None:
    add_node(cluster)
    node = ("node", "ip-10-0-0-1")

    kubectl("label", *node, "team=a")
    kubectl("annotate", *node, "note=b")
    kubectl("taint", *node, "dedicated=gpu:NoSchedule")
    marked = stored(cluster, NODES, node[1])
    kubectl("label", *node, "team-")
    kubectl("annotate", *node, "note-")
    kubectl("taint", *node, "dedicated-")

    assert marked["metadata"]["labels"]["team"] == "a"
    assert marked["metadata"]["annotations"] == {"note": "b"}
    taint = {"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}
    assert marked["spec"]["taints"] == [taint]
    bare = stored(cluster, NODES, node[1])
    assert "team" not in bare["metadata"]["labels"]
    assert "annotations" not in bare["metadata"]
    assert not bare["spec"].get("taints")


def test_cordon_and_uncordon_close_and_open_a_node(cluster: Cluster, kubectl: Kubectl) -> None:
    add_node(cluster)

    kubectl("cordon", "ip-10-0-0-1")
    closed = kubectl("get", "nodes")
    kubectl("uncordon", "ip-10-0-0-1")

    assert "Ready,SchedulingDisabled" in closed
    assert "SchedulingDisabled" not in kubectl("get", "nodes")


def test_drain_evicts_all_pods_but_those_of_a_budget(cluster: Cluster, kubectl: Kubectl) -> None:
    add_node(cluster)
    add_pod(cluster, "free", labels={"app": "free"})
    add_pod(cluster, "kept", labels={"app": "kept"})
    kubectl("create", "pdb", "kept", "--selector=app=kept", "--min-available=1")

    drained = kubectl.run("drain", "ip-10-0-0-1", "--force", "--grace-period=0", "--timeout=1s")

    assert "pod/free evicted" in drained.stdout
    assert "would violate the pod's disruption budget" in drained.stderr
    assert kubectl("get", "pods", "-o", "name") == "pod/kept\n"


def test_rollouts_are_followed_restarted_and_listed(cluster: Cluster, kubectl: Kubectl) -> None:
    deployment = add_deployment(cluster)
    add_replica_set(cluster, deployment, "1")

    status = kubectl("rollout", "status", "deployment/web", "--timeout=5s")
    history = kubectl("rollout", "history", "deployment/web")
    kubectl("set", "image", "deployment/web", "app=app:2")
    kubectl("rollout", "restart", "deployment/web")
    kubectl("rollout", "pause", "deployment/web")

    assert "successfully rolled out" in status
    assert "REVISION" in history
    spec = stored(cluster, DEPLOYMENTS, "web")["spec"]
    assert spec["template"]["spec"]["containers"][0]["image"] == "app:2"
    assert "kubectl.kubernetes.io/restartedAt" in spec["template"]["metadata"]["annotations"]
    assert spec["paused"] is True


def test_a_rollout_is_waited_for_until_it_is_done(cluster: Cluster, kubectl: Kubectl) -> None:
    add_deployment(cluster, ready=1)

    with kubectl.start("rollout", "status", "deployment/web", "--timeout=20s") as following:
        assert following.stdout is not None
        first = following.stdout.readline()
        done = {"status": {"readyReplicas": 2, "availableReplicas": 2}}
        cluster.run(
            lambda: cluster.api.patch(
                DEPLOYMENTS, "web", done, PatchType.MERGE, "default", subresource="status"
            )
        )
        last = following.stdout.read()

    assert "1 of 2 updated replicas are available" in first
    assert "successfully rolled out" in last
    assert following.returncode == 0


def test_delete_waits_until_the_finalizers_are_gone(cluster: Cluster, kubectl: Kubectl) -> None:
    add(cluster, NODES, {"metadata": {"name": "held", "finalizers": ["karpenter.sh/termination"]}})

    with kubectl.start("delete", "node", "held") as deleting:
        assert deleting.stdout is not None
        assert deleting.stdout.readline() == 'node "held" deleted\n'
        waits = deleting.poll() is None
        free = [{"op": "remove", "path": "/metadata/finalizers"}]
        cluster.run(lambda: cluster.api.patch(NODES, "held", free, PatchType.JSON))

    assert waits
    assert deleting.returncode == 0


def test_delete_without_waiting_leaves_what_is_held(cluster: Cluster, kubectl: Kubectl) -> None:
    add(cluster, NODES, {"metadata": {"name": "held", "finalizers": ["karpenter.sh/termination"]}})

    kubectl("delete", "node", "held", "--wait=false")

    assert stored(cluster, NODES, "held")["metadata"]["deletionTimestamp"]


def test_deletion_reaches_collections_files_and_namespaces(cluster: Cluster, kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=INFLATE)
    kubectl("create", "namespace", "shop")
    add_pod(cluster, "in-shop", namespace="shop", node="")
    for name in ("a", "b"):
        add_pod(cluster, name, node="")

    kubectl("delete", "-f", "-", stdin=INFLATE)
    kubectl("delete", "pods", "--all")
    kubectl("delete", "namespace", "shop")

    assert kubectl("get", "deployments,pods", "-A", "-o", "name") == ""
    assert "shop" not in kubectl("get", "namespaces")


def test_wait_ends_when_a_condition_holds_or_an_object_is_gone(cluster: Cluster, kubectl: Kubectl) -> None:
    add_pod(cluster, "web", node="")

    ready = kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=5s")
    late = kubectl.run("wait", "--for=delete", "pod/web", "--timeout=1s")
    cluster.run(lambda: cluster.api.delete(PODS, "web", "default"))
    gone = kubectl.run("wait", "--for=delete", "pod/web", "--timeout=5s")

    assert "condition met" in ready
    assert "timed out" in late.stderr
    assert gone.returncode == 0


def test_every_write_is_reported_once(cluster: Cluster, kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=INFLATE)
    kubectl("scale", "deployment", "inflate", "--replicas=1")
    kubectl("delete", "deployment", "inflate")
    kubectl("get", "deployments")

    assert cluster.writes == 3


KINDS_OF_CHARTS = """
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1beta1.metrics.k8s.io}
spec:
  service: {name: metrics-server, namespace: kube-system}
  group: metrics.k8s.io
  version: v1beta1
  insecureSkipTLSVerify: true
  groupPriorityMinimum: 100
  versionPriority: 100
---
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: ebs.csi.aws.com}
spec: {attachRequired: true, podInfoOnMount: false}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: replicas}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}
  validations: [{expression: object.spec.replicas <= 5}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: replicas}
spec: {policyName: replicas, validationActions: [Deny]}
---
apiVersion: v1
kind: Endpoints
metadata: {name: database}
subsets: [{addresses: [{ip: 10.0.0.9}], ports: [{port: 5432}]}]
"""


def test_kinds_of_charts_are_applied_changed_and_shown(kubectl: Kubectl) -> None:
    created = kubectl("apply", "-f", "-", stdin=KINDS_OF_CHARTS)
    again = kubectl("apply", "-f", "-", stdin=KINDS_OF_CHARTS)
    shown = [
        kubectl("get", what, "--no-headers").split()[1:-1]
        for what in ("apiservices", "csidrivers", "validatingadmissionpolicies", "ep")
    ]

    assert {line.split()[1] for line in created.splitlines()} == {"created"}
    assert {line.split()[1] for line in again.splitlines()} == {"unchanged"}
    assert shown == [
        ["kube-system/metrics-server", "False", "(FailedDiscoveryCheck)"],
        ["true", "false", "false", "<unset>", "false", "Persistent"],
        ["1", "<unset>"],
        ["10.0.0.9:5432"],
    ]
