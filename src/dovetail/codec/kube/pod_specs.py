"""Decoder of pod specs: requests and scheduling constraints."""

from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import msgspec

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.kube import label_validation
from dovetail.codec.kube.affinity import decode_affinity, decode_topology_spread
from dovetail.codec.kube.requirements import decode_tolerations
from dovetail.codec.quantities import decode_pod_resources, decode_resources
from dovetail.model import labels as label_keys
from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.pod import HostPort, PodSpec, PodVolume
from dovetail.model.kube.pod_requests import Container, PodResources
from dovetail.model.kube.resources import CPU, NO_RESOURCES, Resources

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

_POD_ONLY_FIELDS = frozenset(POD_FIELDS) - frozenset(_CONTAINER_FIELDS)
"""Fields that the API server rejects, or drops, in a container."""

_PLAIN_FIELDS = (
    "nodeSelector tolerations topologySpreadConstraints overhead resources resourceClaims hostNetwork os"
).split()
_PLACED_CONTAINER_FIELDS = ("name", "resources", "ports", "restartPolicy")

Allocations = Mapping[str, Resources]
"""Container name → resources that the kubelet has allocated."""
NO_ALLOCATIONS: Allocations = {}


def decode_pod_spec(
    field: Field,
    *,
    labels: FrozenDict[str, str] = EMPTY,
    pod_name: str = "",
    allocated: Allocations = NO_ALLOCATIONS,
    infeasible: bool = False,
) -> PodSpec:
    """Decode a pod spec; equal specs become one object.

    ``allocated`` and ``infeasible`` describe an in-place resize in progress.
    """
    # A cluster has thousands of pods of few templates: each template is decoded once.
    key = None
    if not field.context.strict:  # Strict decoding also reads fields that are not in the key.
        key = _cache_key(field.value, labels, pod_name, allocated, infeasible)
    return field.context.decode_cached(
        key, lambda: _decode_pod_spec(field, labels, pod_name, allocated, infeasible)
    )


def _cache_key(
    spec: Any, labels: FrozenDict[str, str], pod_name: str, allocated: Allocations, infeasible: bool
) -> bytes | None:
    """Return a digest of all fields that decoding reads; None if the spec is malformed."""
    try:
        volumes = [
            volume
            for volume in spec.get("volumes") or ()
            if "persistentVolumeClaim" in volume or "ephemeral" in volume
        ]
        affinity = spec.get("affinity")
        encoded = msgspec.json.encode(
            [
                *(spec.get(name) for name in _PLAIN_FIELDS),
                [
                    [[container.get(name) for name in _PLACED_CONTAINER_FIELDS] for container in containers]
                    for containers in (spec.get("containers") or (), spec.get("initContainers") or ())
                ],
                affinity,
                labels if affinity else None,
                volumes,
                pod_name if any("ephemeral" in volume for volume in volumes) else None,
                allocated,
                infeasible,
            ]
        )
        return blake2b(encoded, digest_size=16).digest()
    except (AttributeError, TypeError, ValueError, OverflowError, msgspec.MsgspecError):
        return None


def _decode_pod_spec(
    field: Field, labels: FrozenDict[str, str], pod_name: str, allocated: Allocations, infeasible: bool
) -> PodSpec:
    field.check_known_keys(POD_FIELDS)
    spec = PodSpec(
        requests=_decode_resources(field, allocated, infeasible).total(),
        node_selector=_decode_node_selector(field["nodeSelector"], field.at("os", "name")),
        **decode_affinity(field["affinity"], labels),
        spreads=decode_topology_spread(field["topologySpreadConstraints"]),
        tolerations=decode_tolerations(field["tolerations"]),
        host_ports=_decode_host_ports(field),
        volumes=_decode_volumes(field["volumes"], pod_name),
        needs_devices=bool(field["resourceClaims"].value),
    )
    shared: PodSpec = field.context.intern(spec)
    return shared


def _decode_node_selector(field: Field, os_name: Field) -> FrozenDict[str, str]:
    """Decode ``nodeSelector``; ``spec.os`` counts as one by operating system.

    kube-scheduler ignores ``spec.os``, but the kubelet of another system rejects the pod.
    """
    read = field.labels()
    if read and field.context.strict:
        for entry in field.entries():
            key = str(entry.key)
            if label_validation.check_key(entry, key) and label_validation.check_value(entry, read[key]):
                label_validation.check_well_known_value(entry, key, read[key])
                label_validation.note_old_label(entry, key)
    operating_system = os_name.text()
    if operating_system and label_keys.OS not in read:
        return FrozenDict({**read, label_keys.OS: operating_system})
    return read


def decode_template_resources(spec: Any) -> PodResources:
    """Decode the resources of a pod template (wire format), for admission.

    ``decode_pod_spec`` has reported its errors.
    """
    return _decode_resources(Field(spec, DecodeContext(strict=False)), NO_ALLOCATIONS, infeasible=False)


