"""Pod specs on the wire: what a pod asks of a node."""

from collections.abc import Mapping
from typing import Any

import msgspec

from dovetail.codec.fields import Field
from dovetail.codec.kube import label_validation
from dovetail.codec.kube.affinity import affinity, spreads
from dovetail.codec.kube.requirements import tolerations
from dovetail.codec.quantities import pod_resources, resources
from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.pod import HostPort, PodSpec, PodVolume
from dovetail.model.kube.pod_requests import Container, pod_requests
from dovetail.model.kube.resources import CPU, NOTHING, Resources

POD_FIELDS = (
    "containers initContainers ephemeralContainers volumes nodeSelector nodeName affinity "
    "tolerations topologySpreadConstraints schedulerName priority priorityClassName overhead "
    "resources resourceClaims hostNetwork restartPolicy serviceAccountName serviceAccount "
    "terminationGracePeriodSeconds securityContext schedulingGates runtimeClassName os "
    "activeDeadlineSeconds dnsPolicy dnsConfig hostAliases hostIPC hostPID hostUsers hostname "
    "imagePullSecrets automountServiceAccountToken enableServiceLinks preemptionPolicy "
    "readinessGates setHostnameAsFQDN shareProcessNamespace subdomain hostnameOverride"
).split()
_CONTAINER_FIELDS = (
    "name image command args env envFrom ports resources volumeMounts volumeDevices "
    "livenessProbe readinessProbe startupProbe lifecycle imagePullPolicy restartPolicy "
    "securityContext stdin stdinOnce tty workingDir terminationMessagePath "
    "terminationMessagePolicy resizePolicy restartPolicyRules"
).split()

_PLAIN_FIELDS = (
    "nodeSelector tolerations topologySpreadConstraints overhead resources resourceClaims "
    "hostNetwork"
).split()
_PLACED_CONTAINER_FIELDS = ("name", "resources", "ports", "restartPolicy")

Allocations = Mapping[str, Resources]
"""Container name → what the kubelet has granted it."""
NO_ALLOCATIONS: Allocations = {}


def pod_spec(
    field: Field,
    *,
    labels: FrozenDict[str, str] = EMPTY,
    pod_name: str = "",
    allocated: Allocations = NO_ALLOCATIONS,
    infeasible: bool = False,
) -> PodSpec:
    """Read a pod spec; equal ones become one object.

    ``allocated`` and ``infeasible`` tell of an in-place resize under way.
    """
    findings = field.findings
    if findings.written_by_hand:
        return _pod_spec(field, labels, pod_name, allocated, infeasible)
    # Dumps hold thousands of copies of few templates: each is understood once.
    key = _fingerprint(field.value, labels, pod_name, allocated, infeasible)
    known: PodSpec | None = findings.remembered(key) if key else None
    if known is not None:
        return known
    before = len(findings.found)
    read = _pod_spec(field, labels, pod_name, allocated, infeasible)
    if key and len(findings.found) == before:
        findings.remember(key, read)
    return read


def _fingerprint(
    spec: Any,
    labels: FrozenDict[str, str],
    pod_name: str,
    allocated: Allocations,
    infeasible: bool,
) -> bytes | None:
    """Return all that reading a spec looks at, as bytes; None if it is malformed."""
    try:
        volumes = [
            one
            for one in spec.get("volumes") or ()
            if "persistentVolumeClaim" in one or "ephemeral" in one
        ]
        affinity_ = spec.get("affinity")
        return msgspec.json.encode(
            [
                *(spec.get(name) for name in _PLAIN_FIELDS),
                [
                    [[one.get(name) for name in _PLACED_CONTAINER_FIELDS] for one in containers]
                    for containers in (
                        spec.get("containers") or (),
                        spec.get("initContainers") or (),
                    )
                ],
                affinity_,
                labels if affinity_ else None,
                volumes,
                pod_name if any("ephemeral" in one for one in volumes) else None,
                allocated,
                infeasible,
            ]
        )
    except (AttributeError, TypeError, ValueError, OverflowError, msgspec.MsgspecError):
        return None


def _pod_spec(
    field: Field,
    labels: FrozenDict[str, str],
    pod_name: str,
    allocated: Allocations,
    infeasible: bool,
) -> PodSpec:
    field.known_keys(POD_FIELDS)
    wishes = affinity(field["affinity"], labels)
    spec = PodSpec(
        requests=_requests(field, allocated, infeasible),
        node_selector=_node_selector(field["nodeSelector"]),
        node_terms=wishes.node_terms,
        preferred_node_terms=wishes.preferred_node_terms,
        affinity=wishes.affinity,
        anti_affinity=wishes.anti_affinity,
        preferred_affinity=wishes.preferred_affinity,
        preferred_anti_affinity=wishes.preferred_anti_affinity,
        spreads=spreads(field["topologySpreadConstraints"]),
        tolerations=tolerations(field["tolerations"]),
        host_ports=_host_ports(field),
        volumes=_volumes(field["volumes"], pod_name),
        needs_devices=bool(field["resourceClaims"].value),
    )
    shared: PodSpec = field.findings.shared(spec)
    return shared


