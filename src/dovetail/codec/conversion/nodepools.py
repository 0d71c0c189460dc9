"""Conversion of v1alpha5 and v1beta1 NodePools and NodeClaims to v1.

Works on raw objects; the v1 objects are then decoded like any other. Values that
the webhook of the old version filled in (linux, amd64, on-demand, categories c, m
and r) are written out.
"""

from typing import Any

from dovetail.codec.conversion.converted_object import (
    Conversion,
    ConversionNote,
    ConvertedObject,
    LegacyKubelet,
    RawObjectValue,
    copy_map,
    note_dropped_fields,
    v1_object,
)
from dovetail.codec.conversion.nodeclasses import convert_inline_provider
from dovetail.codec.conversion.renames import KeyRenames
from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.text.field_path import FieldPath
from dovetail.model import labels as keys
from dovetail.model.karpenter.nodepool import DisruptionReason

POOL_VERSION = "karpenter.sh/v1"
_CATEGORY = f"{keys.AWS_DOMAIN}/instance-category"
_GENERATION = f"{keys.AWS_DOMAIN}/instance-generation"
_FAMILY = f"{keys.AWS_DOMAIN}/instance-family"
_NARROWING = (keys.INSTANCE_TYPE, _FAMILY, _CATEGORY, _GENERATION)
_PROVISIONER_SPEC = (
    "labels", "annotations", "requirements", "taints", "startupTaints", "kubeletConfiguration",
    "provider", "providerRef", "limits", "weight", "ttlSecondsUntilExpired",
    "ttlSecondsAfterEmpty", "consolidation",
)  # fmt: skip

TEMPLATE: FieldPath = ("spec", "template", "spec")
_REQUIREMENTS: FieldPath = (*TEMPLATE, "requirements")
_REFERENCE: FieldPath = (*TEMPLATE, "nodeClassRef")
_EXPIRY: FieldPath = (*TEMPLATE, "expireAfter")
_DISRUPTION: FieldPath = ("spec", "disruption")
_POLICY: FieldPath = (*_DISRUPTION, "consolidationPolicy")
_AFTER: FieldPath = (*_DISRUPTION, "consolidateAfter")
_BUDGETS: FieldPath = (*_DISRUPTION, "budgets")

_ALPHA_PATHS: tuple[tuple[FieldPath, FieldPath], ...] = (
    (_REFERENCE, ("spec", "providerRef")),
    (_EXPIRY, ("spec", "ttlSecondsUntilExpired")),
    (TEMPLATE, ("spec",)),
    (("spec", "template", "metadata"), ("spec",)),
    (("spec", "limits"), ("spec", "limits", "resources")),
    (_AFTER, ("spec", "ttlSecondsAfterEmpty")),
    (_DISRUPTION, ("spec", "consolidation")),
)
_BETA_PATHS: tuple[tuple[FieldPath, FieldPath], ...] = ((_EXPIRY, (*_DISRUPTION, "expireAfter")),)
_FORCEFUL = (
    "In v1 expiration is forceful: an expired node drains at once, without waiting for a "
    "replacement, and budgets do not apply."
)
_EMPTY_AT_ONCE: tuple[RawObjectValue, ...] = (
    {"nodes": "100%", "reasons": [str(DisruptionReason.EMPTY)]},
    {"nodes": "10%", "reasons": [str(DisruptionReason.UNDERUTILIZED), str(DisruptionReason.DRIFTED)]},
)


def convert_provisioner(raw: RawObjectValue) -> Conversion:
    """Convert a v1alpha5 Provisioner to a NodePool, with its inline provider."""
    spec = copy_map(raw.get("spec"))
    notes = note_dropped_fields(spec, _PROVISIONER_SPEC, ("spec",), "v1alpha5")
    template: RawObjectValue = {"requirements": _alpha_requirements(spec.get("requirements"), notes)}
    for key in ("taints", "startupTaints"):
        if spec.get(key):
            template[key] = spec[key]
    template["nodeClassRef"] = _alpha_reference(raw, spec, notes)
    template["expireAfter"] = _alpha_expiry(spec, notes)
    meta = {key: spec[key] for key in ("labels", "annotations") if spec.get(key)}
    pool_spec: RawObjectValue = {
        "template": {"metadata": meta, "spec": template} if meta else {"spec": template},
        "disruption": _alpha_disruption(spec, notes),
    }
    if copy_map(spec.get("limits")).get("resources"):
        pool_spec["limits"] = spec["limits"]["resources"]
    if spec.get("weight") is not None:
        pool_spec["weight"] = spec["weight"]
    kubelet = _alpha_kubelet(spec, notes)
    pool = v1_object(POOL_VERSION, "NodePool", raw, pool_spec)
    objects = [ConvertedObject(value=pool, old_paths=_ALPHA_PATHS, notes=tuple(notes))]
    errors = _alpha_errors(spec)
    if spec.get("provider"):
        node_class, provider_errors = convert_inline_provider(raw, copy_map(spec["provider"]))
        objects.append(node_class)
        errors.extend(provider_errors)
    return Conversion(tuple(objects), kubelet, tuple(errors))


