"""Encoder of pods."""

from typing import Any

from dovetail.codec.fields import drop_empty
from dovetail.codec.kube.requirements import encode_requirement, encode_selector, encode_toleration
from dovetail.codec.quantities import encode_time
from dovetail.model.kube.conditions import FALSE, READY
from dovetail.model.kube.pod import (
    NodeInclusionPolicy,
    NodeSelectorTerm,
    OwnerReference,
    Pod,
    PodAffinityTerm,
    PodSpec,
    PodVolume,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from dovetail.model.kube.resources import CPU, HUGEPAGES_PREFIX, MEMORY, PODS, Resources
from dovetail.model.kube.selectors import LabelSelector

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def encode_pod(pod: Pod) -> dict[str, Any]:
    """Encode a pod with the same requests and constraints.

    The model has total requests and no containers: CPU, memory and huge pages are
    written as pod-level requests, all other resources in one container.
    """
    status = {
        "phase": str(pod.phase),
        "startTime": encode_time(pod.start_time),
        "conditions": [] if pod.ready else [{"type": READY, "status": FALSE}],
        "nominatedNodeName": pod.nominated_node_name,
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(pod),
        "spec": _spec(pod),
        "status": drop_empty(status),
    }


def _metadata(pod: Pod) -> dict[str, Any]:
    encoded: dict[str, Any] = {
        "name": pod.name,
        "namespace": pod.namespace,
        "uid": pod.uid,
        "labels": dict(pod.labels),
        "annotations": dict(pod.annotations),
        "ownerReferences": [_owner(pod.owner)] if pod.owner else [],
        "creationTimestamp": encode_time(pod.created),
    }
    return drop_empty(encoded)


def _owner(owner: OwnerReference) -> dict[str, Any]:
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": owner.controller,
    }


def _spec(pod: Pod) -> dict[str, Any]:
    spec = pod.spec
    whole, single = _split(spec.requests)
    container = drop_empty(
        {
            "name": "main",
            "resources": {"requests": single, "limits": _extended_limits(single)} if single else {},
            "ports": [
                {
                    "containerPort": host_port.port,
                    "hostPort": host_port.port,
                    "protocol": host_port.protocol,
                    "hostIP": host_port.ip,
                }
                for host_port in spec.host_ports
            ],
        }
    )
    return drop_empty(
        {
            "containers": [container],
            "resources": {"requests": whole} if whole else {},
            "nodeSelector": dict(spec.node_selector),
            "affinity": _affinity(spec),
            "topologySpreadConstraints": [_spread(spread) for spread in spec.spreads],
            "tolerations": [encode_toleration(toleration) for toleration in spec.tolerations],
            "volumes": [_volume(volume, pod.name, n) for n, volume in enumerate(spec.volumes)],
            "resourceClaims": [{"name": "devices"}] if spec.needs_devices else [],
            "nodeName": pod.node_name,
            "priority": pod.priority or None,
        }
    )


def _split(requests: Resources) -> tuple[dict[str, str], dict[str, str]]:
    whole, single = {}, {}
    for name, amount in requests.to_quantities().items():
        if name in (CPU, MEMORY) or name.startswith(HUGEPAGES_PREFIX):
            whole[name] = amount
        elif name != PODS:
            single[name] = amount
    return whole, single


def _extended_limits(single: dict[str, str]) -> dict[str, str]:
    """Return the limits of extended resources, which must equal their requests."""
    return {name: amount for name, amount in single.items() if "/" in name}


def _affinity(spec: PodSpec) -> dict[str, Any]:
    node = drop_empty(
        {
            _REQUIRED: {"nodeSelectorTerms": [_node_term(term) for term in spec.node_terms]}
            if spec.node_terms
            else {},
            _PREFERRED: [
                {"weight": preferred.weight, "preference": _node_term(preferred.term)}
                for preferred in spec.preferred_node_terms
            ],
        }
    )
    return drop_empty(
        {
            "nodeAffinity": node,
            "podAffinity": _pod_terms(spec.affinity, spec.preferred_affinity),
            "podAntiAffinity": _pod_terms(spec.anti_affinity, spec.preferred_anti_affinity),
        }
    )


def _node_term(term: NodeSelectorTerm) -> dict[str, Any]:
    return drop_empty(
        {
            "matchExpressions": [encode_requirement(expression) for expression in term.expressions],
            "matchFields": [encode_requirement(field) for field in term.fields],
        }
    )


def _pod_terms(
    required: tuple[PodAffinityTerm, ...], preferred: tuple[WeightedPodAffinityTerm, ...]
) -> dict[str, Any]:
    return drop_empty(
        {
            _REQUIRED: [_pod_term(term) for term in required],
            _PREFERRED: [
                {"weight": weighted.weight, "podAffinityTerm": _pod_term(weighted.term)}
                for weighted in preferred
            ],
        }
    )


def _pod_term(term: PodAffinityTerm) -> dict[str, Any]:
    return {
        "topologyKey": term.topology_key,
        **_selector("labelSelector", term.selector),
        **drop_empty({"namespaces": list(term.namespaces)}),
        **_selector("namespaceSelector", term.namespace_selector),
    }


def _selector(name: str, selector: LabelSelector | None) -> dict[str, Any]:
    """Return the field of a selector; an empty one selects everything, an absent one nothing."""
    return {} if selector is None else {name: encode_selector(selector)}


def _spread(spread: TopologySpreadConstraint) -> dict[str, Any]:
    nodes, taints = spread.node_affinity_policy, spread.node_taints_policy
    optional = {
        "minDomains": spread.min_domains,
        "matchLabelKeys": list(spread.match_label_keys),
        "nodeAffinityPolicy": None if nodes is NodeInclusionPolicy.HONOR else str(nodes),
        "nodeTaintsPolicy": None if taints is NodeInclusionPolicy.IGNORE else str(taints),
    }
    return {
        "topologyKey": spread.topology_key,
        "maxSkew": spread.max_skew,
        "whenUnsatisfiable": "DoNotSchedule" if spread.required else "ScheduleAnyway",
        **_selector("labelSelector", spread.selector),
        **drop_empty(optional),
    }


def _volume(volume: PodVolume, pod_name: str, number: int) -> dict[str, Any]:
    if not volume.ephemeral:
        return {"name": f"volume-{number}", "persistentVolumeClaim": {"claimName": volume.claim}}
    storage_class = volume.template_storage_class
    template = {} if storage_class is None else {"storageClassName": storage_class}
    return {
        "name": volume.claim.removeprefix(f"{pod_name}-"),
        "ephemeral": {"volumeClaimTemplate": {"spec": template}},
    }
