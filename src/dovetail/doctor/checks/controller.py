"""The controller's Deployment and its dependencies."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from dovetail.codec.text.suggestions import pluralize
from dovetail.doctor.api_resources import FLOW_SCHEMAS, SERVICE_MONITORS
from dovetail.doctor.check import controller_check
from dovetail.doctor.controller_deployment import Controller, pods_of, variables
from dovetail.doctor.facts import Facts, Part, Raw
from dovetail.doctor.finding import Severity, Symptom, merge_patch
from dovetail.doctor.iam_policies import RequestContext, allowing, is_allowed, principals
from dovetail.doctor.object_fields import (
    belongs_to_nodepool,
    get_field,
    get_list,
    is_fargate,
    join_names,
    label,
    name_of,
    namespace_of,
    spot_nodepools,
)
from dovetail.eks.desired.interruption_queue import RULES
from dovetail.model.kube.quantity import parse_amount
from dovetail.ports.api_resources import DAEMON_SETS, DEPLOYMENTS, NODE_POOLS, NODES, PODS


@controller_check(
    code="K1",
    title="DNS deadlock",
    severity=Severity.BROKEN,
    detection="dnsPolicy of the controller, and the nodes that CoreDNS runs on",
    remedy="dnsPolicy Default, or run CoreDNS on nodes that the controller does not manage",
    needs=(DEPLOYMENTS, PODS, NODES),
)
def dns_deadlock(facts: Facts, controller: Controller) -> Iterator[Symptom]:
    """Yield a controller whose DNS runs only on nodes that it launches itself."""
    if not _uses_cluster_dns(controller.spec):
        return
    in_nodepools = {name_of(node) for node in facts.of(NODES) if belongs_to_nodepool(node)}
    for deployment in facts.of(DEPLOYMENTS):
        if (namespace_of(deployment), name_of(deployment)) != ("kube-system", "coredns"):
            continue
        node_names = [str(get_field(pod, "spec", "nodeName") or "") for pod in pods_of(facts, deployment)]
        if not node_names or any(node_name and node_name not in in_nodepools for node_name in node_names):
            continue
        pending = sum(not node_name for node_name in node_names)
        yield Symptom(
            about=controller.about,
            seen=f"dnsPolicy is {controller.spec.get('dnsPolicy') or 'ClusterFirst'}; of "
            f"{len(node_names)} CoreDNS pods {pending} are pending and the others run on nodes of NodePools",
            wrong="a restarted controller cannot resolve AWS endpoints, so no node is launched for DNS",
            fix=merge_patch(controller.target, {"spec": {"template": {"spec": {"dnsPolicy": "Default"}}}}),
        )


def _uses_cluster_dns(spec: Mapping[str, Any]) -> bool:
    """Return True if the pod uses CoreDNS; with the host network it may not."""
    policy = spec.get("dnsPolicy") or "ClusterFirst"
    if policy == "ClusterFirst":
        return not spec.get("hostNetwork")
    return bool(policy == "ClusterFirstWithHostNet")


@controller_check(
    code="K2",
    title="controller cannot fit",
    severity=Severity.RISK,
    detection="pending replicas, against nodes that belong to no NodePool",
    remedy="a second node, or one replica",
    needs=(PODS, NODES),
)
def controller_nodes(facts: Facts, controller: Controller) -> Iterator[Symptom]:
    """Yield pending replicas if there are too few nodes outside NodePools."""
    pending = [
        name_of(pod)
        for pod in controller.pods
        if get_field(pod, "status", "phase") == "Pending" and not get_field(pod, "spec", "nodeName")
    ]
    outside_nodes = [
        name_of(node) for node in facts.of(NODES) if not belongs_to_nodepool(node) and not is_fargate(node)
    ]
    if not pending or len(outside_nodes) >= controller.replicas:
        return
    yield Symptom(
        about=controller.about,
        seen=f"{pluralize(controller.replicas, 'replica')}, "
        f"{pluralize(len(outside_nodes), 'node')} outside NodePools; pending: "
        f"{join_names(pending)}",
        wrong="the controller does not run on nodes of NodePools, and each replica needs its own node",
        fix=f"kubectl scale {controller.target} "
        f"--replicas={max(1, len(outside_nodes))}  # or add a node to the node group",
    )


_MIB: Final = 1 << 20
_BASE_MIB: Final = 1024
"""MiB of memory for a small cluster."""
_NODES_PER_GIB: Final = 400
_PENDING_PODS_PER_GIB: Final = 10_000
_MIN_CPU: Final = 500
"""Millicores."""


@controller_check(
    code="K3",
    title="controller too small for the backlog",
    severity=Severity.RISK,
    detection="limits of the controller against nodes and pending pods; OOMKilled replicas",
    remedy="raise the limits",
    needs=(PODS, NODES),
)
def controller_resources(facts: Facts, controller: Controller) -> Iterator[Symptom]:
    """Yield limits below the need of the number of nodes and pending pods."""
    pending = sum(
        get_field(pod, "status", "phase") == "Pending" and not get_field(pod, "spec", "nodeName")
        for pod in facts.of(PODS)
    )
    nodes = len(facts.of(NODES))
    gib = 1 + max(0, nodes - _NODES_PER_GIB) / _NODES_PER_GIB + pending / _PENDING_PODS_PER_GIB
    required_mib = int(gib * _BASE_MIB)
    memory = _amount("memory", get_field(controller.container, "resources", "limits", "memory"))
    cpu = _amount("cpu", get_field(controller.container, "resources", "limits", "cpu"))
    reasons = []
    if memory is not None and memory < required_mib * _MIB:
        reasons.append(f"memory limit {memory // _MIB} MiB, about {required_mib} MiB are needed")
    if cpu is not None and cpu < _MIN_CPU:
        reasons.append(f"cpu limit {cpu}m; 1 CPU is usual")
    killed = sum(
        get_field(status, "lastState", "terminated", "reason") == "OOMKilled"
        for pod in controller.pods
        for status in get_list(pod, "status", "containerStatuses")
    )
    if killed:
        reasons.append(f"{pluralize(killed, 'replica')} OOMKilled")
    if reasons:
        yield Symptom(
            about=controller.about,
            seen=f"{pluralize(nodes, 'node')}, {pluralize(pending, 'pending pod')}; {'; '.join(reasons)}",
            wrong="it is killed or slow exactly when many pods are pending",
            fix=f"kubectl set resources {controller.target} "
            f"--requests=cpu=1,memory={required_mib}Mi --limits=memory={required_mib}Mi",
        )


def _amount(resource: str, text: Any) -> int | None:
    try:
        return None if text is None else parse_amount(resource, text)
    except ValueError:
        return None


_SPOT: Final = RULES[1][2]


@controller_check(
    code="K8",
    title="no interruption queue while spot is allowed",
    severity=Severity.RISK,
    detection="the controller's interruptionQueue, that queue in SQS, and the EventBridge rules for it",
    remedy="create queue, rules and policy, and set the name",
    needs=(NODE_POOLS,),
    helped_by=(Part.QUEUE,),
)
def no_interruption_queue(facts: Facts, controller: Controller) -> Iterator[Symptom]:
    """Yield a queue that is not set, does not exist, or has no rule."""
    pool_names = spot_nodepools(facts)
    if not pool_names:
        return
    queue = controller.setting("INTERRUPTION_QUEUE")
    if not queue:
        evidence = "INTERRUPTION_QUEUE is empty"
    elif Part.QUEUE in facts.unseen:
        return
    elif facts.aws.queue is None:
        evidence = f"SQS has no queue {queue}"
    elif not any(_matches_interruptions(rule) for rule in facts.aws.rules):
        evidence = f"no EventBridge rule sends spot interruption warnings to {queue}"
    else:
        return
    yield Symptom(
        about=controller.about,
        seen=f"{evidence}; NodePools that allow spot: {join_names(pool_names)}",
        wrong="spot instances are interrupted without a drain",
        fix=f"dovetail cluster apply -f cluster.yaml  # creates queue, rules and policy; then: "
        f"kubectl set env {controller.target} "
        f"INTERRUPTION_QUEUE={queue or facts.cluster or 'QUEUE'}",
    )


def _matches_interruptions(rule: Raw) -> bool:
    """Return True if the rule is enabled and matches spot interruption warnings.

    A field that the pattern leaves out matches anything.
    """
    try:
        pattern = json.loads(str(rule.get("EventPattern") or ""))
    except ValueError:
        return False
    if not isinstance(pattern, dict) or rule.get("State", "ENABLED") == "DISABLED":
        return False
    return _matches(pattern.get("source"), "aws.ec2") and _matches(pattern.get("detail-type"), _SPOT)


def _matches(patterns: Any, value: str) -> bool:
    if patterns is None:
        return True
    return any(
        value.startswith(str(pattern.get("prefix", value))) if isinstance(pattern, dict) else pattern == value
        for pattern in (patterns if isinstance(patterns, list) else [])
    )


_EVENTS: Final = "events.amazonaws.com"


@controller_check(
    code="K15",
    title="interruption queue rejects events",
    severity=Severity.RISK,
    detection="policy of the interruption queue, for each EventBridge rule that targets it",
    remedy="let EventBridge send to the queue",
    needs=(Part.QUEUE,),
)
def queue_rejects_events(facts: Facts, controller: Controller) -> Iterator[Symptom]:
    """Yield a queue whose policy does not allow the rules that target it."""
    queue = facts.aws.queue
    if queue is None or not facts.aws.rules:
        return  # K8 reports these.
    arn = str(queue.get("QueueArn") or "")
    try:
        policy = json.loads(str(queue.get("Policy") or "{}"))
    except ValueError:
        policy = {}
    rejected = [
        str(rule.get("Name"))
        for rule in facts.aws.rules
        if not _may_send(policy, arn, str(rule.get("Arn") or ""), facts.aws.account)
    ]
    if not rejected:
        return
    statement = {
        "Effect": "Allow",
        "Principal": {"Service": _EVENTS},
        "Action": "sqs:SendMessage",
        "Resource": arn,
    }
    document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    attributes = json.dumps({"Policy": document})
    name = arn.rpartition(":")[2]
    yield Symptom(
        about=f"queue/{name}",
        seen=f"its policy does not allow sqs:SendMessage to {_EVENTS} for {join_names(rejected)}",
        wrong="no interruption arrives; spot instances are interrupted without a drain",
        fix=f"aws sqs set-queue-attributes --queue-url $(aws sqs get-queue-url --queue-name {name} "
        f"--query QueueUrl --output text) --attributes '{attributes}'",
    )


def _may_send(policy: Raw, queue: str, rule: str, account: str) -> bool:
    context = RequestContext({"aws:SourceArn": rule, "aws:SourceAccount": account})
    statements = [
        {key: value for key, value in statement.items() if key != "Principal"}
        for statement in allowing([policy], "sqs:SendMessage")
        if not {_EVENTS, "*"}.isdisjoint(principals(statement))
    ]
    return is_allowed([{"Statement": statements}], "sqs:SendMessage", queue, context)


_HANDLER = "aws-node-termination-handler"
_DRAINING = (
    ("ENABLE_SPOT_INTERRUPTION_DRAINING", "true"),
    ("ENABLE_REBALANCE_DRAINING", "false"),
    ("ENABLE_SQS_TERMINATION_DRAINING", "false"),
)
"""Settings that drain nodes, with their defaults."""


@controller_check(
    code="K9",
    title="termination handler drains as well",
    severity=Severity.RISK,
    detection="aws-node-termination-handler with draining enabled, beside an interruption queue",
    remedy="turn it off",
    needs=(DAEMON_SETS, DEPLOYMENTS),
)
def termination_handler(facts: Facts, controller: Controller) -> Iterator[Symptom]:
    """Yield handlers that drain nodes although the controller does."""
    if not controller.setting("INTERRUPTION_QUEUE"):
        return
    for kind in (DAEMON_SETS, DEPLOYMENTS):
        for obj in facts.of(kind):
            if _HANDLER not in (name_of(obj), label(obj, "app.kubernetes.io/name")):
                continue
            environment: dict[str, str] = {}
            for container in get_list(obj, "spec", "template", "spec", "containers"):
                environment |= variables(container)
            enabled = [key for key, default in _DRAINING if environment.get(key, default).lower() == "true"]
            if enabled:
                target = f"{kind.kind.lower()} {name_of(obj)} -n {namespace_of(obj)}"
                yield Symptom(
                    about=f"{kind.kind}/{namespace_of(obj)}/{name_of(obj)}",
                    seen=f"{', '.join(enabled)} while {controller.about} reads an interruption queue",
                    wrong="both drain the same node, and it is gone before its replacement is ready",
                    fix=f"kubectl set env {target} " + " ".join(f"{key}=false" for key in enabled),
                )


_GENERAL_SCHEMAS = ("catch-all", "global-default", "service-accounts")
_FIX = """kubectl apply -f - <<END
apiVersion: flowcontrol.apiserver.k8s.io/v1
kind: FlowSchema
metadata: {{name: {account}}}
spec:
  matchingPrecedence: 1000
  priorityLevelConfiguration: {{name: workload-high}}
  rules:
  - subjects:
    - kind: ServiceAccount
      serviceAccount: {{name: {account}, namespace: {namespace}}}
    resourceRules:
    - {{apiGroups: ['*'], resources: ['*'], verbs: ['*'], namespaces: ['*'], clusterScope: true}}
