"""Older node classes of Karpenter, turned into EC2NodeClasses of today."""

from typing import Any

from dovetail.codec.conversion.converted_object import (
    Converted,
    Raw,
    Remark,
    Successor,
    left_out,
    mapping,
    successor_object,
)
from dovetail.codec.conversion.selector_terms import image_terms, terms
from dovetail.codec.fields import Field, Findings
from dovetail.codec.text.field_path import Path

CLASS_VERSION = "karpenter.k8s.aws/v1"
ROLE_PLACEHOLDER = "$KARPENTER_NODE_ROLE"
"""Old objects could lean on a global instance profile that is gone."""
IMAGE_PLACEHOLDER = "ami-placeholder"
CLUSTER_TAG = "kubernetes.io/cluster/$CLUSTER_NAME"
"""The earliest provisioners took the subnets and groups with this tag, unasked."""
UBUNTU_MARK = "compatibility.karpenter.k8s.aws/v1beta1-ubuntu"

_COPIED = (
    "userData tags metadataOptions detailedMonitoring context blockDeviceMappings "
    "associatePublicIPAddress instanceStorePolicy instanceProfile role"
).split()
_TEMPLATE_SPEC = (
    *_COPIED, "subnetSelector", "securityGroupSelector", "amiSelector", "amiFamily",
    "launchTemplate", "apiVersion", "kind",
)  # fmt: skip
_SUBNETS: Path = ("spec", "subnetSelectorTerms")
_GROUPS: Path = ("spec", "securityGroupSelectorTerms")
_IMAGES: Path = ("spec", "amiSelectorTerms")
_FAMILY: Path = ("spec", "amiFamily")
_HOPS: Path = ("spec", "metadataOptions", "httpPutResponseHopLimit")
_BY_CLUSTER = {CLUSTER_TAG: "*"}
_UBUNTU_DISK: Raw = {
    "deviceName": "/dev/sda1",
    "rootVolume": True,
    "ebs": {"volumeSize": "20Gi", "volumeType": "gp3", "encrypted": True},
}


def from_node_template(raw: Raw) -> Converted:
    """Turn a v1alpha1 AWSNodeTemplate into an EC2NodeClass."""
    found, problems = _from_provider(raw, mapping(raw.get("spec")), ("spec",))
    return Converted((found,), problems=tuple(problems))


def from_inline_provider(raw: Raw, provider: Raw) -> tuple[Successor, list[Remark]]:
    """Turn the provider inside a Provisioner into a class of the same name."""
    named = {"metadata": {"name": mapping(raw.get("metadata")).get("name")}}
    provider = dict(provider)
    assumed: list[Remark] = []
    for old, path in (("subnetSelector", _SUBNETS), ("securityGroupSelector", _GROUPS)):
        if not provider.get(old):
            provider[old] = dict(_BY_CLUSTER)
            why = (
                "None was given; the first versions took what carries this tag. Name your cluster."
            )
            assumed.append((path, why))
    found, problems = _from_provider(named, provider, ("spec", "provider"))
    remarks = (*assumed, *found.remarks)
    return Successor(value=found.value, old_paths=found.old_paths, remarks=remarks), problems


def _from_provider(raw: Raw, old: Raw, path: Path) -> tuple[Successor, list[Remark]]:
    """Return the class, and what stands in the way by places in the old object."""
    remarks = left_out(old, _TEMPLATE_SPEC, ("spec",), "v1alpha1")
    spec: Raw = {}
    problems = _misspelt(old, path)
    if old.get("launchTemplate"):
        why = "launch templates of one's own are not supported since v1beta1"
        problems.append(((*path, "launchTemplate"), why))
        # It brought its own network; one mistake is enough to tell.
        old = {"subnetSelector": _BY_CLUSTER, "securityGroupSelector": _BY_CLUSTER, **old}
    for name, new in (("subnetSelector", _SUBNETS), ("securityGroupSelector", _GROUPS)):
        said: list[str] = []
        spec[str(new[-1])] = terms(old.get(name), said)
        remarks.extend((new, sentence) for sentence in said)
    _choose_images(spec, old, remarks)
    spec.update({key: old[key] for key in _COPIED if old.get(key) is not None})
    if "role" not in spec and "instanceProfile" not in spec:
        spec["role"] = ROLE_PLACEHOLDER
        why = "A global default instance profile is gone: name the IAM role of your nodes here."
        remarks.append((("spec", "role"), why))
    changed = successor_object(CLASS_VERSION, "EC2NodeClass", raw, spec)
    if old.get("amiFamily") == "Ubuntu":
        _settle_ubuntu(changed, remarks)
    _keep_reachable(spec, remarks)
    return Successor(value=changed, old_paths=_old_paths(path), remarks=tuple(remarks)), problems


def _old_paths(path: Path) -> tuple[tuple[Path, Path], ...]:
    return (
        (_SUBNETS, (*path, "subnetSelector")),
        (_GROUPS, (*path, "securityGroupSelector")),
        ((*_IMAGES, 0, "alias"), (*path, "amiFamily")),
        (_IMAGES, (*path, "amiSelector")),
        (("spec",), path),
    )


