"""Pod workers: admit, start and stop the pods of kubelets."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any, Final

from dovetail.codec.fields import BoundedCache, DecodeContext, Field
from dovetail.codec.kube.pod_specs import decode_pod_spec
from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.resources import CPU, Resources
from dovetail.ports.api_resources import PODS
from dovetail.simulator.apiserver.interface import ApiClient, find_object
from dovetail.simulator.apiserver.options import DeleteOptions
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.kubelet import pod_status
from dovetail.simulator.kubelet.local_state import Kubelet, PodWorker
from dovetail.simulator.latencies import LatencySampler

RUN_SECONDS: Final = "dovetail.sh/run-seconds"
EXIT_CODE: Final = "dovetail.sh/exit-code"
"""Exit code of the containers; anything but 0 is a failure."""
STOP_SECONDS: Final = "dovetail.sh/stop-seconds"

_HELM_HOOK: Final = "helm.sh/hook"
"""Annotation of pods whose end ``helm install`` or ``helm test`` waits for."""
_TASK_DURATION: Final = 30.0
"""Seconds that a pod of a Job or of a Helm hook runs, without the annotation."""
_TERMINAL: Final = ("Succeeded", "Failed")
_INITIAL_BACKOFF: Final = timedelta(seconds=10)
_MAX_BACKOFF: Final = timedelta(minutes=5)


class PodWorkers:
    """Runs the pods of all kubelets."""

    def __init__(self, api: ApiClient, clock: VirtualClock, sampler: LatencySampler) -> None:
        self._api = api
        self._clock = clock
        self._sampler = sampler
        self._addresses = count(1)
        self._decode_cache = BoundedCache()

    def sync(self, kubelet: Kubelet, observed: Object) -> None:
        """Take the next step for a pod that is bound to a node."""
        uid = observed["metadata"]["uid"]
        worker = kubelet.pod_workers.get(uid)
        if worker is not None and "deletionTimestamp" not in observed["metadata"]:
            return
        # The event may be stale: the pod may have changed at this same instant.
        pod = self._get_pod(observed["metadata"]["name"], observed["metadata"]["namespace"], uid)
        if pod is None:
            return
        if "deletionTimestamp" in pod["metadata"]:
            if worker is not None:
                self._schedule_stop(kubelet, worker, pod)
            else:
                self._delete(pod)
        elif pod["status"].get("phase") not in _TERMINAL:
            self._admit(kubelet, pod)

    def remove(self, kubelet: Kubelet, uid: str) -> None:
        """Drop a deleted pod and release its resources."""
        worker = kubelet.pod_workers.pop(uid, None)
        if worker is not None:
            kubelet.reserve(worker, -1)
            if worker.next_step is not None:
                worker.next_step.cancel()

    def adopt(self, kubelet: Kubelet, pod: Object, *, becomes_ready: bool) -> None:
        """Take over a pod that runs already, as it is.

        A pod that is still starting or not ready becomes ready only if ``becomes_ready``.
        """
        status = pod["status"]
        if status.get("phase") in _TERMINAL:
            return
        worker = PodWorker(pod, self._requests(pod))
        worker.started = status.get("phase") == "Running"
        kubelet.pod_workers[worker.uid] = worker
        kubelet.reserve(worker)
        for image in pod_status.image_names(pod):
            kubelet.images[image] = self._clock.now()
        if "deletionTimestamp" in pod["metadata"]:
            self._schedule_stop(kubelet, worker, pod)
        elif not worker.started:
            if becomes_ready:
                self._schedule(worker, self._start_time(kubelet, pod), partial(self._start, kubelet, worker))
        elif pod_status.is_ready(pod):
            self._schedule_completion(kubelet, worker, pod)
        elif becomes_ready:
            delay = timedelta(seconds=pod_status.readiness_delay(pod))
            self._schedule(worker, delay, partial(self._report_ready, kubelet, worker))

    def _admit(self, kubelet: Kubelet, pod: Object) -> None:
        worker = PodWorker(pod, self._requests(pod))
        now = self._clock.now()
        resource = kubelet.insufficient_resource(worker.requests)
        if resource is not None:
            requested, used = worker.requests[resource], kubelet.used.get(resource, 0)
            capacity = kubelet.instance.allocatable.get(resource, 0)
            unit = "" if resource != CPU else "m"
            message = (
                f"Node didn't have enough resource: {resource}, requested: {requested}{unit}, "
                f"used: {used}{unit}, capacity: {capacity}{unit}"
            )
            reason = f"OutOf{resource}"
            self._write(pod, pod_status.rejected(pod, now=now, reason=reason, message=message))
            return
        kubelet.pod_workers[worker.uid] = worker
        kubelet.reserve(worker)
        self._write(pod, pod_status.starting(pod, now=now, host_ip=kubelet.instance.address))
        self._schedule(worker, self._start_time(kubelet, pod), partial(self._start, kubelet, worker))

    def _requests(self, pod: Object) -> Resources:
        meta = pod["metadata"]
        root = Field(pod, DecodeContext(strict=False, cache=self._decode_cache))
        labels = FrozenDict(meta["labels"]) if "labels" in meta else EMPTY
        return decode_pod_spec(root["spec"], labels=labels, pod_name=meta["name"]).requests

    def _start_time(self, kubelet: Kubelet, pod: Object) -> timedelta:
        """Return the time until the containers run: network, image pulls, starts."""
        now = self._clock.now()
        # Without a network plugin only pods with hostNetwork can start.
        uses_host_network = pod["spec"].get("hostNetwork")
        network_ready = now if uses_host_network else max(now, kubelet.ready_at)
        ready, latencies = network_ready, self._sampler.latencies
        for image in pod_status.image_names(pod):
            pulled_at = kubelet.images.get(image)
            if pulled_at is None or pulled_at > network_ready:
                pull_done = network_ready + self._sampler.sample(
                    latencies.images.get(image, latencies.image_pull)
                )
                pulled_at = pull_done if pulled_at is None else min(pulled_at, pull_done)
                kubelet.images[image] = pulled_at
            ready = max(ready, pulled_at)
        starts = pod_status.sequential_starts(pod) * latencies.container_start
        if latencies.starts:
            images = pod_status.image_names(pod)
            starts = max(starts, *(latencies.starts.get(image, starts) for image in images))
        return ready - now + self._sampler.sample(starts)

    def _start(self, kubelet: Kubelet, worker: PodWorker) -> None:
        delay = 0

        def status(pod: Object) -> dict[str, Any]:
            nonlocal delay
            delay = pod_status.readiness_delay(pod)
            return pod_status.running(
                pod,
                now=self._clock.now(),
                pod_ip=self._address(kubelet, pod),
                ready=not delay,
                restarts=worker.restarts,
            )

        worker.started = True
        pod = self._update_status(kubelet, worker, status)
        if pod is None:
            return
        if delay:
            self._schedule(worker, timedelta(seconds=delay), partial(self._report_ready, kubelet, worker))
        else:
            self._schedule_completion(kubelet, worker, pod)

    def _report_ready(self, kubelet: Kubelet, worker: PodWorker) -> None:
        def status(pod: Object) -> dict[str, Any]:
            now, address = self._clock.now(), pod["status"].get("podIP", "")
            return pod_status.running(pod, now=now, pod_ip=address, ready=True, restarts=worker.restarts)

        pod = self._update_status(kubelet, worker, status)
        if pod is not None:
            self._schedule_completion(kubelet, worker, pod)

    def _address(self, kubelet: Kubelet, pod: Object) -> str:
        if pod["spec"].get("hostNetwork"):
            return kubelet.instance.address
        number = next(self._addresses)
        return f"10.{64 + (number >> 16) % 64}.{number >> 8 & 255}.{number & 255}"

    def _schedule_completion(self, kubelet: Kubelet, worker: PodWorker, pod: Object) -> None:
        """Schedule the end of containers that run to completion."""
        if pod["spec"].get("restartPolicy") == "Always":
            return
        seconds = _annotation_number(pod, RUN_SECONDS, _TASK_DURATION if _is_task(pod) else None)
        if seconds is not None:
            self._schedule(worker, timedelta(seconds=seconds), partial(self._complete, kubelet, worker))

    def _complete(self, kubelet: Kubelet, worker: PodWorker) -> None:
        pod = self._get_current(kubelet, worker)
        if pod is None:
            return
        code = int(_annotation_number(pod, EXIT_CODE, 0) or 0)
        if code and pod["spec"].get("restartPolicy") == "OnFailure":
            wait = min(_INITIAL_BACKOFF * 2**worker.restarts, _MAX_BACKOFF)
            worker.restarts += 1
            self._schedule(worker, wait, partial(self._start, kubelet, worker))
            return
        self.remove(kubelet, worker.uid)
        self._write(pod, pod_status.terminated(pod, now=self._clock.now(), exit_code=code))

    def _schedule_stop(self, kubelet: Kubelet, worker: PodWorker, pod: Object) -> None:
        """Schedule the stop of a pod; a shorter grace period brings it forward."""
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        default = (
            self._sampler.sample(self._sampler.latencies.stop).total_seconds() if worker.started else 0.0
        )
        stop_seconds = (
            min(_annotation_number(pod, STOP_SECONDS, default) or 0.0, grace) if worker.started else 0.0
        )
        at = self._clock.now() + timedelta(seconds=stop_seconds)
        if worker.stops_at is not None and worker.stops_at <= at:
            return
        worker.stops_at = at
        self._schedule(worker, at - self._clock.now(), partial(self._stop, kubelet, worker))

    def _stop(self, kubelet: Kubelet, worker: PodWorker) -> None:
        pod = self._get_current(kubelet, worker)
        self.remove(kubelet, worker.uid)
        if pod is None:
            return
        if pod["metadata"].get("finalizers"):
            # A finalizer's owner needs the final status before the pod is deleted.
            owners = pod["metadata"].get("ownerReferences") or ()
            code = 143 if any(owner["kind"] == "Job" for owner in owners) else 0
            status = pod_status.terminated(pod, now=self._clock.now(), exit_code=code)
            pod = self._write(pod, status)
        self._delete(pod)

    def _delete(self, pod: Object) -> None:
        meta = pod["metadata"]
        if not meta.get("deletionGracePeriodSeconds"):
            return  # It has stopped; only finalizers keep it.
        options = DeleteOptions(grace_period_seconds=0, uid=meta["uid"])
        self._api.delete(PODS, meta["name"], meta["namespace"], options=options)

    def _update_status(
        self, kubelet: Kubelet, worker: PodWorker, status: Callable[[Object], dict[str, Any]]
    ) -> Object | None:
        pod = self._get_current(kubelet, worker)
        return None if pod is None else self._write(pod, status(pod))

    def _get_current(self, kubelet: Kubelet, worker: PodWorker) -> Object | None:
        """Return the current pod; None if this kubelet no longer runs it."""
        return None if kubelet.unresponsive else self._get_pod(*worker.key, worker.uid)

    def _get_pod(self, name: str, namespace: str, uid: str) -> Object | None:
        pod = find_object(self._api, PODS, name, namespace)
        return pod if pod is not None and pod["metadata"]["uid"] == uid else None

    def _write(self, pod: Object, status: dict[str, Any]) -> Object:
        return self._api.update(PODS, {**pod, "status": status}, subresource="status")

    def _schedule(self, worker: PodWorker, wait: timedelta, step: Callable[[], None]) -> None:
        if worker.next_step is not None:
            worker.next_step.cancel()
        worker.next_step = self._clock.call_later(wait, step)


def _is_task(pod: Object) -> bool:
    """Return True if a controller or Helm waits for the end of a pod."""
    meta = pod["metadata"]
    owners = meta.get("ownerReferences") or ()
    return any(owner["kind"] == "Job" for owner in owners) or _HELM_HOOK in (meta.get("annotations") or {})


def _annotation_number(pod: Object, annotation: str, default: float | None) -> float | None:
    """Decode a number from an annotation; an invalid one counts as absent."""
    text = (pod["metadata"].get("annotations") or {}).get(annotation)
    try:
        number = float(text) if text is not None else None
    except ValueError:
        return default
    return default if number is None or not 0 <= number < 1e9 else number