END"""


@controller_check(
    code="K10",
    title="outside kube-system without FlowSchemas",
    severity=Severity.ADVICE,
    detection="the controller's namespace and service account against FlowSchemas",
    remedy="add FlowSchemas for it",
    needs=(FLOW_SCHEMAS,),
)
def flow_schema(facts: Facts, controller: Controller) -> Iterator[Symptom]:
    """Yield a controller outside kube-system without a FlowSchema."""
    if controller.namespace == "kube-system":
        return
    schemas = [schema for schema in facts.of(FLOW_SCHEMAS) if name_of(schema) not in _GENERAL_SCHEMAS]
    subjects = [
        subject
        for schema in schemas
        for rule in get_list(schema, "spec", "rules")
        for subject in get_list(rule, "subjects")
    ]
    if any(_is_subject(subject, controller) for subject in subjects):
        return
    yield Symptom(
        about=controller.about,
        seen=f"namespace {controller.namespace}; no FlowSchema for "
        f"ServiceAccount {controller.service_account}",
        wrong="under load, the API server gives the controller's requests no priority",
        fix=_FIX.format(account=controller.service_account, namespace=controller.namespace),
    )


def _is_subject(subject: Mapping[str, Any], controller: Controller) -> bool:
    account = get_field(subject, "serviceAccount") or {}
    if account.get("namespace") == controller.namespace:
        return account.get("name") in ("*", controller.service_account)
    user = get_field(subject, "user", "name")
    return bool(user == f"system:serviceaccount:{controller.namespace}:{controller.service_account}")


_PRICE_SERIES: Final = "karpenter_cloudprovider_instance_type_offering_"
_MAX_PRICE_SERIES: Final = 2000


@controller_check(
    code="K14",
    title="metric flood",
    severity=Severity.ADVICE,
    detection="price series in the controller's scrape, and ServiceMonitors that drop none",
    remedy="drop them by relabelling",
    needs=(Part.METRICS, SERVICE_MONITORS),
)
def metric_cardinality(facts: Facts, controller: Controller) -> Iterator[Symptom]:
    """Yield ServiceMonitors that store a series for each price."""
    series = sum(metric.startswith(_PRICE_SERIES) for metric in facts.metrics)
    if series < _MAX_PRICE_SERIES:
        return
    labels = get_field(controller.deployment, "spec", "selector", "matchLabels") or {}
    for monitor in facts.of(SERVICE_MONITORS):
        selector = get_field(monitor, "spec", "selector", "matchLabels") or {}
        if not selector or not selector.items() <= labels.items() or _drops(monitor):
            continue
        yield Symptom(
            about=f"ServiceMonitor/{namespace_of(monitor)}/{name_of(monitor)}",
            seen=f"{series:,} of {len(facts.metrics):,} lines are {_PRICE_SERIES}…, and none are dropped",
            wrong="each replica adds unused series to Prometheus",
            fix="add to each endpoint: metricRelabelings: [{sourceLabels: [__name__], regex: "
            f"'{_PRICE_SERIES}.*', action: drop}}]",
        )


def _drops(monitor: object) -> bool:
    rules = [
        rule
        for endpoint in get_list(monitor, "spec", "endpoints")
        for rule in get_list(endpoint, "metricRelabelings")
    ]
    return any(rule.get("action") in ("drop", "keep") for rule in rules)
