"""Nodes, pods and volumes."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from dovetail.codec.text.suggestions import pluralize
from dovetail.doctor.api_resources import LIMIT_RANGES
from dovetail.doctor.check import check
from dovetail.doctor.facts import Facts
from dovetail.doctor.finding import Severity, Symptom, merge_patch
from dovetail.doctor.object_fields import age, condition, get_field, get_list, name_of, namespace_of
from dovetail.model.karpenter.condition_types import INITIALIZED, REGISTERED
from dovetail.ports.api_resources import DAEMON_SETS, NODE_CLAIMS, NODE_POOLS, NODES, PODS, STORAGE_CLASSES
from dovetail.ports.kube_client import Object

_INITIALIZATION_TIMEOUT: Final = timedelta(minutes=10)


@check(
    code="K12",
    title="node never initialised",
    severity=Severity.BROKEN,
    detection="NodeClaims registered for 10 minutes without Initialized: missing resources, startup taints",
    remedy="install the device plugin, correct the CNI flag",
    needs=(NODE_CLAIMS, NODES),
)
def not_initialized(facts: Facts) -> Iterator[Symptom]:
    """Yield NodeClaims that registered long ago and are not initialized."""
    nodes = {name_of(node): node for node in facts.of(NODES)}
    for claim in facts.of(NODE_CLAIMS):
        registered = condition(claim, REGISTERED)
        since = age(facts, registered.get("lastTransitionTime"))
        if registered.get("status") != "True" or since < _INITIALIZATION_TIMEOUT:
            continue
        status_condition = condition(claim, INITIALIZED)
        if status_condition.get("status") == "True":
            continue
        node = nodes.get(str(get_field(claim, "status", "nodeName") or ""), {})
        reasons = list(_initialization_blockers(claim, node)) or [
            str(status_condition.get("message") or status_condition.get("reason") or "")
        ]
        yield Symptom(
            about=f"NodeClaim/{name_of(claim)}",
            seen=f"registered {int(since.total_seconds() // 60)} minutes ago, not initialised: "
            f"{'; '.join(reasons)}",
            wrong="the node is never disrupted, and pods cannot use the missing resources",
            fix=f"kubectl describe node {name_of(node) or 'NODE'}  # install the device plugin, "
            "set the CNI's flag (ENABLE_POD_ENI), or fix the component that removes the taint",
        )


def _initialization_blockers(claim: Object, node: Object) -> Iterator[str]:
    requested = get_field(claim, "spec", "resources", "requests") or {}
    allocatable = get_field(node, "status", "allocatable") or {}
    for name in sorted(requested):
        if "/" in name and name not in allocatable:
            yield f"the node has no {name}"
    taint_keys = {str(taint.get("key")) for taint in get_list(node, "spec", "taints")}
    for taint in get_list(claim, "spec", "startupTaints"):
        if taint.get("key") in taint_keys:
            yield f"startup taint {taint.get('key')} is still set"


_SYSTEM_NAMESPACES: Final = frozenset({"kube-system", "kube-node-lease", "kube-public"})
_EBS_DRIVER: Final = "ebs-csi-node"
_EBS_TAINT: Final = "ebs.csi.aws.com/agent-not-ready"


@check(
    code="K13",
    title="pods without requests; in-tree volumes; no CSI startup taint",
    severity=Severity.ADVICE,
    detection="requests of pods outside kube-system, provisioners of StorageClasses, startup taints",
    remedy="LimitRange, CSI driver, startup taint",
    needs=(PODS, LIMIT_RANGES, STORAGE_CLASSES, DAEMON_SETS, NODE_POOLS),
)
def unplannable_pods(facts: Facts) -> Iterator[Symptom]:
    """Yield namespaces, storage classes and NodePools that planning cannot handle."""
    yield from _without_requests(facts)
    for storage_class in facts.of(STORAGE_CLASSES):
        if storage_class.get("provisioner") == "kubernetes.io/aws-ebs":
            name = name_of(storage_class)
            yield Symptom(
                about=f"StorageClass/{name}",
                seen="provisioner is kubernetes.io/aws-ebs, which Kubernetes has removed",
                wrong="the volume limit of nodes is unknown; too many pods are bound to one node",
                fix="create a StorageClass with provisioner ebs.csi.aws.com and migrate the volumes of "
                f"{name}",
            )
    if any(name_of(daemon_set) == _EBS_DRIVER for daemon_set in facts.of(DAEMON_SETS)):
        yield from _without_taint(facts)


def _without_requests(facts: Facts) -> Iterator[Symptom]:
    limited = {namespace_of(limit_range) for limit_range in facts.of(LIMIT_RANGES)}
    counts: Counter[str] = Counter()
    for pod in facts.of(PODS):
        namespace = namespace_of(pod)
        if namespace not in _SYSTEM_NAMESPACES | limited and _has_no_requests(pod):
            counts[namespace] += 1
    for namespace, count in sorted(counts.items()):
        yield Symptom(
            about=f"Namespace/{namespace}",
            seen=f"{pluralize(count, 'pod')} without requests, and there is no LimitRange",
            wrong="nodes are planned as if these pods used nothing, and become overcommitted",
            fix=f"kubectl create -n {namespace} -f - <<END\napiVersion: v1\nkind: LimitRange\n"
            "metadata: {name: defaults}\nspec:\n  limits:\n"
            "  - {type: Container, defaultRequest: {cpu: 100m, memory: 128Mi}}\nEND",
        )


def _has_no_requests(pod: Object) -> bool:
    if get_field(pod, "status", "phase") in ("Succeeded", "Failed"):
        return False
    containers = get_list(pod, "spec", "containers")
    return not any(
        get_field(container, "resources", "requests") or get_field(container, "resources", "limits")
        for container in containers
    ) and not get_field(pod, "spec", "resources", "requests")


def _without_taint(facts: Facts) -> Iterator[Symptom]:
    for node_pool in facts.of(NODE_POOLS):
        taints = get_list(node_pool, "spec", "template", "spec", "startupTaints")
        if any(taint.get("key") == _EBS_TAINT for taint in taints):
            continue
        name = name_of(node_pool)
        startup_taints = [*taints, {"key": _EBS_TAINT, "effect": "NoExecute"}]
        yield Symptom(
            about=f"NodePool/{name}",
            seen=f"{_EBS_DRIVER} is installed, and there is no startup taint {_EBS_TAINT}",
            wrong="pods with volumes may be bound to a new node before its CSI driver is ready",
            fix=merge_patch(
                f"nodepool {name}", {"spec": {"template": {"spec": {"startupTaints": startup_taints}}}}
            ),
        )