def _misspelt(old: Raw, path: Path) -> list[Remark]:
    findings = Findings()
    field = Field(old, findings)
    field.known_keys(_TEMPLATE_SPEC)
    return [((*path, *place), message) for place, message in findings.found]


def _choose_images(spec: Raw, old: Raw, remarks: list[Remark]) -> None:
    family = old.get("amiFamily") or "AL2"
    said: list[str] = []
    chosen = image_terms(old.get("amiSelector"), said)
    remarks.extend((_IMAGES, sentence) for sentence in said)
    if chosen:
        why = "Tags of an image no longer say which instance types it is for."
        remarks.append((_IMAGES, why))
    if chosen or family in ("Custom", "Ubuntu"):
        spec["amiFamily"] = family
        spec["amiSelectorTerms"] = chosen
    else:
        spec["amiSelectorTerms"] = [_alias(family, remarks)]
    if not old.get("amiFamily"):
        place = _FAMILY if chosen else _IMAGES
        remarks.append((place, "No amiFamily was given; it was AL2 then."))


def _alias(family: Any, remarks: list[Remark]) -> Raw:
    note = "A family alone became an alias, which follows every new image; name a version to stay."
    if family == "AL2":
        note += " There are no AL2 images for Kubernetes 1.33 and later."
    remarks.append((_IMAGES, note))
    return {"alias": f"{str(family).lower()}@latest"}


def _settle_ubuntu(changed: Raw, remarks: list[Remark]) -> None:
    """Ubuntu is no family any more; its images boot like AL2's."""
    spec = changed["spec"]
    spec["amiFamily"] = "AL2"
    remarks.append((_FAMILY, "Was Ubuntu, which is no family any more; its images boot as AL2's."))
    mark = "amiFamily"
    if not spec.get("amiSelectorTerms"):
        spec["amiSelectorTerms"] = [{"id": IMAGE_PLACEHOLDER}]
        why = "Ubuntu's images must be named today: put the id of yours here."
        remarks.append(((*_IMAGES, 0), why))
        mark += ",incompatible"
    if not spec.get("blockDeviceMappings"):
        spec["blockDeviceMappings"] = [{**_UBUNTU_DISK, "ebs": dict(_UBUNTU_DISK["ebs"])}]
        why = "The disk that the Ubuntu family had by default."
        remarks.append((("spec", "blockDeviceMappings"), why))
        mark += ",blockDeviceMappings"
    meta = changed["metadata"]
    meta["annotations"] = {**mapping(meta.get("annotations")), UBUNTU_MARK: mark}


def _keep_reachable(spec: Raw, remarks: list[Remark]) -> None:
    """Write out what v1 would take otherwise: hops to the metadata service, public addresses."""
    options = spec.get("metadataOptions")
    if options is None or (
        isinstance(options, dict) and options.get("httpPutResponseHopLimit") is None
    ):
        spec["metadataOptions"] = {**mapping(options), "httpPutResponseHopLimit": 2}
        why = "The default was 2 and is 1 in v1, which keeps pods from the metadata service."
        remarks.append((_HOPS, why))
    if spec.get("associatePublicIPAddress") is None:
        why = (
            "Nodes in private subnets were kept from public addresses; v1 leaves that to the "
            "subnets unless associatePublicIPAddress says otherwise."
        )
        remarks.append((_SUBNETS, why))


def from_beta_node_class(raw: Raw) -> Converted:
    """Turn a v1beta1 EC2NodeClass into today's; an image family becomes an alias."""
    remarks: list[Remark] = []
    spec = mapping(raw.get("spec"))
    family = spec.get("amiFamily")
    changed = successor_object(CLASS_VERSION, "EC2NodeClass", raw, spec, status=True)
    old_paths: tuple[tuple[Path, Path], ...] = ()
    if family == "Ubuntu":
        _settle_ubuntu(changed, remarks)
    elif not spec.get("amiSelectorTerms") and family not in (None, "Custom"):
        spec["amiSelectorTerms"] = [_alias(family, remarks)]
        del spec["amiFamily"]
        old_paths = (((*_IMAGES, 0, "alias"), _FAMILY),)
    _separate_ids(spec, remarks)
    _keep_reachable(spec, remarks)
    return Converted((Successor(value=changed, old_paths=old_paths, remarks=tuple(remarks)),))


def _separate_ids(spec: Raw, remarks: list[Remark]) -> None:
    """Leave an id alone in its term, as v1 wants it."""
    for path in (_SUBNETS, _GROUPS, _IMAGES):
        written = spec.get(str(path[-1]))
        if not isinstance(written, list):
            continue
        kept = []
        for at, term in enumerate(written):
            if isinstance(term, dict) and term.get("id") and len(term) > 1:
                why = (
                    f"An id stands alone in v1; left out: {', '.join(sorted(set(term) - {'id'}))}."
                )
                remarks.append(((*path, at), why))
                kept.append({"id": term["id"]})
            else:
                kept.append(term)
        spec[str(path[-1])] = kept
