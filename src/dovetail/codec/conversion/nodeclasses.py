"""Conversion of AWSNodeTemplates and v1beta1 EC2NodeClasses to v1."""

from collections.abc import Mapping
from typing import Any

from dovetail.codec.conversion.converted_object import (
    Conversion,
    ConversionNote,
    ConvertedObject,
    RawObjectValue,
    copy_map,
    note_dropped_fields,
    v1_object,
)
from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.text.field_path import FieldPath
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ami_family import AmiFamily

CLASS_VERSION = "karpenter.k8s.aws/v1"
ROLE_PLACEHOLDER = "$KARPENTER_NODE_ROLE"
"""For old objects that used the global default instance profile, which v1 lacks."""
AMI_PLACEHOLDER = "ami-placeholder"
CLUSTER_TAG = "kubernetes.io/cluster/$CLUSTER_NAME"
"""Tag of the subnets and security groups that early Provisioners used by default."""
UBUNTU_ANNOTATION = "compatibility.karpenter.k8s.aws/v1beta1-ubuntu"

_IDS = ("aws-ids", "aws::ids")
_AMI_FIELDS = FrozenDict({"aws::name": "name", "aws::owners": "owner"})
"""Keys of AMI selectors that are not tags → fields of a term."""
_COPIED = (
    "userData tags metadataOptions detailedMonitoring context blockDeviceMappings "
    "associatePublicIPAddress instanceStorePolicy instanceProfile role"
).split()
_TEMPLATE_SPEC = (
    *_COPIED, "subnetSelector", "securityGroupSelector", "amiSelector", "amiFamily",
    "launchTemplate", "apiVersion", "kind",
)  # fmt: skip
_SUBNETS: FieldPath = ("spec", "subnetSelectorTerms")
_GROUPS: FieldPath = ("spec", "securityGroupSelectorTerms")
_IMAGES: FieldPath = ("spec", "amiSelectorTerms")
_FAMILY: FieldPath = ("spec", "amiFamily")
_HOPS: FieldPath = ("spec", "metadataOptions", "httpPutResponseHopLimit")
_BY_CLUSTER = {CLUSTER_TAG: "*"}
_UBUNTU_DISK: RawObjectValue = {
    "deviceName": "/dev/sda1",
    "rootVolume": True,
    "ebs": {"volumeSize": "20Gi", "volumeType": "gp3", "encrypted": True},
}


def convert_node_template(raw: RawObjectValue) -> Conversion:
    """Convert a v1alpha1 AWSNodeTemplate to an EC2NodeClass."""
    converted, errors = _convert_provider(raw, copy_map(raw.get("spec")), ("spec",))
    return Conversion((converted,), errors=tuple(errors))


def convert_inline_provider(
    raw: RawObjectValue, provider: RawObjectValue
) -> tuple[ConvertedObject, list[ConversionNote]]:
    """Convert a Provisioner's inline provider to an EC2NodeClass of the same name."""
    name = copy_map(raw.get("metadata")).get("name")
    named = {"metadata": {"name": name or "default"}}  # A missing name is reported for the NodePool.
    provider = dict(provider)
    assumptions: list[ConversionNote] = []
    for old, path in (("subnetSelector", _SUBNETS), ("securityGroupSelector", _GROUPS)):
        if not provider.get(old):
            provider[old] = dict(_BY_CLUSTER)
            note = "Not set; early versions used resources with this tag. Insert your cluster name."
            assumptions.append((path, note))
    converted, errors = _convert_provider(named, provider, ("spec", "provider"))
    notes = (*assumptions, *converted.notes)
    return ConvertedObject(value=converted.value, old_paths=converted.old_paths, notes=notes), errors