def _alpha_requirements(raw_requirements: Any, notes: list[ConversionNote]) -> Any:
    """Return the effective requirements, with those that the webhook added."""
    if not isinstance(raw_requirements, list) and raw_requirements is not None:
        return raw_requirements  # The decoder reports it.
    requirements = [
        _strip_key(requirement, index, notes) for index, requirement in enumerate(raw_requirements or ())
    ]
    used_keys = {
        keys.normalize_key(str(requirement.get("key")))
        for requirement in requirements
        if isinstance(requirement, dict)
    }

    def fill_in(key: str, operator: str, values: list[str]) -> None:
        note = "Not in the Provisioner: the v1alpha5 webhook added this default, v1 has none."
        notes.append(((*_REQUIREMENTS, len(requirements)), note))
        requirements.append({"key": key, "operator": operator, "values": values})

    for key, value in ((keys.OS, "linux"), (keys.ARCH, "amd64"), (keys.CAPACITY_TYPE, keys.ON_DEMAND)):
        if key not in used_keys:
            fill_in(key, "In", [value])
    if not used_keys.intersection(_NARROWING):
        fill_in(_CATEGORY, "In", ["c", "m", "r"])
        fill_in(_GENERATION, "Gt", ["2"])
    return requirements


def _strip_key(requirement: Any, index: int, notes: list[ConversionNote]) -> Any:
    key = requirement.get("key") if isinstance(requirement, dict) else None
    if not isinstance(key, str) or key == key.strip():
        return requirement
    notes.append(((*_REQUIREMENTS, index, "key"), f"Was {key!r}, with extra whitespace."))
    return {**requirement, "key": key.strip()}


def _alpha_reference(
    raw: RawObjectValue, spec: RawObjectValue, notes: list[ConversionNote]
) -> RawObjectValue:
    if spec.get("provider"):
        name = copy_map(raw.get("metadata")).get("name")
        notes.append((_REFERENCE, "The inline provider became an EC2NodeClass."))
        # A missing name is reported once, where it belongs.
        return {"group": keys.AWS_DOMAIN, "kind": "EC2NodeClass", "name": name or "default"}
    reference = copy_map(spec.get("providerRef"))
    if not reference.get("name"):
        notes.append((_REFERENCE, "The Provisioner had no providerRef; 'default' is assumed."))
    return _group_and_kind({"name": "default", **reference})


def _group_and_kind(reference: RawObjectValue) -> RawObjectValue:
    """Replace apiVersion by group, and AWSNodeTemplate by EC2NodeClass."""
    group = reference.get("group") or str(reference.get("apiVersion") or keys.AWS_DOMAIN)
    kind = reference.get("kind") or "EC2NodeClass"
    kind = "EC2NodeClass" if kind == "AWSNodeTemplate" else kind
    other_fields = {key: value for key, value in reference.items() if key != "apiVersion"}
    return {**other_fields, "group": str(group).split("/")[0], "kind": kind}


def _alpha_expiry(spec: RawObjectValue, notes: list[ConversionNote]) -> Any:
    seconds = spec.get("ttlSecondsUntilExpired")
    if seconds is None:
        notes.append((_EXPIRY, "Nodes never expired; if unset, the v1 default is 720h."))
    else:
        notes.append((_EXPIRY, f"Was ttlSecondsUntilExpired: {seconds}. {_FORCEFUL}"))
    return _seconds(seconds)


def _alpha_disruption(spec: RawObjectValue, notes: list[ConversionNote]) -> RawObjectValue:
    empty = spec.get("ttlSecondsAfterEmpty")
    if copy_map(spec.get("consolidation")).get("enabled"):
        disruption: RawObjectValue = {
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "consolidateAfter": "0s",
        }
        notes.append((_POLICY, "Was consolidation.enabled: true."))
    else:
        disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": _seconds(empty)}
        if empty is None:
            notes.append(
                (
                    _POLICY,
                    "Neither consolidation nor ttlSecondsAfterEmpty was set, so empty nodes were "
                    "kept; if unset, v1 consolidates.",
                )
            )
            return disruption
        expiry_note = f"Was ttlSecondsAfterEmpty: {empty}. It counts from the last pod event of the node."
        notes.append((_AFTER, expiry_note))
    note = (
        "v1alpha5 had no budgets: all empty nodes were deleted at once. The v1 default allows "
        "10% of the nodes at a time."
    )
    notes.append((_BUDGETS, note))
    return {**disruption, "budgets": [dict(budget) for budget in _EMPTY_AT_ONCE]}


