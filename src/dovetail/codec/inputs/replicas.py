"""Workloads to the pods that they would make."""

from collections.abc import Iterable, Iterator

import msgspec

from dovetail.codec.kube.workloads import TEMPLATE_HASH, Workload
from dovetail.model.kube.pod import Pod, PodVolume
from dovetail.model.kube.storage import VolumeClaim

WORKLOADS = (
    "Deployment",
    "ReplicaSet",
    "ReplicationController",
    "StatefulSet",
    "Job",
    "CronJob",
)
_JOB_LABELS = ("job-name", "batch.kubernetes.io/job-name")


class Replicas:
    """Makes pods with readable names that are taken only once.

    Names are ``<workload>-<number>``: from 0 for a StatefulSet, as Kubernetes
    does, from 1 for all else, where Kubernetes would roll dice.
    """

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def pods(self, workload: Workload, count: int) -> Iterator[Pod]:
        """Hand out ``count`` replicas; all but claims' names is shared between them."""
        template = workload.pod
        if workload.pod.owner is not None and workload.pod.owner.kind == "Job":
            own = dict.fromkeys(_JOB_LABELS, workload.name)
            template = msgspec.structs.replace(template, labels=template.labels.with_items(own))
        made, number = 0, workload.first
        while made < count:
            name = self._name(workload, number)
            number += 1
            if name is not None:
                made += 1
                yield _replica(workload, template, name)

    def _name(self, workload: Workload, number: int) -> str | None:
        """Return a free name; None where the replica of that number is there already."""
        for name in (
            f"{workload.name}-{number}",
            f"{workload.name}-{workload.kind.lower()}-{number}",
        ):
            key = f"{workload.namespace}/{name}"
            if key not in self._taken:
                self._taken.add(key)
                return name
            if workload.kind == "StatefulSet":
                return None
        return None


def _replica(workload: Workload, template: Pod, name: str) -> Pod:
    spec = template.spec
    volumes = tuple(_own_volume(one, template.name, name) for one in spec.volumes)
    volumes += tuple(PodVolume(f"{one.name}-{name}") for one in workload.claims)
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


def _own_volume(volume: PodVolume, template_name: str, name: str) -> PodVolume:
    """Give an ephemeral volume the claim of this pod: ``<pod>-<volume>``."""
    if not volume.ephemeral:
        return volume
    suffix = volume.claim.removeprefix(f"{template_name}-")
    return msgspec.structs.replace(volume, claim=f"{name}-{suffix}")


def claims_of(workload: Workload, pods: Iterable[Pod]) -> Iterator[tuple[VolumeClaim, bool]]:
    """Return the claims that a StatefulSet's pods bring, and whether each names a class."""
    for pod in pods:
        for template in workload.claims:
            claim = VolumeClaim(
                namespace=pod.namespace,
                name=f"{template.name}-{pod.name}",
                storage_class=template.storage_class or "",
            )
            yield claim, template.storage_class is not None


def same_template(one: Workload, other: Workload) -> bool:
    """Tell whether two workloads would make the same pods, however many."""
    return (
        one.pod.spec == other.pod.spec
        and _own_labels(one.pod) == _own_labels(other.pod)
        and one.claims == other.claims
    )


def _own_labels(pod: Pod) -> dict[str, str]:
    return {key: value for key, value in pod.labels.items() if key != TEMPLATE_HASH}