def _convert_provider(
    raw: RawObjectValue, old: RawObjectValue, path: FieldPath
) -> tuple[ConvertedObject, list[ConversionNote]]:
    """Return the EC2NodeClass, and errors by paths in the old object."""
    notes = note_dropped_fields(old, _TEMPLATE_SPEC, ("spec",), "v1alpha1")
    spec: RawObjectValue = {}
    errors = _find_misspelled_fields(old, path)
    if old.get("launchTemplate"):
        message = "custom launch templates are not supported since v1beta1"
        errors.append(((*path, "launchTemplate"), message))
        # A launch template has its own network: do not report missing selectors as well.
        old = {"subnetSelector": _BY_CLUSTER, "securityGroupSelector": _BY_CLUSTER, **old}
    for name, new in (("subnetSelector", _SUBNETS), ("securityGroupSelector", _GROUPS)):
        spec[str(new[-1])] = _convert_selector(old.get(name), new, notes)
    _convert_ami_terms(spec, old, notes)
    spec.update({key: old[key] for key in _COPIED if old.get(key) is not None})
    if "role" not in spec and "instanceProfile" not in spec:
        spec["role"] = ROLE_PLACEHOLDER
        message = "v1 has no global default instance profile: insert the IAM role of your nodes."
        notes.append((("spec", "role"), message))
    changed = v1_object(CLASS_VERSION, "EC2NodeClass", raw, spec)
    if old.get("amiFamily") == "Ubuntu":
        _convert_ubuntu(changed, notes)
    _write_beta_defaults(spec, notes)
    return ConvertedObject(value=changed, old_paths=_old_paths(path), notes=tuple(notes)), errors


def _old_paths(path: FieldPath) -> tuple[tuple[FieldPath, FieldPath], ...]:
    return (
        (_SUBNETS, (*path, "subnetSelector")),
        (_GROUPS, (*path, "securityGroupSelector")),
        ((*_IMAGES, 0, "alias"), (*path, "amiFamily")),
        (_IMAGES, (*path, "amiSelector")),
        (("spec",), path),
    )


def _find_misspelled_fields(old: RawObjectValue, path: FieldPath) -> list[ConversionNote]:
    context = DecodeContext()
    field = Field(old, context)
    field.check_known_keys(_TEMPLATE_SPEC)
    return [((*path, *error_path), message) for error_path, message in context.errors]


def _convert_ami_terms(spec: RawObjectValue, old: RawObjectValue, notes: list[ConversionNote]) -> None:
    family = old.get("amiFamily") or AmiFamily.AL2.value
    terms = _convert_selector(old.get("amiSelector"), _IMAGES, notes, _AMI_FIELDS)
    if terms:
        notes.append((_IMAGES, "v1 ignores AMI tags that select instance types."))
    if terms or family in (AmiFamily.CUSTOM, "Ubuntu"):
        spec["amiFamily"] = family
        spec["amiSelectorTerms"] = terms
    else:
        spec["amiSelectorTerms"] = [_alias_term(family, notes)]
    if not old.get("amiFamily"):
        note_path = _FAMILY if terms else _IMAGES
        notes.append((note_path, "amiFamily was not set; the default was AL2."))


def _alias_term(family: Any, notes: list[ConversionNote]) -> RawObjectValue:
    note = "amiFamily became an alias, which follows every new AMI; set a version to pin it."
    if family == AmiFamily.AL2:
        note += " There are no AL2 AMIs for Kubernetes 1.33 and later."
    notes.append((_IMAGES, note))
    return {"alias": f"{str(family).lower()}@latest"}


def _convert_ubuntu(changed: RawObjectValue, notes: list[ConversionNote]) -> None:
    """Replace the Ubuntu family, which v1 lacks, with AL2, which boots the same way."""
    spec = changed["spec"]
    spec["amiFamily"] = AmiFamily.AL2.value
    notes.append((_FAMILY, "Was Ubuntu, which v1 does not support; Ubuntu AMIs boot like AL2."))
    compatibility = "amiFamily"
    if not spec.get("amiSelectorTerms"):
        spec["amiSelectorTerms"] = [{"id": AMI_PLACEHOLDER}]
        notes.append(((*_IMAGES, 0), "v1 does not discover Ubuntu AMIs: insert the ID of your AMI."))
        compatibility += ",incompatible"
    if not spec.get("blockDeviceMappings"):
        spec["blockDeviceMappings"] = [{**_UBUNTU_DISK, "ebs": dict(_UBUNTU_DISK["ebs"])}]
        notes.append((("spec", "blockDeviceMappings"), "Default block device of the Ubuntu family."))
        compatibility += ",blockDeviceMappings"
    meta = changed["metadata"]
    meta["annotations"] = {**copy_map(meta.get("annotations")), UBUNTU_ANNOTATION: compatibility}


