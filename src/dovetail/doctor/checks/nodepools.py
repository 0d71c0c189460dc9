"""NodePools and the workloads that limit their disruption."""

import re
from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Final

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.kube.requirements import decode_selector
from dovetail.codec.text.suggestions import nearest_match, pluralize
from dovetail.doctor.check import check, controller_check
from dovetail.doctor.controller_deployment import Controller
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom, merge_patch
from dovetail.doctor.instance_types import instance_types_of
from dovetail.doctor.object_fields import (
    decode_nodepools,
    find_nodeclass,
    get_field,
    get_list,
    is_user_set,
    join_names,
    label,
    name_of,
    namespace_of,
    spot_nodepools,
)
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import DisruptionReason, NodePool
from dovetail.model.kube.requirements import Operator
from dovetail.ports.api_resources import (
    DEPLOYMENTS,
    EC2_NODE_CLASSES,
    NODE_POOLS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
)
from dovetail.ports.kube_client import Object


def blocking(facts: Facts) -> Iterator[Object]:
    """Yield PodDisruptionBudgets that allow nothing although all pods are healthy."""
    for pdb in facts.of(POD_DISRUPTION_BUDGETS):
        status = get_field(pdb, "status") or {}
        expected = int(status.get("expectedPods") or 0)
        if (
            expected
            and int(status.get("currentHealthy") or 0) >= expected
            and not int(status.get("disruptionsAllowed") or 0)
        ):
            yield pdb


_ARCHITECTURES: Final = ("amd64", "arm64")


@check(
    code="K11",
    title="requirement that can never match",
    severity=Severity.BROKEN,
    detection="requirements of each NodePool against the catalogue of instance types",
    remedy="correct the value",
    needs=(NODE_POOLS, EC2_NODE_CLASSES, Part.TYPES),
)
def no_match(facts: Facts) -> Iterator[Symptom]:
    """Yield NodePools with unknown values, or that no instance type satisfies."""
    for pool in decode_nodepools(facts):
        if pool.replicas == 0 or pool.deleting:
            continue
        unknown_values = list(_unknown_values(facts, pool))
        if not unknown_values and instance_types_of(facts, pool):
            continue
        yield Symptom(
            about=f"NodePool/{pool.name}",
            seen="; ".join(unknown_values)
            or f"no instance type of {facts.region} satisfies all its requirements",
            wrong="no node is ever launched for it" if not unknown_values else "such a value never matches",
            fix=f"kubectl edit nodepool {pool.name}  # spec.template.spec.requirements",
        )


def _unknown_values(facts: Facts, pool: NodePool) -> Iterator[str]:
    region = facts.catalog.regions.get(facts.region)
    values_by_key = {
        label_keys.CAPACITY_TYPE: set(label_keys.CAPACITY_TYPES),
        label_keys.ARCH: set(_ARCHITECTURES),
        # A zone without a subnet is allowed as long as another one has a subnet.
        label_keys.ZONE: set(region.zones) if region is not None else set(),
        label_keys.INSTANCE_TYPE: {instance_type.name for instance_type in facts.catalog.instance_types},
    }
    for requirement in pool.template.requirements:
        valid_values = values_by_key.get(label_keys.normalize_key(requirement.key))
        if valid_values is None or requirement.operator is not Operator.IN:
            continue
        for value in requirement.values:
            if value not in valid_values:
                guess = nearest_match(value, sorted(valid_values))
                hint = f"; did you mean {guess!r}?" if guess else ""
                yield f"{requirement.key}: {value!r} is unknown{hint}"


@check(
    code="P1",
    title="@latest AMI",
    severity=Severity.ADVICE,
    detection="alias in amiSelectorTerms of each EC2NodeClass",
    remedy="pin a version, and update it deliberately",
    needs=(EC2_NODE_CLASSES,),
)
def latest_ami(facts: Facts) -> Iterator[Symptom]:
    """Yield node classes with an alias of the latest AMI."""
    for node_class in facts.of(EC2_NODE_CLASSES):
        name = name_of(node_class)
        latest = [
            str(term["alias"])
            for term in get_list(node_class, "spec", "amiSelectorTerms")
            if str(term.get("alias") or "").endswith("@latest")
        ]
        if latest:
            family = latest[0].partition("@")[0]
            yield Symptom(
                about=f"EC2NodeClass/{name}",
                seen=f"alias {latest[0]}",
                wrong="each AMI that AWS publishes replaces every node without a test",
                fix=merge_patch(
                    f"ec2nodeclass {name}", {"spec": {"amiSelectorTerms": [{"alias": f"{family}@VERSION"}]}}
                ),
            )