def _decode_resources(field: Field, allocated: Allocations, infeasible: bool) -> PodResources:
    containers = [_decode_container(item, allocated, infeasible) for item in field["containers"].items()]
    if field["containers"].value in (None, []) and field.context.strict:
        field["containers"].add_error("needs at least one container")
    init_containers = [
        _decode_container(item, allocated, infeasible) for item in field["initContainers"].items()
    ]
    return PodResources(
        containers=tuple(containers),
        init_containers=tuple(init_containers),
        overhead=decode_resources(field["overhead"]),
        pod_level=_decode_pod_level_requests(field["resources"], [*containers, *init_containers]),
        runtime_class=field.text_of("runtimeClassName"),
    )


def _decode_pod_level_requests(field: Field, containers: list[Container]) -> Resources:
    """Decode pod-level requests; limits replace requests that no container sets."""
    if not field.value:
        return NO_RESOURCES
    field.check_known_keys(("requests", "limits", "claims"))
    requests = decode_pod_resources(field["requests"])
    requested = {name for container in containers for name in container.requests}
    from_limits = {
        name: amount
        for name, amount in decode_pod_resources(field["limits"]).items()
        if name not in requested
    }
    return Resources({**from_limits, **requests})


def _decode_container(field: Field, allocated: Allocations, infeasible: bool) -> Container:
    if field.context.strict:
        field.check_known_keys(_CONTAINER_FIELDS)
        pod_fields = _POD_ONLY_FIELDS & field.value.keys() if isinstance(field.value, dict) else ()
        for key in sorted(pod_fields):
            field[key].add_error("is a field of the pod, not of a container; move it beside containers")
        field["name"].check_required()
    section = field["resources"]
    section.check_known_keys(("requests", "limits", "claims"))
    requests, limits = decode_pod_resources(section["requests"]), decode_pod_resources(section["limits"])
    _check_limits(section, requests, limits)
    allocation = allocated.get(field["name"].text(), NO_RESOURCES) if allocated else NO_RESOURCES
    sidecar = field["restartPolicy"].value == "Always"
    if infeasible and allocation:
        # The kubelet rejects the resize: the allocated resources stay in force.
        return Container(requests=allocation, is_sidecar=sidecar)
    read = Container(requests=requests, limits=limits, is_sidecar=sidecar, allocated=allocation)
    return read.with_default_requests() if limits else read


def _check_limits(section: Field, requests: Resources, limits: Resources) -> None:
    for name, limit in limits.items():
        request = requests.get(name, 0)
        if request > limit:
            entry = section["requests"][name]
            limit_value = section["limits"][name].value
            entry.add_error(f"{entry.value!r} is more than its limit {limit_value!r}")
        elif name != CPU and "/" in name and name in requests and request != limit:
            section["limits"][name].add_error(
                "must equal the request: extended resources cannot be overcommitted"
            )


def _decode_host_ports(field: Field) -> tuple[HostPort, ...]:
    ports: dict[HostPort, None] = {}
    on_host = field["hostNetwork"].boolean()
    for name in ("containers", "initContainers"):
        for container in field[name].items():
            if not container["ports"].value:
                continue
            if name == "initContainers" and container["restartPolicy"].value != "Always":
                continue
            for port in container["ports"].items():
                host_port = _decode_host_port(port, on_host)
                if host_port is not None:
                    ports[host_port] = None
    return tuple(ports)


def _decode_host_port(field: Field, on_host: bool) -> HostPort | None:
    field.check_known_keys(("name", "containerPort", "hostPort", "hostIP", "protocol"))
    number = field["hostPort"].integer(low=0, high=65535)
    if not number and on_host:
        number = field["containerPort"].integer(low=1, high=65535)
    if not number:
        return None
    protocol = field["protocol"].choice(("TCP", "UDP", "SCTP"), "TCP", "protocol")
    return HostPort(number, protocol, field["hostIP"].text() or HostPort(1).ip)


def _decode_volumes(field: Field, pod_name: str) -> tuple[PodVolume, ...]:
    """Decode volumes backed by a claim; others do not constrain scheduling."""
    volumes = []
    for volume in field.items():
        if volume["persistentVolumeClaim"].value:
            name = volume["persistentVolumeClaim"]["claimName"]
            name.check_required()
            volumes.append(PodVolume(name.text()))
        elif volume["ephemeral"].value:
            template = volume.at("ephemeral", "volumeClaimTemplate", "spec", "storageClassName")
            claim = f"{pod_name}-{volume['name'].text()}"
            chosen = template.text() if template else None
            volumes.append(PodVolume(claim, ephemeral=True, template_storage_class=chosen))
    return tuple(volumes)
