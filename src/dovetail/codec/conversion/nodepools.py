"""Older pools and claims of Karpenter, turned into what they mean today.

Works on raw objects: v1alpha5 Provisioner and Machine, v1beta1 NodePool and
NodeClaim become v1 objects, which are then read like any other. What a user of
the old object never wrote but its webhook filled in (linux, amd64, on-demand,
families c, m, r) is written out.
"""

from typing import Any

from dovetail.codec.conversion.converted_object import (
    Converted,
    OldKubelet,
    Raw,
    Remark,
    Successor,
    left_out,
    mapping,
    successor_object,
)
from dovetail.codec.conversion.nodeclasses import from_inline_provider
from dovetail.codec.conversion.renames import Renaming
from dovetail.codec.fields import Field, Findings
from dovetail.codec.text.field_path import Path
from dovetail.model import labels as keys

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

TEMPLATE: Path = ("spec", "template", "spec")
_REQUIREMENTS: Path = (*TEMPLATE, "requirements")
_REFERENCE: Path = (*TEMPLATE, "nodeClassRef")
_EXPIRY: Path = (*TEMPLATE, "expireAfter")
_DISRUPTION: Path = ("spec", "disruption")
_POLICY: Path = (*_DISRUPTION, "consolidationPolicy")
_AFTER: Path = (*_DISRUPTION, "consolidateAfter")
_BUDGETS: Path = (*_DISRUPTION, "budgets")

_ALPHA_PATHS: tuple[tuple[Path, Path], ...] = (
    (_REFERENCE, ("spec", "providerRef")),
    (_EXPIRY, ("spec", "ttlSecondsUntilExpired")),
    (TEMPLATE, ("spec",)),
    (("spec", "template", "metadata"), ("spec",)),
    (("spec", "limits"), ("spec", "limits", "resources")),
    (_AFTER, ("spec", "ttlSecondsAfterEmpty")),
    (_DISRUPTION, ("spec", "consolidation")),
)
_BETA_PATHS: tuple[tuple[Path, Path], ...] = ((_EXPIRY, (*_DISRUPTION, "expireAfter")),)
_FORCEFUL = (
    "In v1 expiry is forceful: an expired node drains at once, without waiting for a replacement, "
    "and budgets do not hold it back."
)
_EMPTY_AT_ONCE: tuple[Raw, ...] = (
    {"nodes": "100%", "reasons": ["Empty"]},
    {"nodes": "10%", "reasons": ["Underutilized", "Drifted"]},
)


def from_provisioner(raw: Raw) -> Converted:
    """Turn a v1alpha5 Provisioner into a NodePool, and a node class if it has one inside."""
    spec = mapping(raw.get("spec"))
    remarks = left_out(spec, _PROVISIONER_SPEC, ("spec",), "v1alpha5")
    template: Raw = {"requirements": _alpha_requirements(spec.get("requirements"), remarks)}
    for key in ("taints", "startupTaints"):
        if spec.get(key):
            template[key] = spec[key]
    template["nodeClassRef"] = _alpha_reference(raw, spec, remarks)
    template["expireAfter"] = _alpha_expiry(spec, remarks)
    meta = {key: spec[key] for key in ("labels", "annotations") if spec.get(key)}
    pool_spec: Raw = {
        "template": {"metadata": meta, "spec": template} if meta else {"spec": template},
        "disruption": _alpha_disruption(spec, remarks),
    }
    if mapping(spec.get("limits")).get("resources"):
        pool_spec["limits"] = spec["limits"]["resources"]
    if spec.get("weight") is not None:
        pool_spec["weight"] = spec["weight"]
    kubelet = _alpha_kubelet(spec, remarks)
    pool = successor_object(POOL_VERSION, "NodePool", raw, pool_spec)
    objects = [Successor(value=pool, old_paths=_ALPHA_PATHS, remarks=tuple(remarks))]
    problems = _alpha_problems(spec)
    if spec.get("provider"):
        node_class, more = from_inline_provider(raw, mapping(spec["provider"]))
        objects.append(node_class)
        problems.extend(more)
    return Converted(tuple(objects), kubelet, tuple(problems))


