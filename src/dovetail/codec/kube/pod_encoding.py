"""Pods written to the wire."""

from typing import Any

from dovetail.codec.kube.requirements import show_requirement, show_selector, show_toleration
from dovetail.codec.quantities import show_instant
from dovetail.model.kube.pod import (
    NodePolicy,
    NodeTerm,
    Owner,
    Pod,
    PodSpec,
    PodTerm,
    PodVolume,
    Spread,
)
from dovetail.model.kube.resources import CPU, HUGEPAGES_PREFIX, MEMORY, PODS, Resources

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def encode_pod(pod: Pod) -> dict[str, Any]:
    """Write a pod that asks for the same as this one.

    The model knows what a pod asks for in total, not its containers: CPU,
    memory and huge pages stand at pod level, the rest in one container.
    """
    shown: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": _metadata(pod),
        "spec": _spec(pod),
    }
    status = _status(pod)
    return {**shown, "status": status} if status else shown


def _metadata(pod: Pod) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "name": pod.name,
        "namespace": pod.namespace,
        "uid": pod.uid,
        "labels": dict(pod.labels),
        "annotations": dict(pod.annotations),
        "ownerReferences": [_owner(pod.owner)] if pod.owner else [],
        "creationTimestamp": show_instant(pod.created),
    }
    return _present(shown)


def _owner(owner: Owner) -> dict[str, Any]:
    return {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": owner.controller,
    }


def _present(shown: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in shown.items() if value not in ("", None, [], {}, ())}


def _spec(pod: Pod) -> dict[str, Any]:
    spec = pod.spec
    whole, single = _split(spec.requests)
    container = _present(
        {
            "name": "main",
            "resources": {"requests": single, "limits": _unshared(single)} if single else {},
            "ports": [
                {
                    "containerPort": one.port,
                    "hostPort": one.port,
                    "protocol": one.protocol,
                    "hostIP": one.ip,
                }
                for one in spec.host_ports
            ],
        }
    )
    return _present(
        {
            "containers": [container],
            "resources": {"requests": whole} if whole else {},
            "nodeSelector": dict(spec.node_selector),
            "affinity": _affinity(spec),
            "topologySpreadConstraints": [_spread(one) for one in spec.spreads],
            "tolerations": [show_toleration(one) for one in spec.tolerations],
            "volumes": [_volume(one, pod.name, n) for n, one in enumerate(spec.volumes)],
            "resourceClaims": [{"name": "devices"}] if spec.needs_devices else [],
            "nodeName": pod.node_name,
            "priority": pod.priority or None,
        }
    )


def _split(requests: Resources) -> tuple[dict[str, str], dict[str, str]]:
    whole, single = {}, {}
    for name, amount in requests.spelled().items():
        if name in (CPU, MEMORY) or name.startswith(HUGEPAGES_PREFIX):
            whole[name] = amount
        elif name != PODS:
            single[name] = amount
    return whole, single


def _unshared(single: dict[str, str]) -> dict[str, str]:
    """Return the limits of devices, which must equal their requests."""
    return {name: amount for name, amount in single.items() if "/" in name}


def _affinity(spec: PodSpec) -> dict[str, Any]:
    node = _present(
        {
            _REQUIRED: {"nodeSelectorTerms": [_node_term(one) for one in spec.node_terms]}
            if spec.node_terms
            else {},
            _PREFERRED: [
                {"weight": one.weight, "preference": _node_term(one.term)}
                for one in spec.preferred_node_terms
            ],
        }
    )
    near = {_REQUIRED: spec.affinity, _PREFERRED: spec.preferred_affinity}
    apart = {_REQUIRED: spec.anti_affinity, _PREFERRED: spec.preferred_anti_affinity}
    return _present(
        {
            "nodeAffinity": node,
            "podAffinity": _pod_terms(near),
            "podAntiAffinity": _pod_terms(apart),
        }
    )


def _node_term(term: NodeTerm) -> dict[str, Any]:
    return _present(
        {
            "matchExpressions": [show_requirement(one) for one in term.expressions],
            "matchFields": [show_requirement(one) for one in term.fields],
        }
    )


def _pod_terms(terms: dict[str, Any]) -> dict[str, Any]:
    return _present(
        {
            _REQUIRED: [_pod_term(one) for one in terms[_REQUIRED]],
            _PREFERRED: [
                {"weight": one.weight, "podAffinityTerm": _pod_term(one.term)}
                for one in terms[_PREFERRED]
            ],
        }
    )


def _pod_term(term: PodTerm) -> dict[str, Any]:
    shown: dict[str, Any] = {"topologyKey": term.topology_key}
    if term.selector is not None:
        shown["labelSelector"] = show_selector(term.selector)
    if term.namespaces:
        shown["namespaces"] = list(term.namespaces)
    if term.namespace_selector is not None:
        shown["namespaceSelector"] = show_selector(term.namespace_selector)
    return shown


def _spread(spread: Spread) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "topologyKey": spread.topology_key,
        "maxSkew": spread.max_skew,
        "whenUnsatisfiable": "DoNotSchedule" if spread.required else "ScheduleAnyway",
    }
    if spread.selector is not None:
        shown["labelSelector"] = show_selector(spread.selector)
    if spread.min_domains is not None:
        shown["minDomains"] = spread.min_domains
    if spread.match_label_keys:
        shown["matchLabelKeys"] = list(spread.match_label_keys)
    if spread.node_affinity_policy is not NodePolicy.HONOR:
        shown["nodeAffinityPolicy"] = str(spread.node_affinity_policy)
    if spread.node_taints_policy is not NodePolicy.IGNORE:
        shown["nodeTaintsPolicy"] = str(spread.node_taints_policy)
    return shown


def _volume(volume: PodVolume, pod_name: str, number: int) -> dict[str, Any]:
    if not volume.ephemeral:
        return {
            "name": f"volume-{number}",
            "persistentVolumeClaim": {"claimName": volume.claim},
        }
    template: dict[str, Any] = {}
    if volume.template_storage_class is not None:
        template["storageClassName"] = volume.template_storage_class
    return {
        "name": volume.claim.removeprefix(f"{pod_name}-"),
        "ephemeral": {"volumeClaimTemplate": {"spec": template}},
    }


def _status(pod: Pod) -> dict[str, Any]:
    shown: dict[str, Any] = {"phase": str(pod.phase)}
    if pod.started is not None:
        shown["startTime"] = show_instant(pod.started)
    if not pod.ready:
        shown["conditions"] = [{"type": "Ready", "status": "False"}]
    if pod.nominated_node:
        shown["nominatedNodeName"] = pod.nominated_node
    return shown