_BUDGETS: Final = ("spec", "disruption", "budgets")
_AFTER: Final = ("spec", "disruption", "consolidateAfter")
_EXPLICIT: Final = {
    "consolidateAfter": "5m",
    "budgets": [
        {"nodes": "10%", "reasons": [DisruptionReason.UNDERUTILIZED, DisruptionReason.DRIFTED]},
        {"nodes": "100%", "reasons": [DisruptionReason.EMPTY]},
    ],
}
"""Suggested disruption settings."""


@check(
    code="P2",
    title="implicit 10% budget, consolidateAfter 0s",
    severity=Severity.ADVICE,
    detection="budgets and consolidateAfter of each NodePool are absent, or set by the API server only",
    remedy="set them explicitly",
    needs=(NODE_POOLS,),
)
def implicit_disruption(facts: Facts) -> Iterator[Symptom]:
    """Yield NodePools that rely on defaults; the API server writes these into them."""
    for node_pool in facts.of(NODE_POOLS):
        budgets, after = get_list(node_pool, *_BUDGETS), get_field(node_pool, *_AFTER)
        reasons = []
        if budgets in ([], [{"nodes": "10%"}]) and not is_user_set(node_pool, *_BUDGETS):
            reasons.append("budgets are the default, 10% of nodes at any time")
        if after in (None, "0s") and not is_user_set(node_pool, *_AFTER):
            reasons.append("consolidateAfter is the default, 0s")
        if reasons:
            yield Symptom(
                about=f"NodePool/{name_of(node_pool)}",
                seen="; ".join(reasons),
                wrong="the API server's defaults decide when and how many nodes are disrupted",
                fix=merge_patch(f"nodepool {name_of(node_pool)}", {"spec": {"disruption": _EXPLICIT}}),
            )


@check(
    code="P3",
    title="PodDisruptionBudget that allows nothing",
    severity=Severity.RISK,
    detection="disruptionsAllowed is 0 while all pods of a budget are healthy",
    remedy="correct it, or set terminationGracePeriod on the NodePool",
    needs=(POD_DISRUPTION_BUDGETS,),
)
def blocking_pdb(facts: Facts) -> Iterator[Symptom]:
    """Yield PodDisruptionBudgets that never allow an eviction."""
    for pdb in blocking(facts):
        name, namespace = name_of(pdb), namespace_of(pdb)
        spec = {key: get_field(pdb, "spec", key) for key in ("minAvailable", "maxUnavailable")}
        limits = ", ".join(f"{key} {value}" for key, value in spec.items() if value is not None)
        yield Symptom(
            about=f"PodDisruptionBudget/{namespace}/{name}",
            seen=f"{limits}; all {get_field(pdb, 'status', 'expectedPods')} pods are healthy "
            "and 0 may be evicted",
            wrong="no node with one of its pods can be drained",
            fix=merge_patch(
                f"pdb {name} -n {namespace}", {"spec": {"minAvailable": None, "maxUnavailable": 1}}
            ),
        )


@check(
    code="P4",
    title="expireAfter with pods that block",
    severity=Severity.RISK,
    detection="NodePools with expireAfter and no terminationGracePeriod, and pods that cannot be evicted",
    remedy="set terminationGracePeriod",
    needs=(NODE_POOLS, NODES, PODS, POD_DISRUPTION_BUDGETS),
)
def blocked_expiry(facts: Facts) -> Iterator[Symptom]:
    """Yield NodePools whose nodes expire but cannot be drained, with the pods."""
    pool_of = {name_of(node): label(node, label_keys.NODEPOOL) for node in facts.of(NODES)}
    blockers: dict[str, list[str]] = {}
    budgets = list(blocking(facts))
    for pod in facts.of(PODS):
        pool_name = pool_of.get(str(get_field(pod, "spec", "nodeName") or ""), "")
        if pool_name and _blocks_drain(pod, budgets):
            blockers.setdefault(pool_name, []).append(f"{namespace_of(pod)}/{name_of(pod)}")
    for pool in decode_nodepools(facts):
        template = pool.template
        if template.expire_after is None or template.termination_grace_period is not None:
            continue
        if pool.name in blockers:
            yield Symptom(
                about=f"NodePool/{pool.name}",
                seen=f"expireAfter is set, terminationGracePeriod is not; blocking pods: "
                f"{join_names(blockers[pool.name])}",
                wrong="an expired node takes no new pods, is never terminated, and costs money",
                fix=merge_patch(
                    f"nodepool {pool.name}",
                    {"spec": {"template": {"spec": {"terminationGracePeriod": "24h"}}}},
                ),
            )