def _alpha_requirements(written: Any, remarks: list[Remark]) -> Any:
    """Return the requirements as they were in force, the webhook's included."""
    if not isinstance(written, list) and written is not None:
        return written  # Reported when it is read.
    requirements = [_trimmed(one, at, remarks) for at, one in enumerate(written or ())]
    named = {keys.stable_key(str(one.get("key"))) for one in requirements if isinstance(one, dict)}

    def fill_in(key: str, operator: str, values: list[str]) -> None:
        why = "Not in the Provisioner: the webhook of v1alpha5 filled this in, v1 fills in nothing."
        remarks.append(((*_REQUIREMENTS, len(requirements)), why))
        requirements.append({"key": key, "operator": operator, "values": values})

    for key, value in (
        (keys.OS, "linux"),
        (keys.ARCH, "amd64"),
        (keys.CAPACITY_TYPE, keys.ON_DEMAND),
    ):
        if key not in named:
            fill_in(key, "In", [value])
    if not named.intersection(_NARROWING):
        fill_in(_CATEGORY, "In", ["c", "m", "r"])
        fill_in(_GENERATION, "Gt", ["2"])
    return requirements


def _trimmed(requirement: Any, at: int, remarks: list[Remark]) -> Any:
    key = requirement.get("key") if isinstance(requirement, dict) else None
    if not isinstance(key, str) or key == key.strip():
        return requirement
    remarks.append(((*_REQUIREMENTS, at, "key"), f"Was {key!r}, with a blank too many."))
    return {**requirement, "key": key.strip()}


def _alpha_reference(raw: Raw, spec: Raw, remarks: list[Remark]) -> Raw:
    if spec.get("provider"):
        name = mapping(raw.get("metadata")).get("name")
        remarks.append((_REFERENCE, "The provider inside became an EC2NodeClass of its own."))
        return {"group": keys.AWS_DOMAIN, "kind": "EC2NodeClass", "name": name}
    reference = mapping(spec.get("providerRef"))
    if not reference.get("name"):
        remarks.append((_REFERENCE, "The Provisioner named no provider; 'default' is assumed."))
    return _group_and_kind({"name": "default", **reference})


def _group_and_kind(reference: Raw) -> Raw:
    """Write a reference by apiVersion as one by group; node templates are classes today."""
    group = reference.get("group") or str(reference.get("apiVersion") or keys.AWS_DOMAIN)
    kind = reference.get("kind") or "EC2NodeClass"
    kind = "EC2NodeClass" if kind == "AWSNodeTemplate" else kind
    rest = {key: value for key, value in reference.items() if key != "apiVersion"}
    return {**rest, "group": str(group).split("/")[0], "kind": kind}


def _alpha_expiry(spec: Raw, remarks: list[Remark]) -> Any:
    seconds = spec.get("ttlSecondsUntilExpired")
    if seconds is None:
        remarks.append((_EXPIRY, "Nodes never expired; left out, v1 would take 720h."))
    else:
        remarks.append((_EXPIRY, f"Was ttlSecondsUntilExpired: {seconds}. {_FORCEFUL}"))
    return _seconds(seconds)


def _alpha_disruption(spec: Raw, remarks: list[Remark]) -> Raw:
    empty = spec.get("ttlSecondsAfterEmpty")
    if mapping(spec.get("consolidation")).get("enabled"):
        disruption: Raw = {
            "consolidationPolicy": "WhenEmptyOrUnderutilized",
            "consolidateAfter": "0s",
        }
        remarks.append((_POLICY, "Was consolidation.enabled: true."))
    else:
        disruption = {"consolidationPolicy": "WhenEmpty", "consolidateAfter": _seconds(empty)}
        if empty is None:
            remarks.append(
                (
                    _POLICY,
                    "Neither consolidation nor ttlSecondsAfterEmpty was set, so nodes stayed even "
                    "when empty; left out, v1 would consolidate.",
                )
            )
            return disruption
        said = f"Was ttlSecondsAfterEmpty: {empty}. It counts from the last pod that came or went."
        remarks.append((_AFTER, said))
    why = (
        "v1alpha5 had no budgets: all empty nodes went at once. Without this, v1 would let 10% of "
        "the nodes go at a time."
    )
    remarks.append((_BUDGETS, why))
    return {**disruption, "budgets": [dict(one) for one in _EMPTY_AT_ONCE]}