def _write_beta_defaults(spec: RawObjectValue, notes: list[ConversionNote]) -> None:
    """Write defaults that v1 changed: hop limit of the metadata service, public IPs."""
    options = spec.get("metadataOptions")
    if options is None or (isinstance(options, dict) and options.get("httpPutResponseHopLimit") is None):
        spec["metadataOptions"] = {**copy_map(options), "httpPutResponseHopLimit": 2}
        note = "The default was 2; in v1 it is 1, which blocks pods from the metadata service."
        notes.append((_HOPS, note))
    if spec.get("associatePublicIPAddress") is None:
        note = (
            "Nodes in private subnets got no public IP; in v1 the subnet decides unless "
            "associatePublicIPAddress is set."
        )
        notes.append((_SUBNETS, note))


def convert_beta_nodeclass(raw: RawObjectValue) -> Conversion:
    """Convert a v1beta1 EC2NodeClass; an AMI family becomes an alias."""
    notes: list[ConversionNote] = []
    spec = copy_map(raw.get("spec"))
    family = spec.get("amiFamily")
    changed = v1_object(CLASS_VERSION, "EC2NodeClass", raw, spec, status=True)
    old_paths: tuple[tuple[FieldPath, FieldPath], ...] = ()
    if family == "Ubuntu":
        _convert_ubuntu(changed, notes)
    elif not spec.get("amiSelectorTerms") and family not in (None, AmiFamily.CUSTOM):
        spec["amiSelectorTerms"] = [_alias_term(family, notes)]
        del spec["amiFamily"]
        old_paths = (((*_IMAGES, 0, "alias"), _FAMILY),)
    _separate_ids(spec, notes)
    _write_beta_defaults(spec, notes)
    return Conversion((ConvertedObject(value=changed, old_paths=old_paths, notes=tuple(notes)),))


def _separate_ids(spec: RawObjectValue, notes: list[ConversionNote]) -> None:
    """Drop other fields of a term with an ID, as v1 requires."""
    for path in (_SUBNETS, _GROUPS, _IMAGES):
        terms = spec.get(str(path[-1]))
        if not isinstance(terms, list):
            continue
        converted = []
        for index, term in enumerate(terms):
            if isinstance(term, dict) and term.get("id") and len(term) > 1:
                note = (
                    f"In v1 an id excludes other fields; left out: {', '.join(sorted(set(term) - {'id'}))}."
                )
                notes.append(((*path, index), note))
                converted.append({"id": term["id"]})
            else:
                converted.append(term)
        spec[str(path[-1])] = converted


def _convert_selector(
    selector: Any, path: FieldPath, notes: list[ConversionNote], fields: Mapping[str, str] = FrozenDict()
) -> list[RawObjectValue]:
    """Convert a map of tags and IDs to selector terms, and note changes of meaning.

    ``fields`` maps keys that are not tags to fields of a term.
    """
    if not isinstance(selector, dict):
        return []
    tags_and_fields = {key: value for key, value in selector.items() if key not in _IDS}
    ids = [resource_id for key in _IDS for resource_id in _split_commas(selector.get(key))]
    if ids and tags_and_fields:
        names = ", ".join(tags_and_fields)
        notes.append((path, f"In v1 an id excludes other fields; left out, although it applied: {names}."))
    if ids:
        return [{"id": resource_id} for resource_id in ids]
    # Each combination of comma-separated values becomes one term.
    combinations: list[RawObjectValue] = [{}]
    for key, value in tags_and_fields.items():
        if key not in fields:
            values = _split_commas(value) or [value]
            if len(values) > 1:
                notes.append((path, f"One term for each of the comma-separated values of {key}."))
            combinations = [{**tags, key: tag} for tags in combinations for tag in values]
    terms: list[RawObjectValue] = [{"tags": tags} if tags else {} for tags in combinations]
    for key, name in fields.items():
        values = _split_commas(selector.get(key)) or [""]
        terms = [{**term, name: value} if value else term for term in terms for value in values]
    return [term for term in terms if term]


def _split_commas(value: Any) -> list[str]:
    if not isinstance(value, str):
        return []
    return [part.strip() for part in value.split(",") if part.strip()]