def _alpha_kubelet(spec: RawObjectValue, notes: list[ConversionNote]) -> LegacyKubelet | None:
    kubelet = copy_map(spec.get("kubeletConfiguration"))
    if kubelet.pop("containerRuntime", None) is not None:
        notes.append(
            (("spec",), "kubeletConfiguration.containerRuntime was left out: it is always containerd.")
        )
    return LegacyKubelet(kubelet, ("spec", "kubeletConfiguration")) if kubelet else None


def _alpha_errors(spec: RawObjectValue) -> list[ConversionNote]:
    """Return an error for each invalid combination and misspelled field."""
    context = DecodeContext()
    Field({"spec": spec}, context)["spec"].check_known_keys(_PROVISIONER_SPEC)
    errors = list(context.errors)
    if spec.get("provider") and spec.get("providerRef"):
        errors.append((("spec", "providerRef"), "cannot be combined with provider"))
    if copy_map(spec.get("consolidation")).get("enabled") and "ttlSecondsAfterEmpty" in spec:
        message = "cannot be combined with consolidation.enabled"
        errors.append((("spec", "ttlSecondsAfterEmpty"), message))
    return errors


def _seconds(number: Any) -> Any:
    if number is None:
        return "Never"
    is_valid = isinstance(number, int) and not isinstance(number, bool) and number >= 0
    return f"{number}s" if is_valid else number


def convert_beta_nodepool(raw: RawObjectValue) -> Conversion:
    """Convert a v1beta1 NodePool."""
    notes: list[ConversionNote] = []
    spec = copy_map(raw.get("spec"))
    template = copy_map(spec.get("template"))
    inner = copy_map(template.get("spec"))
    kubelet = copy_map(inner.pop("kubelet", None))
    if inner.pop("resources", None):
        notes.append((TEMPLATE, "resources was left out: a NodePool template has no such field."))
    if isinstance(inner.get("nodeClassRef"), dict) and inner["nodeClassRef"]:
        inner["nodeClassRef"] = _group_and_kind(inner["nodeClassRef"])
    disruption = copy_map(spec.get("disruption"))
    if "expireAfter" in disruption:
        inner["expireAfter"] = disruption.pop("expireAfter")
        if inner["expireAfter"] != "Never":
            notes.append((_EXPIRY, f"Moved here from spec.disruption. {_FORCEFUL}"))
    if disruption.get("consolidationPolicy", "WhenUnderutilized") == "WhenUnderutilized":
        disruption["consolidationPolicy"] = "WhenEmptyOrUnderutilized"
        disruption.setdefault("consolidateAfter", "0s")
        notes.append((_POLICY, "Was WhenUnderutilized, its v1beta1 name."))
    spec = {**spec, "template": {**template, "spec": inner}, "disruption": disruption}
    pool = ConvertedObject(
        value=v1_object(POOL_VERSION, "NodePool", raw, spec, status=True),
        old_paths=_BETA_PATHS,
        notes=tuple(notes),
    )
    return Conversion((pool,), LegacyKubelet(kubelet, (*TEMPLATE, "kubelet")) if kubelet else None)


def convert_beta_nodeclaim(raw: RawObjectValue) -> Conversion:
    """Convert a v1beta1 NodeClaim."""
    return _convert_claim(raw, reference="nodeClassRef")


def convert_alpha_nodeclaim(raw: RawObjectValue) -> Conversion:
    """Convert a v1alpha5 Machine to a NodeClaim."""
    return _convert_claim(raw, reference="machineTemplateRef")


def _convert_claim(raw: RawObjectValue, *, reference: str) -> Conversion:
    notes: list[ConversionNote] = [(("spec", "expireAfter"), "Was a setting of the NodePool only.")]
    renaming = KeyRenames(raw)
    notes.extend(renaming.notes)
    spec = copy_map(renaming.value.get("spec"))
    if spec.pop("kubelet", None):
        notes.append((("spec",), "kubelet was left out: it comes from the EC2NodeClass."))
    spec["nodeClassRef"] = _group_and_kind(copy_map(spec.pop(reference, None)))
    spec.setdefault("expireAfter", "Never")
    claim = ConvertedObject(
        value=v1_object(POOL_VERSION, "NodeClaim", renaming.value, spec, status=True),
        old_paths=((("spec", "nodeClassRef"), ("spec", reference)),),
        notes=tuple(notes),
    )
    return Conversion((claim,))
