"""The installation as a whole: one running controller, ready NodePools and node classes."""

from collections.abc import Iterator
from typing import Final

from dovetail.codec.text.suggestions import pluralize
from dovetail.doctor.check import check, controller_check
from dovetail.doctor.controller_deployment import Controller, controllers
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import (
    condition,
    decode_nodepools,
    find_nodeclass,
    get_list,
    join_names,
    label,
    name_of,
    namespace_of,
)
from dovetail.model.karpenter.condition_types import VALIDATION_SUCCEEDED
from dovetail.ports.api_resources import DEPLOYMENTS, EC2_NODE_CLASSES, NODE_POOLS, PODS
from dovetail.ports.kube_client import Object

_READY: Final = "Ready"


@check(
    code="K16",
    title="NodePool without a node class",
    severity=Severity.BROKEN,
    detection="nodeClassRef of each NodePool against the EC2NodeClasses",
    remedy="create the node class, or correct the name",
    needs=(NODE_POOLS, EC2_NODE_CLASSES),
)
def missing_nodeclass(facts: Facts) -> Iterator[Symptom]:
    """Yield NodePools that refer to an EC2NodeClass that does not exist."""
    existing = sorted(name_of(node_class) for node_class in facts.of(EC2_NODE_CLASSES))
    for pool in decode_nodepools(facts):
        reference = pool.template.node_class
        if not reference.is_supported or find_nodeclass(facts, reference.name) is not None:
            continue
        yield Symptom(
            about=f"NodePool/{pool.name}",
            seen=f"nodeClassRef is {reference.name!r}; EC2NodeClasses: {join_names(existing) or 'none'}",
            wrong="the NodePool is not ready, so no node is launched for it",
            fix=f"kubectl edit nodepool {pool.name}  # spec.template.spec.nodeClassRef.name; "
            "or create the EC2NodeClass",
        )


@controller_check(
    code="K17",
    title="controller does not run",
    severity=Severity.BROKEN,
    detection="replicas of the controller's Deployment, and its ready pods",
    remedy="scale it up, or fix its pods",
    needs=(PODS,),
)
def controller_down(facts: Facts, controller: Controller) -> Iterator[Symptom]:
    """Yield a controller that is scaled to zero, or has no ready pod."""
    ready = [pod for pod in controller.pods if condition(pod, _READY).get("status") == "True"]
    if ready:
        return
    if controller.replicas == 0:
        evidence, fix = "spec.replicas is 0", f"kubectl scale {controller.target} --replicas=2"
    else:
        evidence = f"none of {pluralize(len(controller.pods), 'pod')} is ready"
        fix = f"kubectl describe pods -n {controller.namespace} -l {_selector(controller)}  # and their logs"
    yield Symptom(
        about=controller.about, seen=evidence, wrong="no node is launched, drained or removed", fix=fix
    )


