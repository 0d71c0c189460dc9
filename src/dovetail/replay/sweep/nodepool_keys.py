"""Keys of a sweep that change NodePools: how a value is checked, and what it sets."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.karpenter.nodepools import decode_nodepool
from dovetail.core.instancetypes.type_names import category_and_generation
from dovetail.model import labels as label_keys
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.model.karpenter.nodepool import ConsolidationPolicy
from dovetail.trace.model import Object

_DURATION: Final = re.compile(r"([0-9]+(s|m|h))+")
_BUDGET: Final = re.compile(r"[0-9]{1,3}%|[0-9]+")
_SHARE: Final = re.compile(r"0(\.[0-9]{1,4})?|1(\.0{1,4})?")
_NEVER: Final = "Never"
SPOT_SHARE: Final = "spotShare"
SEPARATOR: Final = "+"
"""Between the parts of one value: commas separate the values of a key."""


class NodePoolKey(msgspec.Struct, frozen=True, kw_only=True):
    """A setting of NodePools that can be varied."""

    about: str
    check: Callable[[str], str]
    """Returns what is wrong about a value; empty: nothing."""
    change: Callable[[Object, str], Object]
    """Returns a NodePool with a value."""
    find_parts: Callable[[Catalog], Sequence[str]] | None = None
    """Returns the parts that a value may have; None: that does not depend on the catalogue."""
    in_template: bool = False
    """Nodes of another value have drifted: replays begin without the recorded nodes."""
    is_global: bool = False
    """It changes workloads, too, and cannot be varied for one NodePool."""


def _one_of(choices: Sequence[str]) -> Callable[[str], str]:
    return lambda text: "" if text in choices else f"{text!r} is not one of {', '.join(choices)}"


def _parts_of(choices: Sequence[str]) -> Callable[[str], str]:
    def check(text: str) -> str:
        wrong = [part for part in text.split(SEPARATOR) if part not in choices]
        joined = SEPARATOR.join(choices)
        return f"{wrong[0]!r} is not one of {', '.join(choices)}; join several: {joined}" if wrong else ""

    return check


def _find_categories(catalog: Catalog) -> list[str]:
    shapes = (category_and_generation(ec2_type.name) for ec2_type in catalog.instance_types)
    return sorted({category for category, _ in filter(None, shapes)})


def _check_duration(text: str) -> str:
    if text == _NEVER or _DURATION.fullmatch(text):
        return ""
    return f"{text!r} is not a duration; examples: 30s, 5m, 1h30m, {_NEVER}"


def _check_grace(text: str) -> str:
    return "" if _DURATION.fullmatch(text) else f"{text!r} is not a duration; examples: 30s, 5m, 1h30m"


def _check_budget(text: str) -> str:
    return (
        "" if _BUDGET.fullmatch(text) else f"{text!r} is not a number of nodes or a share; examples: 5, 10%"
    )


def _check_cpu(text: str) -> str:
    return "" if text.isdecimal() and int(text) > 0 else f"{text!r} is not a number of vCPUs; example: 16"


def _check_share(text: str) -> str:
    return "" if _SHARE.fullmatch(text) else f"{text!r} is not a share from 0 to 1; examples: 0, 0.5, 1"


def _allow_spot(pool: Object, text: str) -> Object:
    """Return a NodePool with spot and on-demand nodes, or without spot nodes for a share of 0."""
    requirements = pool["spec"]["template"]["spec"].get("requirements") or ()
    named = [entry for entry in requirements if entry.get("key") == label_keys.CAPACITY_TYPE]
    types = [label_keys.SPOT, label_keys.ON_DEMAND] if float(text) > 0 else [label_keys.ON_DEMAND]
    if any(
        entry.get("operator") == "In" and label_keys.RESERVED in (entry.get("values") or ())
        for entry in named
    ):
        types.append(label_keys.RESERVED)
    return _requirement(label_keys.CAPACITY_TYPE)(pool, SEPARATOR.join(types))


def _in_disruption(field: str) -> Callable[[Object, str], Object]:
    return lambda pool, text: _set(pool, ("spec", "disruption", field), text)


def _in_template(field: str) -> Callable[[Object, str], Object]:
    return lambda pool, text: _set(pool, ("spec", "template", "spec", field), text)


def _requirement(key: str, operator: str = "In") -> Callable[[Object, str], Object]:
    """Return a change that replaces all requirements of a label and operator."""

    def change(pool: Object, text: str) -> Object:
        spec = pool["spec"]["template"]["spec"]
        kept = [
            requirement
            for requirement in spec.get("requirements") or ()
            if requirement.get("key") != key or (operator != "In" and requirement.get("operator") != operator)
        ]
        added = {"key": key, "operator": operator, "values": text.split(SEPARATOR)}
        return _set(pool, ("spec", "template", "spec", "requirements"), [*kept, added])

    return change


def _set(value: Mapping[str, Any], path: Sequence[str], new: Any) -> Object:
    if not path:
        raise ValueError("a path has at least one step")
    first, *rest = path
    inner = value.get(first)
    changed = _set(inner if isinstance(inner, Mapping) else {}, rest, new) if rest else new
    return {**value, first: changed}


NODEPOOL_KEYS: Final[Mapping[str, NodePoolKey]] = {
    "consolidationPolicy": NodePoolKey(
        about=", ".join(ConsolidationPolicy),
        check=_one_of(list(ConsolidationPolicy)),
        change=_in_disruption("consolidationPolicy"),
    ),
    "consolidateAfter": NodePoolKey(
        about="30s, 10m, Never", check=_check_duration, change=_in_disruption("consolidateAfter")
    ),
    "budget": NodePoolKey(
        about="nodes disrupted at once, instead of all budgets: 5, 10%",
        check=_check_budget,
        change=lambda pool, text: _set(pool, ("spec", "disruption", "budgets"), [{"nodes": text}]),
    ),
    "expireAfter": NodePoolKey(
        about="24h, Never", check=_check_duration, change=_in_template("expireAfter"), in_template=True
    ),
    "terminationGracePeriod": NodePoolKey(
        about="1h", check=_check_grace, change=_in_template("terminationGracePeriod"), in_template=True
    ),
    "capacityTypes": NodePoolKey(
        about="spot, on-demand, spot+on-demand",
        check=_parts_of(("spot", "on-demand", "reserved")),
        change=_requirement(label_keys.CAPACITY_TYPE),
        in_template=True,
    ),
    SPOT_SHARE: NodePoolKey(
        about="share of the demand that may run on spot: 0, 0.5, 1",
        check=_check_share,
        change=_allow_spot,
        in_template=True,
        is_global=True,
    ),
    "architectures": NodePoolKey(
        about="amd64, arm64, amd64+arm64",
        check=_parts_of(("amd64", "arm64")),
        change=_requirement(label_keys.ARCH),
        in_template=True,
    ),
    "instanceCategories": NodePoolKey(
        about="c+m+r",
        check=lambda text: "" if re.fullmatch(r"[a-z]+(\+[a-z]+)*", text) else f"{text!r} is not c+m+r",
        change=_requirement("karpenter.k8s.aws/instance-category"),
        find_parts=_find_categories,
        in_template=True,
    ),
    "maxCpu": NodePoolKey(
        about="largest instance type, in vCPUs: 16",
        check=_check_cpu,
        change=lambda pool, text: _requirement("karpenter.k8s.aws/instance-cpu", "Lt")(
            pool, str(int(text) + 1)
        ),
        in_template=True,
    ),
}


_NODEPOOL: Final[Object] = {
    "apiVersion": "karpenter.sh/v1",
    "kind": "NodePool",
    "metadata": {"name": "any"},
    "spec": {
        "template": {
            "spec": {
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "any"},
                "requirements": [],
            }
        }
    },
}


def check_value(key: str, text: str, catalog: Catalog) -> str:
    """Return what is wrong about a value; empty: nothing.

    Its form, the catalogue and the rules of the API decide.
    """
    setting = NODEPOOL_KEYS[key]
    problem = setting.check(text)
    if problem:
        return problem
    if setting.find_parts is not None:
        parts = setting.find_parts(catalog)
        wrong = [part for part in text.split(SEPARATOR) if part not in parts]
        if wrong:
            return f"{wrong[0]!r} is not one of {', '.join(parts)}"
    context = DecodeContext()
    decode_nodepool(Field(setting.change(_NODEPOOL, text), context))
    return next((message for _, message in context.errors), "")


class PoolChanges(msgspec.Struct, frozen=True):
    """Values of keys for NodePools; called with a NodePool, returns the changed one."""

    values: tuple[tuple[str, str, str], ...]
    """Name of the NodePool (empty: all), key and value."""

    def __call__(self, pool: Object) -> Object:
        for name, key, text in self.values:
            if name in ("", pool["metadata"]["name"]):
                pool = NODEPOOL_KEYS[key].change(pool, text)
        return pool

    @property
    def spot_share(self) -> float | None:
        """Share of the demand that may run on spot; None: as the trace says."""
        return next((float(text) for _, key, text in self.values if key == SPOT_SHARE), None)

    @property
    def is_in_template(self) -> bool:
        """True if one of them makes recorded nodes drift."""
        return any(NODEPOOL_KEYS[key].in_template for _, key, _ in self.values)


def split_key(text: str) -> tuple[str, str]:
    """Return NodePool and key of ``spot.consolidateAfter``; without a NodePool, all are meant."""
    pool, _, key = text.rpartition(".")
    return pool, key


def describe_keys(keys: Iterable[str]) -> str:
    """Return keys with their values, for the help."""
    return "; ".join(f"{key} ({NODEPOOL_KEYS[key].about})" for key in keys)
