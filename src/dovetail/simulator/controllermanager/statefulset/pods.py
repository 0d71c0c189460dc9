"""The pods and claims of a StatefulSet: one name for each, kept for life."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.controllermanager.pods.pod_template import REVISION_HASH, pod_from

POD_NAME: Final = "statefulset.kubernetes.io/pod-name"
_INDEX: Final = "apps.kubernetes.io/pod-index"


def ordinals(stateful_set: Object) -> range:
    """Return the numbers that a StatefulSet's pods should have."""
    spec = stateful_set["spec"]
    start = int(look(spec, "ordinals", "start") or 0)
    return range(start, start + int(spec.get("replicas", 1)))


def ordinal_of(pod: Object) -> int | None:
    """Return the number of a pod; None when it is not named like one of a StatefulSet."""
    _, _, number = pod["metadata"]["name"].rpartition("-")
    return int(number) if number.isdigit() else None


def revision_of(pod: Object) -> str:
    """Return the name of the revision that a pod was made from."""
    name: str = (pod["metadata"].get("labels") or {}).get(REVISION_HASH, "")
    return name


def stateful_pod(
    stateful_set: Object, ordinal: int, template: Mapping[str, Any], *, revision: str
) -> Object:
    """Return the pod with a number, made from a revision's template."""
    name = f"{stateful_set['metadata']['name']}-{ordinal}"
    spec = {**(template.get("spec") or {}), "hostname": name}
    service = stateful_set["spec"].get("serviceName")
    if service:
        spec["subdomain"] = service
    claims = {
        one["metadata"]["name"]: {
            "name": one["metadata"]["name"],
            "persistentVolumeClaim": {"claimName": f"{one['metadata']['name']}-{name}"},
        }
        for one in _claim_templates(stateful_set)
    }
    if claims:
        others = [one for one in spec.get("volumes") or () if one["name"] not in claims]
        spec["volumes"] = [*others, *claims.values()]
    marks = {REVISION_HASH: revision, POD_NAME: name, _INDEX: str(ordinal)}
    return pod_from({**template, "spec": spec}, stateful_set, name=name, labels=marks)


def claims_for(stateful_set: Object, ordinal: int) -> list[dict[str, Any]]:
    """Return the PersistentVolumeClaims that the pod with a number needs.

    Nobody owns them: they outlive the pod, the scale and the StatefulSet, unless
    its retention policy says that they go with the StatefulSet.
    """
    meta = stateful_set["metadata"]
    labels = look(stateful_set, "spec", "selector", "matchLabels") or {}
    policy = look(stateful_set, "spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted")
    owner = {name: stateful_set[name] for name in ("apiVersion", "kind")}
    owners = [{**owner, "name": meta["name"], "uid": meta["uid"]}] if policy == "Delete" else []
    return [
        {
            "metadata": {
                "name": f"{one['metadata']['name']}-{meta['name']}-{ordinal}",
                "namespace": meta["namespace"],
                "labels": {**(one["metadata"].get("labels") or {}), **labels},
                "annotations": one["metadata"].get("annotations"),
                "ownerReferences": owners,
            },
            "spec": one.get("spec") or {},
        }
        for one in _claim_templates(stateful_set)
    ]


def _claim_templates(stateful_set: Object) -> Sequence[Object]:
    found: Sequence[Object] = stateful_set["spec"].get("volumeClaimTemplates") or ()
    return found
