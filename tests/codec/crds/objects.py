"""Smallest good objects of every kind, to be changed by tests."""

from typing import Any, NamedTuple

Object = dict[str, Any]
CLASS_REF = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}


class Refused(NamedTuple):
    """An object that nobody may create."""

    what: str
    """What is wrong with it."""
    object: Object
    told: str
    """Part of what an API server says."""


def a_pool(**spec: Any) -> Object:
    """A pool; fields of its spec as given."""
    whole = {"template": {"spec": {"requirements": [], "nodeClassRef": CLASS_REF}}, **spec}
    return _object("karpenter.sh/v1", "NodePool", whole)


def templated(**spec: Any) -> Object:
    """A pool; fields of its template's spec as given, None for not there."""
    inner = {"requirements": [], "nodeClassRef": CLASS_REF, **spec}
    return a_pool(template={"spec": _present(inner)})


def labelled(labels: dict[str, str]) -> Object:
    """A pool with labels."""
    inner = {"requirements": [], "nodeClassRef": CLASS_REF}
    return a_pool(template={"metadata": {"labels": labels}, "spec": inner})


def demand(key: str, operator: str, *values: str, **more: Any) -> dict[str, Any]:
    """A requirement."""
    return {"key": key, "operator": operator, "values": list(values), **more}


def requiring(*demands: dict[str, Any]) -> Object:
    """A pool with requirements."""
    return templated(requirements=list(demands))


def budgeted(**budget: Any) -> Object:
    """A pool with one budget."""
    return a_pool(disruption={"budgets": [budget]})


def a_claim(**spec: Any) -> Object:
    whole = {"requirements": [], "nodeClassRef": CLASS_REF, **spec}
    return _object("karpenter.sh/v1", "NodeClaim", _present(whole))


def a_class(**spec: Any) -> Object:
    """A node class; fields of its spec as given, None for not there."""
    whole = {
        "role": "nodes",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"team": "a"}}],
        "securityGroupSelectorTerms": [{"tags": {"team": "a"}}],
        **spec,
    }
    return _object("karpenter.k8s.aws/v1", "EC2NodeClass", _present(whole))


def with_images(*terms: dict[str, Any], family: str | None = "AL2023") -> Object:
    return a_class(amiSelectorTerms=list(terms), amiFamily=family)


def with_disks(*disks: dict[str, Any]) -> Object:
    return a_class(blockDeviceMappings=[{"deviceName": "/dev/xvda", "ebs": one} for one in disks])


def with_interfaces(*places: tuple[int, int, str]) -> Object:
    names = ("networkCardIndex", "deviceIndex", "interfaceType")
    return a_class(networkInterfaces=[dict(zip(names, place, strict=True)) for place in places])


def an_overlay(**spec: Any) -> Object:
    return _object("karpenter.sh/v1alpha1", "NodeOverlay", {"requirements": [], **spec})


def a_buffer(**spec: Any) -> Object:
    return _object("autoscaling.x-k8s.io/v1beta1", "CapacityBuffer", spec)


def _object(api_version: str, kind: str, spec: dict[str, Any]) -> Object:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "one"}, "spec": spec}


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