def _blocks_drain(pod: Object, budgets: list[Object]) -> bool:
    annotations = get_field(pod, "metadata", "annotations") or {}
    if annotations.get(label_keys.DO_NOT_DISRUPT) == "true":
        return True
    labels = get_field(pod, "metadata", "labels") or {}
    return any(namespace_of(budget) == namespace_of(pod) and _selects(budget, labels) for budget in budgets)


def _selects(budget: Object, labels: Mapping[str, str]) -> bool:
    field = Field(get_field(budget, "spec", "selector"), DecodeContext(strict=False))
    selector = decode_selector(field)
    return selector is not None and selector.is_valid and selector.matches(labels)


_MIN_DEPLOYMENTS: Final = 5
_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


@controller_check(
    code="P5",
    title="preferred anti-affinity or spread everywhere",
    severity=Severity.ADVICE,
    detection="Deployments with preferred anti-affinity or ScheduleAnyway, and PREFERENCE_POLICY",
    remedy="relax them, or PREFERENCE_POLICY=Ignore",
    needs=(DEPLOYMENTS,),
)
def preferences(facts: Facts, controller: Controller) -> Iterator[Symptom]:
    """Yield the controller if most Deployments have preferences."""
    if controller.setting("PREFERENCE_POLICY") == "Ignore":
        return
    deployments = [
        deployment for deployment in facts.of(DEPLOYMENTS) if namespace_of(deployment) != "kube-system"
    ]
    with_preferences = [
        f"{namespace_of(deployment)}/{name_of(deployment)}"
        for deployment in deployments
        if _prefers(deployment)
    ]
    if len(with_preferences) < _MIN_DEPLOYMENTS or 2 * len(with_preferences) <= len(deployments):
        return
    yield Symptom(
        about=controller.about,
        seen=f"{len(with_preferences)} of {len(deployments)} Deployments prefer anti-affinity or spreading: "
        f"{join_names(with_preferences)}; PREFERENCE_POLICY is Respect",
        wrong="more nodes than needed are launched, fewer are removed, and scheduling is slow",
        fix=f"kubectl set env {controller.target} PREFERENCE_POLICY=Ignore",
    )


def _prefers(deployment: Object) -> bool:
    spec = get_field(deployment, "spec", "template", "spec")
    return bool(get_list(spec, "affinity", "podAntiAffinity", _PREFERRED)) or any(
        constraint.get("whenUnsatisfiable") == "ScheduleAnyway"
        for constraint in get_list(spec, "topologySpreadConstraints")
    )


_MIN_SPOT_TYPES: Final = 15


@controller_check(
    code="P6",
    title="spot NodePool with fewer than 15 types and spot-to-spot on",
    severity=Severity.ADVICE,
    detection="number of types of each spot NodePool, with SpotToSpotConsolidation on",
    remedy="widen the requirements",
    needs=(NODE_POOLS, EC2_NODE_CLASSES, Part.TYPES),
)
def few_spot_types(facts: Facts, controller: Controller) -> Iterator[Symptom]:
    """Yield spot NodePools with fewer types than spot-to-spot consolidation needs."""
    if not controller.gate("SpotToSpotConsolidation"):
        return
    minimum = controller.setting("SPOT_TO_SPOT_TYPES")
    fewest = int(minimum) if minimum.isdigit() else _MIN_SPOT_TYPES
    spot = set(spot_nodepools(facts))
    for pool in decode_nodepools(facts):
        types = [
            instance_type
            for instance_type in instance_types_of(facts, pool)
            if label_keys.SPOT in instance_type.usage_classes
        ]
        if pool.name in spot and 0 < len(types) < fewest:
            yield Symptom(
                about=f"NodePool/{pool.name}",
                seen=f"{pluralize(len(types), 'type')} offered as spot; "
                f"SpotToSpotConsolidation needs {fewest}",
                wrong="its spot nodes are never replaced by cheaper ones",
                fix=f"kubectl edit nodepool {pool.name}  # allow more families or sizes",
            )


_SINCE = (1, 6)


