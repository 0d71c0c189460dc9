"""The pods of a Job, held until they are counted."""

from typing import Any, Final

from dovetail.simulator.apiserver.storage.frozen_object import Object, freeze
from dovetail.simulator.controllermanager.job.indexed import INDEX
from dovetail.simulator.controllermanager.pods.pod_template import pod_from

TRACKED: Final = "batch.kubernetes.io/job-tracking"
"""Keeps a pod of a Job until its end is counted."""


def is_tracked(pod: Object) -> bool:
    """Tell whether a pod is held until its Job has counted it."""
    return TRACKED in (pod["metadata"].get("finalizers") or ())


def job_pod(job: Object, index: int | None) -> Object:
    """Return a pod to create; ``index`` is the part of the work it does, if they have numbers."""
    pod = pod_from(job["spec"]["template"], job)
    meta: dict[str, Any] = {
        **pod["metadata"],
        "finalizers": [*(pod["metadata"].get("finalizers") or ()), TRACKED],
    }
    spec = pod["spec"]
    if index is not None:
        name = f"{job['metadata']['name']}-{index}"
        meta["generateName"] = f"{name}-"
        meta["annotations"] = {**(meta.get("annotations") or {}), INDEX: str(index)}
        meta["labels"] = {**meta["labels"], INDEX: str(index)}
        spec = {**spec, "hostname": name}
    made: Object = freeze({"metadata": meta, "spec": spec})
    return made
