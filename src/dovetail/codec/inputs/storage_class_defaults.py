"""Storage classes of volume claims that name none, or one that is not given."""

from collections.abc import Collection, Iterable, Sequence

import msgspec

from dovetail.codec.kube.storage import EBS_DRIVER
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.storage import PersistentVolumeClaim, StorageClass

ASSUMED_DEFAULT = "default"
"""Name of the assumed default storage class if no StorageClass is given."""


def find_default_class(classes: Iterable[StorageClass]) -> StorageClass | None:
    """Return the newest of the storage classes that are marked as default."""
    return max(
        (storage_class for storage_class in classes if storage_class.is_default),
        key=lambda marked: (marked.created.isoformat() if marked.created else "", marked.name),
        default=None,
    )


def delay_binding(
    classes: Sequence[StorageClass], new: Collection[str]
) -> tuple[list[StorageClass], list[str]]:
    """Return the storage classes, new ones with WaitForFirstConsumer, and warnings.

    Immediate binding creates volumes in zones that are not predictable. A plan
    that leaves out their pods would not help.
    """
    immediate = [cls.name for cls in classes if cls.binds_immediately and cls.name in new]
    delayed = [
        msgspec.structs.replace(storage_class, binds_immediately=False)
        if storage_class.name in new
        else storage_class
        for storage_class in classes
    ]
    if not immediate:
        return delayed, []
    return delayed, [
        f"StorageClass {', '.join(immediate)} binds volumes before their pods have nodes, in any zone; "
        "planned as with volumeBindingMode WaitForFirstConsumer"
    ]


def apply_storage_classes(
    claims: Sequence[tuple[PersistentVolumeClaim, bool]], classes: Sequence[StorageClass], pods: Iterable[Pod]
) -> tuple[tuple[PersistentVolumeClaim, ...], tuple[StorageClass, ...], list[str]]:
    """Set the default storage class of unbound claims, and assume missing classes.

    Each claim comes with whether it names its class (``""`` is a name: no class).
    If no StorageClass is given, as with manifests alone, those that claims and
    pods name are assumed to be EBS with WaitForFirstConsumer.
    """
    default = find_default_class(classes)
    default_name = default.name if default else ("" if classes else ASSUMED_DEFAULT)
    complete = tuple(
        claim
        if is_named or claim.volume or claim.storage_class
        else msgspec.structs.replace(claim, storage_class=default_name)
        for claim, is_named in claims
    )
    if classes:
        return complete, tuple(classes), []
    names = {claim.storage_class for claim in complete if claim.storage_class and not claim.volume}
    names |= {
        volume.template_storage_class
        for pod in pods
        for volume in pod.spec.volumes
        if volume.template_storage_class
    }
    if not names:
        return complete, (), []
    assumed = tuple(
        StorageClass(name=name, provisioner=EBS_DRIVER, is_default=name == default_name)
        for name in sorted(names)
    )
    warning = (
        f"no StorageClass given; assumed EBS volumes in the zone of the pod for {', '.join(sorted(names))}"
    )
    return complete, assumed, [warning]
