"""Older Karpenter objects, turned into what they mean today.

Works on raw objects: v1alpha5 Provisioner and AWSNodeTemplate, v1beta1
NodePool and EC2NodeClass become v1 objects, which are then read like any
other. What a user of the old object never wrote but its webhook filled in
(linux, amd64, on-demand, families c, m, r) is written out.
"""

from typing import Any

import msgspec

from dovetail.codec.legacyclasses import class_from_provider
from dovetail.codec.paths import Path
from dovetail.model import labels as keys

Raw = dict[str, Any]

_CATEGORY = f"{keys.AWS_DOMAIN}/instance-category"
_GENERATION = f"{keys.AWS_DOMAIN}/instance-generation"
_FAMILY = f"{keys.AWS_DOMAIN}/instance-family"
_NARROWING = (keys.INSTANCE_TYPE, _FAMILY, _CATEGORY, _GENERATION)
_OLD_POOL_LABEL = "karpenter.sh/provisioner-name"


class Converted(msgspec.Struct, frozen=True):
    """The v1 objects that an old one becomes."""

    objects: tuple[Raw, ...]
    old_paths: tuple[tuple[Path, Path], ...] = ()
    """New prefix → old prefix, longest first: a mistake is shown where the user wrote it."""
    kubelet: Raw | None = None
    """Kubelet settings of a pool; they belong to its node class today."""
    problem: tuple[Path, str] | None = None

    def old_path(self, path: Path) -> Path:
        """Return where the value at a new path stood in the old object."""
        for new, old in self.old_paths:
            if path[: len(new)] == new:
                return old + path[len(new) :]
        return path


_ALPHA_PATHS: tuple[tuple[Path, Path], ...] = (
    (("spec", "template", "spec", "nodeClassRef"), ("spec", "providerRef")),
    (("spec", "template", "spec", "expireAfter"), ("spec", "ttlSecondsUntilExpired")),
    (("spec", "template", "spec"), ("spec",)),
    (("spec", "template", "metadata"), ("spec",)),
    (("spec", "limits"), ("spec", "limits", "resources")),
    (("spec", "disruption", "consolidateAfter"), ("spec", "ttlSecondsAfterEmpty")),
    (("spec", "disruption"), ("spec", "consolidation")),
)
_BETA_PATHS: tuple[tuple[Path, Path], ...] = (
    (("spec", "template", "spec", "expireAfter"), ("spec", "disruption", "expireAfter")),
)


def from_provisioner(raw: Raw) -> Converted:
    """Turn a v1alpha5 Provisioner into a NodePool, and a node class if it has one inside."""
    spec = _map(raw.get("spec"))
    name = _map(raw.get("metadata")).get("name")
    template: Raw = {"requirements": _with_webhook_defaults(spec.get("requirements"))}
    for key in ("taints", "startupTaints"):
        if spec.get(key):
            template[key] = spec[key]
    inline = spec.get("provider")
    class_name = name if inline else _map(spec.get("providerRef")).get("name", "default")
    template["nodeClassRef"] = _class_ref(class_name)
    template["expireAfter"] = _seconds(spec.get("ttlSecondsUntilExpired"))
    pool_spec: Raw = {
        "template": _template(spec, template),
        "disruption": _alpha_disruption(spec),
    }
    if _map(spec.get("limits")).get("resources"):
        pool_spec["limits"] = spec["limits"]["resources"]
    if spec.get("weight") is not None:
        pool_spec["weight"] = spec["weight"]
    objects = [_object("karpenter.sh/v1", "NodePool", raw, pool_spec)]
    problem = None
    if inline:
        class_spec, problem = class_from_provider(_map(inline), ("spec", "provider"))
        objects.append(_object("karpenter.k8s.aws/v1", "EC2NodeClass", raw, class_spec))
    kubelet = _map(spec.get("kubeletConfiguration"))
    kubelet.pop("containerRuntime", None)
    return Converted(tuple(objects), _ALPHA_PATHS, kubelet or None, problem)


