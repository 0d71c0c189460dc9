"""Minimal valid objects of every kind, for tests to modify."""

from typing import Any, NamedTuple

Object = dict[str, Any]
CLASS_REF = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


class Rejected(NamedTuple):
    """An object that the API server must reject."""

    description: str
    """The error, as test ID."""
    object: Object
    message: str
    """Part of the error message of the API server."""


def a_pool(**spec: Any) -> Object:
    """Return a NodePool with the given spec fields."""
    whole = {"template": {"spec": {"requirements": [], "nodeClassRef": CLASS_REF}}, **spec}
    return _object("karpenter.sh/v1", "NodePool", whole)


def with_template(**spec: Any) -> Object:
    """Return a NodePool with the given template spec fields; None removes a field."""
    inner = {"requirements": [], "nodeClassRef": CLASS_REF, **spec}
    return a_pool(template={"spec": _drop_none(inner)})


def with_labels(labels: dict[str, str]) -> Object:
    """Return a NodePool with template labels."""
    inner = {"requirements": [], "nodeClassRef": CLASS_REF}
    return a_pool(template={"metadata": {"labels": labels}, "spec": inner})


def requirement(key: str, operator: str, *values: str, **more: Any) -> dict[str, Any]:
    """Return a requirement."""
    return {"key": key, "operator": operator, "values": list(values), **more}


def with_requirements(*demands: dict[str, Any]) -> Object:
    """Return a NodePool with requirements."""
    return with_template(requirements=list(demands))


def with_budget(**budget: Any) -> Object:
    """Return a NodePool with one budget."""
    return a_pool(disruption={"budgets": [budget]})


def a_claim(**spec: Any) -> Object:
    whole = {"requirements": [], "nodeClassRef": CLASS_REF, **spec}
    return _object("karpenter.sh/v1", "NodeClaim", _drop_none(whole))


def a_class(**spec: Any) -> Object:
    """Return an EC2NodeClass with the given spec fields; None removes a field."""
    whole = {
        "role": "nodes",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"team": "a"}}],
        "securityGroupSelectorTerms": [{"tags": {"team": "a"}}],
        **spec,
    }
    return _object("karpenter.k8s.aws/v1", "EC2NodeClass", _drop_none(whole))


def with_amis(*terms: dict[str, Any], family: str | None = "AL2023") -> Object:
    return a_class(amiSelectorTerms=list(terms), amiFamily=family)


def with_disks(*disks: dict[str, Any]) -> Object:
    return a_class(blockDeviceMappings=[{"deviceName": "/dev/xvda", "ebs": disk} for disk in disks])


def with_interfaces(*places: tuple[int, int, str]) -> Object:
    names = ("networkCardIndex", "deviceIndex", "interfaceType")
    return a_class(networkInterfaces=[dict(zip(names, place, strict=True)) for place in places])


def an_overlay(**spec: Any) -> Object:
    return _object("karpenter.sh/v1alpha1", "NodeOverlay", {"requirements": [], **spec})


def a_buffer(**spec: Any) -> Object:
    return _object("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer", spec)


def _object(api_version: str, kind: str, spec: dict[str, Any]) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "one"}, "spec": spec}


def _drop_none(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