def _selector(controller: Controller) -> str:
    labels = controller.deployment.get("spec", {}).get("selector", {}).get("matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


@check(
    code="K18",
    title="EC2NodeClass or NodePool not ready",
    severity=Severity.BROKEN,
    detection="condition Ready of each EC2NodeClass, and of NodePools whose node class is ready",
    remedy="fix what its other conditions name",
    needs=(NODE_POOLS, EC2_NODE_CLASSES),
)
def not_ready(facts: Facts) -> Iterator[Symptom]:
    """Yield objects with Ready False; a denied dry run is reported by I7 alone."""
    unready_classes = set()
    for node_class in facts.of(EC2_NODE_CLASSES):
        if condition(node_class, _READY).get("status") != "False":
            continue
        unready_classes.add(name_of(node_class))
        if not str(condition(node_class, VALIDATION_SUCCEEDED).get("reason") or "").endswith(
            "AuthCheckFailed"
        ):
            yield _unready("EC2NodeClass", node_class)
    classes = {pool.name: pool.template.node_class.name for pool in decode_nodepools(facts)}
    for node_pool in facts.of(NODE_POOLS):
        class_name = classes.get(name_of(node_pool), "")
        if class_name in unready_classes or find_nodeclass(facts, class_name) is None:
            continue
        if condition(node_pool, _READY).get("status") == "False":
            yield _unready("NodePool", node_pool)


def _unready(kind: str, obj: Object) -> Symptom:
    conditions = get_list(obj, "status", "conditions")
    failed = [item for item in conditions if item.get("status") == "False" and item.get("type") != _READY]
    reasons = [
        f"{item.get('type')}: {item.get('message') or item.get('reason') or 'False'}"
        for item in failed or [condition(obj, _READY)]
    ]
    name = name_of(obj)
    return Symptom(
        about=f"{kind}/{name}",
        seen=f"Ready is False; {'; '.join(reasons)}",
        wrong="nothing is launched with it",
        fix=f"kubectl describe {kind.lower()} {name}  # correct what the conditions name",
    )


@check(
    code="K19",
    title="two controllers",
    severity=Severity.BROKEN,
    detection="Deployments of Karpenter and Dovetail that are not scaled to zero",
    remedy="scale all but one to zero",
    needs=(DEPLOYMENTS,),
)
def two_controllers(facts: Facts) -> Iterator[Symptom]:
    """Yield every further controller of the same NodePools."""
    running = sorted(
        (item for item in controllers(facts) if item.replicas),
        key=lambda item: (item.kind, item.namespace, item.name),
    )
    for other in running[1:]:
        yield Symptom(
            about=other.about,
            seen=f"{pluralize(other.replicas, 'replica')} of {other.kind}, "
            f"beside {running[0].about} ({running[0].kind})",
            wrong="both launch nodes for the same pods and disrupt each other's nodes",
            fix=f"kubectl scale {other.target} --replicas=0  # or the other one; see dovetail migrate",
        )


_AUTOSCALER: Final = "cluster-autoscaler"
_NAME_LABELS: Final = ("app.kubernetes.io/name", "app", "k8s-app")


@controller_check(
    code="K20",
    title="Cluster Autoscaler beside the controller",
    severity=Severity.RISK,
    detection="Deployments with the name, label or image of cluster-autoscaler, not scaled to zero",
    remedy="scale it to zero",
    needs=(DEPLOYMENTS,),
)
def cluster_autoscaler(facts: Facts, controller: Controller) -> Iterator[Symptom]:
    """Yield Deployments of the Cluster Autoscaler that run."""
    for deployment in facts.of(DEPLOYMENTS):
        if not _is_autoscaler(deployment) or deployment.get("spec", {}).get("replicas", 1) == 0:
            continue
        target = f"deployment {name_of(deployment)} -n {namespace_of(deployment)}"
        yield Symptom(
            about=f"Deployment/{namespace_of(deployment)}/{name_of(deployment)}",
            seen=f"it runs beside {controller.about}",
            wrong="both add nodes for the same pending pods, and node groups shrink under running pods",
            fix=f"kubectl scale {target} --replicas=0",
        )


def _is_autoscaler(deployment: Object) -> bool:
    names = (name_of(deployment), *(label(deployment, key) for key in _NAME_LABELS))
    if any(name.endswith(_AUTOSCALER) for name in names):
        return True
    return any(
        str(container.get("image") or "").partition("@")[0].rpartition("/")[2].partition(":")[0]
        == _AUTOSCALER
        for container in get_list(deployment, "spec", "template", "spec", "containers")
    )


_SETTINGS_IN_ENVIRONMENT: Final = (0, 33)
"""Version of Karpenter whose settings are environment variables."""


@controller_check(
    code="K21",
    title="controller is set up for another cluster",
    severity=Severity.BROKEN,
    detection="CLUSTER_NAME of the controller against the cluster's name, and the clusters in EKS",
    remedy="correct the name",
    helped_by=(Part.CLUSTER_NAME,),
)
def wrong_cluster_name(facts: Facts, controller: Controller) -> Iterator[Symptom]:
    """Yield a controller whose cluster name is missing, another one, or unknown to EKS."""
    name = controller.setting("CLUSTER_NAME")
    if name == "(set)" or (not name and get_list(controller.container, "envFrom")):
        return  # From a ConfigMap or Secret.
    if not name and controller.version < _SETTINGS_IN_ENVIRONMENT:
        return  # In the ConfigMap karpenter-global-settings.
    if not name:
        evidence = "CLUSTER_NAME is empty"
    elif name != facts.cluster:
        evidence = f"CLUSTER_NAME is {name!r}, and this is cluster {facts.cluster!r}"
    elif not facts.aws.cluster_exists:
        evidence = f"CLUSTER_NAME is {name!r}, and EKS has no such cluster in {facts.region or 'the region'}"
    else:
        return
    correct = facts.cluster if name != facts.cluster and facts.cluster else "NAME"
    yield Symptom(
        about=controller.about,
        seen=evidence,
        wrong="nodes join another cluster or none, and instances carry another cluster's tags",
        fix=f"kubectl set env {controller.target} CLUSTER_NAME={correct}",
    )