def from_beta_node_pool(raw: Raw) -> Converted:
    """Turn a v1beta1 NodePool into today's."""
    spec = _map(raw.get("spec"))
    template = _map(spec.get("template"))
    inner = _map(template.get("spec"))
    kubelet = _map(inner.pop("kubelet", None))
    inner.pop("resources", None)
    reference = _map(inner.get("nodeClassRef"))
    if reference:
        group = str(reference.pop("apiVersion", "") or keys.AWS_DOMAIN).split("/")[0]
        reference.setdefault("group", group)
        reference.setdefault("kind", "EC2NodeClass")
        inner["nodeClassRef"] = reference
    disruption = _map(spec.get("disruption"))
    if "expireAfter" in disruption:
        inner["expireAfter"] = disruption.pop("expireAfter")
    if disruption.get("consolidationPolicy", "WhenUnderutilized") == "WhenUnderutilized":
        disruption["consolidationPolicy"] = "WhenEmptyOrUnderutilized"
        disruption.setdefault("consolidateAfter", "0s")
    spec = {**spec, "template": {**template, "spec": inner}, "disruption": disruption}
    pool = _object("karpenter.sh/v1", "NodePool", raw, spec, status=True)
    return Converted((pool,), _BETA_PATHS, kubelet or None)


def from_node_template(raw: Raw) -> Converted:
    """Turn a v1alpha1 AWSNodeTemplate into an EC2NodeClass."""
    spec, problem = class_from_provider(_map(raw.get("spec")), ("spec",))
    changed = _object("karpenter.k8s.aws/v1", "EC2NodeClass", raw, spec)
    return Converted((changed,), problem=problem)


def from_beta_node_class(raw: Raw) -> Converted:
    """Turn a v1beta1 EC2NodeClass into today's; an image family becomes an alias."""
    spec = _map(raw.get("spec"))
    family = spec.get("amiFamily")
    if family == "Ubuntu":
        spec["amiFamily"] = "AL2"
        spec.setdefault("amiSelectorTerms", [{"id": "ami-placeholder"}])
    elif not spec.get("amiSelectorTerms") and family not in (None, "Custom"):
        spec["amiSelectorTerms"] = [{"alias": f"{str(family).lower()}@latest"}]
        del spec["amiFamily"]
    changed = _object("karpenter.k8s.aws/v1", "EC2NodeClass", raw, spec, status=True)
    return Converted((changed,))


def _with_webhook_defaults(written: Any) -> list[Any]:
    requirements = [_renamed(one) for one in written] if isinstance(written, list) else []
    named = {keys.stable_key(str(one.get("key"))) for one in requirements if isinstance(one, dict)}
    for key, value in (
        (keys.OS, "linux"),
        (keys.ARCH, "amd64"),
        (keys.CAPACITY_TYPE, keys.ON_DEMAND),
    ):
        if key not in named:
            requirements.append({"key": key, "operator": "In", "values": [value]})
    if not named.intersection(_NARROWING):
        requirements.append({"key": _CATEGORY, "operator": "In", "values": ["c", "m", "r"]})
        requirements.append({"key": _GENERATION, "operator": "Gt", "values": ["2"]})
    return requirements


def _renamed(requirement: Any) -> Any:
    if isinstance(requirement, dict) and requirement.get("key") == _OLD_POOL_LABEL:
        return {**requirement, "key": keys.NODEPOOL}
    return requirement


def _template(spec: Raw, inner: Raw) -> Raw:
    meta = {key: spec[key] for key in ("labels", "annotations") if spec.get(key)}
    return {"metadata": meta, "spec": inner} if meta else {"spec": inner}


def _alpha_disruption(spec: Raw) -> Raw:
    if _map(spec.get("consolidation")).get("enabled"):
        return {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}
    empty = spec.get("ttlSecondsAfterEmpty")
    return {"consolidationPolicy": "WhenEmpty", "consolidateAfter": _seconds(empty)}


def _seconds(number: Any) -> Any:
    if number is None:
        return "Never"
    return f"{number}s" if isinstance(number, int) else number


def _class_ref(name: Any) -> Raw:
    return {"group": keys.AWS_DOMAIN, "kind": "EC2NodeClass", "name": name}


def _object(api_version: str, kind: str, raw: Raw, spec: Raw, *, status: bool = False) -> Raw:
    meta = _map(raw.get("metadata"))
    changed: Raw = {"apiVersion": api_version, "kind": kind, "metadata": meta, "spec": spec}
    if status and raw.get("status"):
        changed["status"] = raw["status"]
    return changed


def _map(value: Any) -> Raw:
    """Return a copy of a map that may be changed; anything else counts as empty."""
    return dict(value) if isinstance(value, dict) else {}