def _alpha_kubelet(spec: Raw, remarks: list[Remark]) -> OldKubelet | None:
    kubelet = mapping(spec.get("kubeletConfiguration"))
    if kubelet.pop("containerRuntime", None) is not None:
        remarks.append(
            (
                ("spec",),
                "kubeletConfiguration.containerRuntime was left out: it is containerd today.",
            )
        )
    return OldKubelet(kubelet, ("spec", "kubeletConfiguration")) if kubelet else None


def _alpha_problems(spec: Raw) -> list[Remark]:
    """Return what the webhook of v1alpha5 would have refused, and misspelt fields."""
    findings = Findings()
    Field({"spec": spec}, findings)["spec"].known_keys(_PROVISIONER_SPEC)
    problems = list(findings.found)
    if spec.get("provider") and spec.get("providerRef"):
        problems.append((("spec", "providerRef"), "goes with provider never: name one of them"))
    if mapping(spec.get("consolidation")).get("enabled") and "ttlSecondsAfterEmpty" in spec:
        why = "goes with consolidation.enabled never: name one of them"
        problems.append((("spec", "ttlSecondsAfterEmpty"), why))
    return problems


def _seconds(number: Any) -> Any:
    if number is None:
        return "Never"
    whole = isinstance(number, int) and not isinstance(number, bool) and number >= 0
    return f"{number}s" if whole else number


def from_beta_node_pool(raw: Raw) -> Converted:
    """Turn a v1beta1 NodePool into today's."""
    remarks: list[Remark] = []
    spec = mapping(raw.get("spec"))
    template = mapping(spec.get("template"))
    inner = mapping(template.get("spec"))
    kubelet = mapping(inner.pop("kubelet", None))
    if inner.pop("resources", None):
        remarks.append((TEMPLATE, "resources was left out: a pool's template has none."))
    if isinstance(inner.get("nodeClassRef"), dict) and inner["nodeClassRef"]:
        inner["nodeClassRef"] = _group_and_kind(inner["nodeClassRef"])
    disruption = mapping(spec.get("disruption"))
    if "expireAfter" in disruption:
        inner["expireAfter"] = disruption.pop("expireAfter")
        if inner["expireAfter"] != "Never":
            remarks.append((_EXPIRY, f"Moved here from spec.disruption. {_FORCEFUL}"))
    if disruption.get("consolidationPolicy", "WhenUnderutilized") == "WhenUnderutilized":
        disruption["consolidationPolicy"] = "WhenEmptyOrUnderutilized"
        disruption.setdefault("consolidateAfter", "0s")
        remarks.append((_POLICY, "Was WhenUnderutilized, the same by its older name."))
    spec = {**spec, "template": {**template, "spec": inner}, "disruption": disruption}
    pool = Successor(
        value=successor_object(POOL_VERSION, "NodePool", raw, spec, status=True),
        old_paths=_BETA_PATHS,
        remarks=tuple(remarks),
    )
    return Converted((pool,), OldKubelet(kubelet, (*TEMPLATE, "kubelet")) if kubelet else None)


def from_beta_node_claim(raw: Raw) -> Converted:
    """Turn a v1beta1 NodeClaim into today's."""
    return _claim(raw, reference="nodeClassRef")


def from_machine(raw: Raw) -> Converted:
    """Turn a v1alpha5 Machine into a NodeClaim."""
    return _claim(raw, reference="machineTemplateRef")


def _claim(raw: Raw, *, reference: str) -> Converted:
    remarks: list[Remark] = [(("spec", "expireAfter"), "Was decided by the pool alone.")]
    renaming = Renaming(raw)
    remarks.extend(renaming.remarks)
    spec = mapping(renaming.value.get("spec"))
    if spec.pop("kubelet", None):
        remarks.append((("spec",), "kubelet was left out: it comes from the EC2NodeClass."))
    spec["nodeClassRef"] = _group_and_kind(mapping(spec.pop(reference, None)))
    spec.setdefault("expireAfter", "Never")
    claim = Successor(
        value=successor_object(POOL_VERSION, "NodeClaim", renaming.value, spec, status=True),
        old_paths=((("spec", "nodeClassRef"), ("spec", reference)),),
        remarks=tuple(remarks),
    )
    return Converted((claim,))