@controller_check(
    code="P7",
    title="open capacity reservation and no selector",
    severity=Severity.RISK,
    detection="active open reservations with free slots, of types that NodePools allow",
    remedy="add a selector, or disable ReservedCapacity",
    needs=(Part.VERSION, Part.RESERVATIONS, NODE_POOLS, EC2_NODE_CLASSES, Part.TYPES),
)
def idle_reservation(facts: Facts, controller: Controller) -> Iterator[Symptom]:
    """Yield open reservations with free slots if no node class selects any."""
    if controller.version < _SINCE:
        return
    if not controller.gate("ReservedCapacity", default=True):
        return
    class_by_type: dict[str, str] = {}
    for pool in decode_nodepools(facts):
        node_class = find_nodeclass(facts, pool.template.node_class.name)
        if get_list(node_class, "spec", "capacityReservationSelectorTerms"):
            return  # Reservations are configured.
        for instance_type in instance_types_of(facts, pool):
            class_by_type.setdefault(instance_type.name, pool.template.node_class.name)
    for reservation in facts.aws.reservations:
        available = int(reservation.get("AvailableInstanceCount") or 0)
        type_name = str(reservation.get("InstanceType"))
        if (
            reservation.get("InstanceMatchCriteria") != "open"
            or not available
            or type_name not in class_by_type
        ):
            continue
        name = reservation["CapacityReservationId"]
        yield Symptom(
            about=f"reservation/{name}",
            seen=f"{available} of {reservation.get('TotalInstanceCount')} {type_name} are unused; "
            "no EC2NodeClass has capacityReservationSelectorTerms",
            wrong="launches do not use open reservations automatically since 1.6",
            fix=merge_patch(
                f"ec2nodeclass {class_by_type[type_name]}",
                {"spec": {"capacityReservationSelectorTerms": [{"id": name}]}},
            ),
        )


@check(
    code="P8",
    title="overlapping NodePools of equal weight",
    severity=Severity.ADVICE,
    detection="requirements, taints and weights of each pair of NodePools",
    remedy="set weights",
    needs=(NODE_POOLS,),
)
def overlapping_nodepools(facts: Facts) -> Iterator[Symptom]:
    """Yield pairs of equal weight with overlapping requirements and equal taints."""
    dynamic_pools = sorted(
        (pool for pool in decode_nodepools(facts) if pool.replicas is None and not pool.deleting),
        key=lambda pool: pool.name,
    )
    for pool, other_pool in combinations(dynamic_pools, 2):
        if pool.weight != other_pool.weight or set(pool.template.taints) != set(other_pool.template.taints):
            continue
        if _overlap(pool, other_pool):
            yield Symptom(
                about=f"NodePool/{pool.name}",
                seen=f"it and {other_pool.name} have weight {pool.weight} and overlapping requirements",
                wrong="pods that fit both use the NodePool whose name comes last",
                fix=merge_patch(f"nodepool {pool.name}", {"spec": {"weight": min(100, pool.weight + 10)}}),
            )


def _overlap(pool: NodePool, other_pool: NodePool) -> bool:
    keys = (label_keys.NODEPOOL, pool.template.node_class.label[0])
    return (
        pool.requirements().without(*keys).find_disjoint_key(other_pool.requirements().without(*keys)) is None
    )


@check(
    code="P9",
    title="no NodePool limits",
    severity=Severity.RISK,
    detection="spec.limits of each NodePool",
    remedy="set cpu and nodes",
    needs=(NODE_POOLS,),
)
def no_limits(facts: Facts) -> Iterator[Symptom]:
    """Yield NodePools without limits; a static NodePool has a fixed size."""
    for node_pool in facts.of(NODE_POOLS):
        if get_field(node_pool, "spec", "limits") or get_field(node_pool, "spec", "replicas") is not None:
            continue
        yield Symptom(
            about=f"NodePool/{name_of(node_pool)}",
            seen="spec.limits is absent",
            wrong="a workload that scales without bound launches nodes without bound",
            fix=merge_patch(
                f"nodepool {name_of(node_pool)}", {"spec": {"limits": {"cpu": "1000", "nodes": "100"}}}
            ),
        )


_COUNT: Final = re.compile(r"^\w*consolidation_timeouts_total(?:\{([^}]*)\})?\s+([0-9.eE+]+)")


@controller_check(
    code="P10",
    title="consolidation timeouts",
    severity=Severity.RISK,
    detection="…consolidation_timeouts_total in the controller's metrics",
    remedy="fewer pools, bigger nodes, faster CPU",
    needs=(Part.METRICS,),
)
def consolidation_timeouts(facts: Facts, controller: Controller) -> Iterator[Symptom]:
    """Yield the number of scans that timed out since the controller started."""
    counts = [match for line in facts.metrics if (match := _COUNT.match(line))]
    total = sum(float(count.group(2)) for count in counts)
    if total < 1:
        return
    details = ", ".join(
        f"{count.group(1) or 'all'}: {float(count.group(2)):g}" for count in counts if float(count.group(2))
    )
    yield Symptom(
        about=controller.about,
        seen=f"consolidation_timeouts_total is {total:g} ({details})",
        wrong="savings that a scan does not reach before its timeout are never found",
        fix=f"kubectl set resources {controller.target} --requests=cpu=2  # and fewer pools, bigger nodes",
    )
