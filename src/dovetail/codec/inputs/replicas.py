"""Replicas: the pods and volume claims that a workload creates."""

from collections.abc import Iterable, Iterator
from itertools import count

import msgspec

from dovetail.codec.kube.workloads import TEMPLATE_HASH, Workload
from dovetail.model.kube.pod import Pod, PodVolume
from dovetail.model.kube.storage import PersistentVolumeClaim

WORKLOADS = ("Deployment", "Rollout", "ReplicaSet", "ReplicationController", "StatefulSet", "Job", "CronJob")
WITH_REPLICA_SETS = ("Deployment", "Rollout")
"""Workloads whose pods belong to ReplicaSets."""
_JOB_LABELS = ("job-name", "batch.kubernetes.io/job-name")


class ReplicaFactory:
    """Creates pods with readable, unique names: ``<workload>-<number>``.

    Numbers start at 0 for a StatefulSet, as in Kubernetes, and at 1 for other
    workloads, whose names are random in Kubernetes.
    """

    def __init__(self, used_names: Iterable[str] = ()) -> None:
        """``used_names`` are ``namespace/name``."""
        self._used_names = set(used_names)

    def create_pods(self, workload: Workload, replicas: int) -> Iterator[Pod]:
        """Yield pods; they share everything but their names and those of their claims."""
        template = workload.pod
        if template.owner is not None and template.owner.kind == "Job":
            job_labels = dict.fromkeys(_JOB_LABELS, workload.name)
            template = msgspec.structs.replace(template, labels=template.labels.with_items(job_labels))
        created, numbers = 0, count(workload.first_ordinal)
        while created < replicas:
            name = self._choose_name(workload, next(numbers))
            if name is not None:
                created += 1
                yield _create_pod(workload, template, name)

    def _choose_name(self, workload: Workload, number: int) -> str | None:
        """Return an unused name; None if the replica with this number exists."""
        for name in (f"{workload.name}-{number}", f"{workload.name}-{workload.kind.lower()}-{number}"):
            key = f"{workload.namespace}/{name}"
            if key not in self._used_names:
                self._used_names.add(key)
                return name
            if workload.kind == "StatefulSet":
                return None
        return None


def _create_pod(workload: Workload, template: Pod, name: str) -> Pod:
    spec = template.spec
    volumes = tuple(_rename_claim(volume, template.name, name) for volume in spec.volumes)
    volumes += tuple(PodVolume(f"{claim.name}-{name}") for claim in workload.volume_claim_templates)
    if volumes != spec.volumes:
        spec = msgspec.structs.replace(spec, volumes=volumes)
    return Pod(
        name=name,
        namespace=template.namespace,
        labels=template.labels,
        annotations=template.annotations,
        owner=template.owner,
        spec=spec,
        priority=template.priority,
    )


def _rename_claim(volume: PodVolume, template_name: str, name: str) -> PodVolume:
    """Name the claim of an ephemeral volume after its pod: ``<pod>-<volume>``."""
    if not volume.ephemeral:
        return volume
    suffix = volume.claim.removeprefix(f"{template_name}-")
    return msgspec.structs.replace(volume, claim=f"{name}-{suffix}")


def create_volume_claims(
    workload: Workload, pods: Iterable[Pod]
) -> Iterator[tuple[PersistentVolumeClaim, bool]]:
    """Yield the claims of a StatefulSet's pods, and whether each names its storage class."""
    for pod in pods:
        for template in workload.volume_claim_templates:
            claim = PersistentVolumeClaim(
                namespace=pod.namespace,
                name=f"{template.name}-{pod.name}",
                storage_class=template.storage_class or "",
            )
            yield claim, template.storage_class is not None


def has_same_template(old: Workload, new: Workload) -> bool:
    """Return True if two workloads create equal pods, in any number."""
    return (
        old.pod.spec == new.pod.spec
        and _get_own_labels(old.pod) == _get_own_labels(new.pod)
        and old.volume_claim_templates == new.volume_claim_templates
    )


def _get_own_labels(pod: Pod) -> dict[str, str]:
    return {key: value for key, value in pod.labels.items() if key != TEMPLATE_HASH}