def _node_selector(field: Field) -> FrozenDict[str, str]:
    read = field.labels()
    if read and field.findings.written_by_hand:
        for entry in field.entries():
            key = str(entry.key)
            if label_validation.check_key(entry, key) and label_validation.check_value(
                entry, read[key]
            ):
                label_validation.check_meaning(entry, key, read[key])
    return read


def _requests(field: Field, allocated: Allocations, infeasible: bool) -> Resources:
    containers = [_container(one, allocated, infeasible) for one in field["containers"].items()]
    if field["containers"].value in (None, []) and field.findings.written_by_hand:
        field["containers"].mistake("needs at least one container")
    started_before = [
        _container(one, allocated, infeasible) for one in field["initContainers"].items()
    ]
    return pod_requests(
        containers,
        started_before,
        overhead=resources(field["overhead"]),
        pod_level=_pod_level(field["resources"], [*containers, *started_before]),
    )


def _pod_level(field: Field, containers: list[Container]) -> Resources:
    """Read pod-level requests; a limit stands in where nobody requests anything."""
    if not field.value:
        return NOTHING
    field.known_keys(("requests", "limits", "claims"))
    requests = pod_resources(field["requests"])
    named = {name for one in containers for name in one.requests}
    from_limits = {
        name: amount for name, amount in pod_resources(field["limits"]).items() if name not in named
    }
    return Resources({**from_limits, **requests})


def _container(field: Field, allocated: Allocations, infeasible: bool) -> Container:
    if field.findings.written_by_hand:
        field.known_keys(_CONTAINER_FIELDS)
        field["name"].required()
    demands = field["resources"]
    demands.known_keys(("requests", "limits", "claims"))
    requests, limits = pod_resources(demands["requests"]), pod_resources(demands["limits"])
    _check_limits(demands, requests, limits)
    granted = allocated.get(field["name"].text(), NOTHING) if allocated else NOTHING
    sidecar = field["restartPolicy"].value == "Always"
    if infeasible and granted:
        # The node has refused the resize for good: what it granted is what counts.
        return Container(requests=granted, sidecar=sidecar)
    read = Container(requests=requests, limits=limits, sidecar=sidecar, allocated=granted)
    return read.defaulted() if limits else read


def _check_limits(demands: Field, requests: Resources, limits: Resources) -> None:
    for name, limit in limits.items():
        asked = requests.get(name, 0)
        if asked > limit:
            spot = demands["requests"][name]
            spot.mistake(f"{spot.value!r} is more than its limit {demands['limits'][name].value!r}")
        elif name != CPU and "/" in name and name in requests and asked != limit:
            demands["limits"][name].mistake("must equal the request: such things are not shared")


def _host_ports(field: Field) -> tuple[HostPort, ...]:
    found: dict[HostPort, None] = {}
    on_host = field["hostNetwork"].boolean()
    for name in ("containers", "initContainers"):
        for container in field[name].items():
            if not container["ports"].value:
                continue
            if name == "initContainers" and container["restartPolicy"].value != "Always":
                continue
            for port in container["ports"].items():
                one = _host_port(port, on_host)
                if one is not None:
                    found[one] = None
    return tuple(found)


def _host_port(field: Field, on_host: bool) -> HostPort | None:
    field.known_keys(("name", "containerPort", "hostPort", "hostIP", "protocol"))
    number = field["hostPort"].whole(low=0, high=65535)
    if not number and on_host:
        number = field["containerPort"].whole(low=1, high=65535)
    if not number:
        return None
    protocol = field["protocol"].choice(("TCP", "UDP", "SCTP"), "TCP", "protocol")
    return HostPort(number, protocol, field["hostIP"].text() or HostPort(1).ip)


def _volumes(field: Field, pod_name: str) -> tuple[PodVolume, ...]:
    """Read the volumes that a claim backs; the others make no demands on a node."""
    found = []
    for one in field.items():
        if one["persistentVolumeClaim"].value:
            name = one["persistentVolumeClaim"]["claimName"]
            name.required()
            found.append(PodVolume(name.text()))
        elif one["ephemeral"].value:
            template = one.at("ephemeral", "volumeClaimTemplate", "spec", "storageClassName")
            claim = f"{pod_name}-{one['name'].text()}"
            chosen = template.text() if template else None
            found.append(PodVolume(claim, ephemeral=True, template_storage_class=chosen))
    return tuple(found)
