"""Which storage class a claim gets when it or the input does not say."""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from dovetail.codec.kube.storage import EBS_DRIVER
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.storage import StorageClass, VolumeClaim

ASSUMED_DEFAULT = "default"


def default_class(classes: Iterable[StorageClass]) -> StorageClass | None:
    """Return the newest of the classes that say they are the default."""
    marked = [one for one in classes if one.default]
    return max(
        marked,
        key=lambda one: (one.created.isoformat() if one.created else "", one.name),
        default=None,
    )


def patient(
    classes: Iterable[StorageClass], new: Collection[str]
) -> tuple[list[StorageClass], list[str]]:
    """Let classes that are only now applied wait for their pods.

    A new class with Immediate binding would make its volumes in zones that
    nobody can tell beforehand, and a plan without them would be no help.
    """
    classes = list(classes)
    settled = [
        msgspec.structs.replace(one, immediate=False) if one.name in new else one for one in classes
    ]
    hasty = [one.name for one in classes if one.immediate and one.name in new]
    if not hasty:
        return settled, []
    return settled, [
        f"StorageClass {', '.join(hasty)} binds volumes before their pods have nodes, in any zone; "
        "planned as with volumeBindingMode WaitForFirstConsumer"
    ]


def with_classes(
    claims: Sequence[tuple[VolumeClaim, bool]],
    classes: Sequence[StorageClass],
    pods: Iterable[Pod],
) -> tuple[tuple[VolumeClaim, ...], tuple[StorageClass, ...], list[str]]:
    """Give unbound claims their class, and every named class a meaning.

    Each claim comes with whether it names its class (``""`` is a name too: no
    class at all). Where no StorageClass is given, as with manifests alone,
    those that are named are taken to be EBS, bound when a pod is placed.
    """
    fallback = default_class(classes)
    assume = not classes
    name = fallback.name if fallback else (ASSUMED_DEFAULT if assume else "")
    settled = tuple(
        claim
        if named or claim.volume or claim.storage_class
        else msgspec.structs.replace(claim, storage_class=name)
        for claim, named in claims
    )
    if not assume:
        return settled, tuple(classes), []
    wanted = {one.storage_class for one in settled if one.storage_class and not one.volume}
    wanted |= {
        volume.template_storage_class
        for pod in pods
        for volume in pod.spec.volumes
        if volume.template_storage_class
    }
    if not wanted:
        return settled, (), []
    made = tuple(
        StorageClass(name=one, provisioner=EBS_DRIVER, default=one == name)
        for one in sorted(wanted)
    )
    names = ", ".join(one.name for one in made)
    remark = f"no StorageClass given; took {names} for EBS volumes made where their pod runs"
    return settled, made, [remark]
