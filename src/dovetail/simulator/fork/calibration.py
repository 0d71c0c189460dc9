"""Latencies of a cluster, from the times in its NodeClaims and pods."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from statistics import median
from typing import Final

import msgspec

from dovetail.model.frozen import FrozenDict
from dovetail.ports.api_resources import NODE_CLAIMS, PODS
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.controllermanager.owner_references import controller_of
from dovetail.simulator.fork.records import Records
from dovetail.simulator.fork.report import CalibratedLatency
from dovetail.simulator.fork.workloads import parse_time
from dovetail.simulator.kubelet.pod_status import readiness_delay
from dovetail.simulator.latencies import CloudLatencies, KubeletLatencies

_MAX: Final = timedelta(minutes=30)
"""A longer time is an accident: a pod that crashed, a node that lost its network."""
_MIN_SAMPLES: Final = 3
_MAX_WORKLOADS_REPORTED: Final = 20


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """Latencies of the simulation, and where they come from."""

    cloud: CloudLatencies
    kubelet: KubeletLatencies
    latencies: tuple[CalibratedLatency, ...]


def calibrate(records: Records) -> Calibration:
    """Return the medians of the recorded latencies; defaults where there are too few."""
    claims = list(records[NODE_CLAIMS].values())
    cloud, kubelet = CloudLatencies(), KubeletLatencies()
    launch = _measure("launch", (_between(claim, "", "Launched") for claim in claims), cloud.create_fleet)
    registration = _measure(
        "registration",
        (_between(claim, "Launched", "Registered") for claim in claims),
        cloud.start + cloud.boot,
    )
    initialization = _measure(
        "initialization",
        (_between(claim, "Registered", "Initialized") for claim in claims),
        kubelet.node_ready,
    )
    starts = _pod_starts(records)
    all_starts = [sample for _, _, sample in starts]
    default = kubelet.image_pull + kubelet.container_start
    pod_start = _measure("pod start", all_starts, default)
    boot = max(registration.value - cloud.start, timedelta(seconds=1))
    by_workload, container_starts = _measure_workloads(starts)
    return Calibration(
        cloud=msgspec.structs.replace(cloud, create_fleet=launch.value, boot=boot),
        kubelet=msgspec.structs.replace(
            kubelet,
            node_ready=initialization.value,
            container_start=pod_start.value if pod_start.samples else kubelet.container_start,
            image_pull=timedelta() if pod_start.samples else kubelet.image_pull,
            starts=container_starts,
            images=FrozenDict(dict.fromkeys(container_starts, timedelta())),
        ),
        latencies=(launch, registration, initialization, pod_start, *by_workload),
    )


def _measure(name: str, samples: Iterable[timedelta | None], default: timedelta) -> CalibratedLatency:
    measured = [sample for sample in samples if sample is not None and timedelta() <= sample <= _MAX]
    if len(measured) < _MIN_SAMPLES:
        return CalibratedLatency(name=name, value=default)
    return CalibratedLatency(name=name, value=_median(measured), samples=len(measured))


def _median(samples: Iterable[timedelta]) -> timedelta:
    return timedelta(seconds=round(median(sample.total_seconds() for sample in samples), 1))


def _between(claim: Object, earlier: str, later: str) -> timedelta | None:
    start = _transition(claim, earlier) if earlier else parse_time(claim["metadata"].get("creationTimestamp"))
    end = _transition(claim, later)
    return end - start if start is not None and end is not None else None


def _transition(obj: Object, condition_type: str) -> datetime | None:
    for condition in get_field(obj, "status", "conditions") or ():
        if isinstance(condition, dict) and condition.get("type") == condition_type:
            if condition.get("status") != "True":
                return None
            return parse_time(condition.get("lastTransitionTime"))
    return None


def _pod_starts(records: Records) -> list[tuple[str, tuple[str, ...], timedelta]]:
    """Return workload, images and time from binding to readiness of pods that never restarted."""
    starts = []
    for (namespace, name), pod in records[PODS].items():
        scheduled, ready = _transition(pod, "PodScheduled"), _transition(pod, "Ready")
        if scheduled is None or ready is None or not timedelta() <= ready - scheduled <= _MAX:
            continue
        statuses = get_field(pod, "status", "containerStatuses") or ()
        if any(isinstance(status, dict) and status.get("restartCount") for status in statuses):
            continue
        images = tuple(
            container["image"]
            for container in get_field(pod, "spec", "containers") or ()
            if isinstance(container, dict) and isinstance(container.get("image"), str)
        )
        # The kubelet adds the delay of the readiness probe by itself.
        start = max(ready - scheduled - timedelta(seconds=readiness_delay(pod)), timedelta())
        starts.append((f"{namespace}/{_workload(pod) or name}", images, start))
    return starts


def _workload(pod: Object) -> str:
    owner = controller_of(pod)
    if owner is None:
        return ""
    name: str = owner.get("name", "")
    template = (pod["metadata"].get("labels") or {}).get("pod-template-hash")
    return name.removesuffix(f"-{template}") if template else name


def _measure_workloads(
    starts: Iterable[tuple[str, tuple[str, ...], timedelta]],
) -> tuple[list[CalibratedLatency], FrozenDict[str, timedelta]]:
    """Return start times by workload, and by image as kubelets need them.

    The time from binding to readiness counts as start of the first container, image pull
    included. Of two workloads with one image the slower one decides.
    """
    by_workload: dict[str, list[timedelta]] = {}
    image_of: dict[str, str] = {}
    for workload, images, sample in starts:
        by_workload.setdefault(workload, []).append(sample)
        if images:
            image_of[workload] = images[0]
    reported, by_image = [], dict[str, timedelta]()
    for workload, samples in sorted(by_workload.items()):
        if len(samples) < _MIN_SAMPLES:
            continue
        value = _median(samples)
        reported.append(
            CalibratedLatency(name="pod start", value=value, samples=len(samples), scope=workload)
        )
        image = image_of.get(workload)
        if image is not None:
            by_image[image] = max(by_image.get(image, timedelta()), value)
    reported.sort(key=lambda latency: (-latency.samples, latency.scope))
    return reported[:_MAX_WORKLOADS_REPORTED], FrozenDict(by_image)
