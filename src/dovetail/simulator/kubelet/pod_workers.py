"""What kubelets do to pods: take them on, start them, stop them."""

from collections.abc import Callable
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any, Final

from dovetail.codec.fields import Field, Findings
from dovetail.codec.kube.pod_specs import pod_spec
from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.resources import CPU, Resources
from dovetail.ports.api_resources import PODS
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.delete import DeleteOptions
from dovetail.simulator.apiserver.interface import Verbs
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.clock import Engine
from dovetail.simulator.kubelet import pod_status
from dovetail.simulator.kubelet.latencies import Waits
from dovetail.simulator.kubelet.local_state import Job, Kubelet

RUN_SECONDS: Final = "sandbox.dovetail/run-seconds"
EXIT_CODE: Final = "sandbox.dovetail/exit-code"
"""What the containers exit with when they have run; anything but 0 is a failure."""
STOP_SECONDS: Final = "sandbox.dovetail/stop-seconds"

_JOB_RUNS: Final = 30.0
_TERMINAL: Final = ("Succeeded", "Failed")
_FIRST_BACK_OFF: Final = timedelta(seconds=10)
_LONGEST_BACK_OFF: Final = timedelta(minutes=5)


class PodWork:
    """Runs the pods of all kubelets."""

    def __init__(self, api: Verbs, engine: Engine, waits: Waits) -> None:
        self._api = api
        self._engine = engine
        self._waits = waits
        self._addresses = count(1)
        self._shared: dict[Any, Any] = {}

    def sync(self, kubelet: Kubelet, heard: Object) -> None:
        """Do what a pod bound to this node needs next."""
        uid = heard["metadata"]["uid"]
        job = kubelet.jobs.get(uid)
        if job is not None and "deletionTimestamp" not in heard["metadata"]:
            return
        # What was heard of may be over by now, at this same instant.
        pod = self._read(heard["metadata"]["name"], heard["metadata"]["namespace"], uid)
        if pod is None:
            return
        if "deletionTimestamp" in pod["metadata"]:
            if job is not None:
                self._plan_stop(kubelet, job, pod)
            else:
                self._delete(pod)
        elif pod["status"].get("phase") not in _TERMINAL:
            self._admit(kubelet, pod)

    def drop(self, kubelet: Kubelet, uid: str) -> None:
        """Forget a pod that is gone."""
        job = kubelet.jobs.pop(uid, None)
        if job is not None:
            kubelet.take(job, -1)
            if job.next is not None:
                job.next.cancel()

    def _admit(self, kubelet: Kubelet, pod: Object) -> None:
        job = Job(pod, self._requests(pod))
        now = self._engine.now()
        lacking = kubelet.short_of(job.requests)
        if lacking is not None:
            asked, used = job.requests[lacking], kubelet.used.get(lacking, 0)
            room = kubelet.machine.allocatable.get(lacking, 0)
            unit = "" if lacking != CPU else "m"
            message = (
                f"Node didn't have enough resource: {lacking}, requested: {asked}{unit}, "
                f"used: {used}{unit}, capacity: {room}{unit}"
            )
            reason = f"OutOf{lacking}"
            self._write(pod, pod_status.rejected(pod, now=now, reason=reason, message=message))
            return
        kubelet.jobs[job.uid] = job
        kubelet.take(job)
        self._write(pod, pod_status.starting(pod, now=now, host_ip=kubelet.machine.address))
        self._soon(job, self._start_time(kubelet, pod), partial(self._start, kubelet, job))

    def _requests(self, pod: Object) -> Resources:
        meta = pod["metadata"]
        root = Field(pod, Findings(written_by_hand=False, pool=self._shared))
        labels = FrozenDict(meta["labels"]) if "labels" in meta else EMPTY
        return pod_spec(root["spec"], labels=labels, pod_name=meta["name"]).requests

    def _start_time(self, kubelet: Kubelet, pod: Object) -> timedelta:
        """Return how long until the containers run: network, images, one start after another."""
        now = self._engine.now()
        # Without a network plugin only pods on the host's own network can start.
        on_host = pod["spec"].get("hostNetwork")
        begin = now if on_host else max(now, kubelet.ready_at)
        ready = begin
        for image in pod_status.images(pod):
            there = kubelet.images.get(image)
            if there is None or there > begin:
                pulled = begin + self._waits.of(self._waits.usual.pull(image))
                there = pulled if there is None else min(there, pulled)
                kubelet.images[image] = there
            ready = max(ready, there)
        starts = pod_status.stages(pod) * self._waits.usual.container_start
        return ready - now + self._waits.of(starts)

    def _start(self, kubelet: Kubelet, job: Job) -> None:
        delay = 0

        def status(pod: Object) -> dict[str, Any]:
            nonlocal delay
            delay = pod_status.ready_delay(pod)
            return pod_status.running(
                pod,
                now=self._engine.now(),
                pod_ip=self._address(kubelet, pod),
                ready=not delay,
                restarts=job.restarts,
            )

        job.started = True
        pod = self._advance(kubelet, job, status)
        if pod is None:
            return
        if delay:
            self._soon(job, timedelta(seconds=delay), partial(self._become_ready, kubelet, job))
        else:
            self._plan_end(kubelet, job, pod)

    def _become_ready(self, kubelet: Kubelet, job: Job) -> None:
        def status(pod: Object) -> dict[str, Any]:
            now, address = self._engine.now(), pod["status"]["podIP"]
            return pod_status.running(
                pod, now=now, pod_ip=address, ready=True, restarts=job.restarts
            )

        pod = self._advance(kubelet, job, status)
        if pod is not None:
            self._plan_end(kubelet, job, pod)

    def _address(self, kubelet: Kubelet, pod: Object) -> str:
        if pod["spec"].get("hostNetwork"):
            return kubelet.machine.address
        number = next(self._addresses)
        return f"10.{64 + (number >> 16) % 64}.{number >> 8 & 255}.{number & 255}"

    def _plan_end(self, kubelet: Kubelet, job: Job, pod: Object) -> None:
        """Arrange for containers that run to an end to reach it."""
        if pod["spec"].get("restartPolicy") == "Always":
            return
        owners = pod["metadata"].get("ownerReferences") or ()
        usual = _JOB_RUNS if any(one["kind"] == "Job" for one in owners) else None
        seconds = _number(pod, RUN_SECONDS, usual)
        if seconds is not None:
            self._soon(job, timedelta(seconds=seconds), partial(self._end, kubelet, job))

    def _end(self, kubelet: Kubelet, job: Job) -> None:
        pod = self._current(kubelet, job)
        if pod is None:
            return
        code = int(_number(pod, EXIT_CODE, 0) or 0)
        if code and pod["spec"].get("restartPolicy") == "OnFailure":
            wait = min(_FIRST_BACK_OFF * 2**job.restarts, _LONGEST_BACK_OFF)
            job.restarts += 1
            self._soon(job, wait, partial(self._start, kubelet, job))
            return
        self.drop(kubelet, job.uid)
        self._write(pod, pod_status.ended(pod, now=self._engine.now(), exit_code=code))

    def _plan_stop(self, kubelet: Kubelet, job: Job, pod: Object) -> None:
        """Arrange for a pod to stop; a shorter grace than before moves that up."""
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds") or 0)
        usual = self._waits.of(self._waits.usual.stop).total_seconds() if job.started else 0.0
        takes = min(_number(pod, STOP_SECONDS, usual) or 0.0, grace) if job.started else 0.0
        at = self._engine.now() + timedelta(seconds=takes)
        if job.stops_at is not None and job.stops_at <= at:
            return
        job.stops_at = at
        self._soon(job, at - self._engine.now(), partial(self._stop, kubelet, job))

    def _stop(self, kubelet: Kubelet, job: Job) -> None:
        pod = self._current(kubelet, job)
        self.drop(kubelet, job.uid)
        if pod is None:
            return
        if pod["metadata"].get("finalizers"):
            # Somebody wants to see how it ended before it goes.
            owners = pod["metadata"].get("ownerReferences") or ()
            code = 143 if any(one["kind"] == "Job" for one in owners) else 0
            status = pod_status.ended(pod, now=self._engine.now(), exit_code=code)
            pod = self._write(pod, status)
        self._delete(pod)

    def _delete(self, pod: Object) -> None:
        meta = pod["metadata"]
        if not meta.get("deletionGracePeriodSeconds"):
            return  # It has stopped; only finalizers hold it.
        options = DeleteOptions(grace_seconds=0, uid=meta["uid"])
        self._api.delete(PODS, meta["name"], meta["namespace"], options=options)

    def _advance(
        self, kubelet: Kubelet, job: Job, status: Callable[[Object], dict[str, Any]]
    ) -> Object | None:
        pod = self._current(kubelet, job)
        return None if pod is None else self._write(pod, status(pod))

    def _current(self, kubelet: Kubelet, job: Job) -> Object | None:
        """Return the pod as it is now; None when this kubelet has no more say in it."""
        return None if kubelet.silent else self._read(*job.key, job.uid)

    def _read(self, name: str, namespace: str, uid: str) -> Object | None:
        try:
            pod = self._api.get(PODS, name, namespace)
        except NotFound:
            return None
        return pod if pod["metadata"]["uid"] == uid else None

    def _write(self, pod: Object, status: dict[str, Any]) -> Object:
        return self._api.update(PODS, {**pod, "status": status}, subresource="status")

    def _soon(self, job: Job, wait: timedelta, step: Callable[[], None]) -> None:
        if job.next is not None:
            job.next.cancel()
        job.next = self._engine.after(wait, step)


def _number(pod: Object, annotation: str, usual: float | None) -> float | None:
    """Read a number from an annotation; what is no number of ours counts as absent."""
    text = (pod["metadata"].get("annotations") or {}).get(annotation)
    try:
        number = float(text) if text is not None else None
    except ValueError:
        return usual
    return usual if number is None or not 0 <= number < 1e9 else number
