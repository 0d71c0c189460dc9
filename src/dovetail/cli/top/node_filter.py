"""Order and filter of the node list."""

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, Final

import msgspec

from dovetail.cli.top.format import get_share
from dovetail.errors import DovetailError
from dovetail.view.document import NodeState, NodeView

SORTS: Final[dict[str, Callable[[NodeView], Any]]] = {
    "price": lambda node: -(node.price_per_hour if node.price_per_hour is not None else -1.0),
    "cpu": lambda node: get_share(node.cpu),
    "memory": lambda node: get_share(node.memory),
    "pods": lambda node: -node.pods.requested,
    "age": lambda node: node.created_at.timestamp() if node.created_at else 0.0,
    "name": lambda node: node.name,
    "type": lambda node: node.instance_type,
    "zone": lambda node: node.zone,
    "pool": lambda node: node.node_pool,
    "state": lambda node: (node.state is NodeState.READY, node.state.value),
    "why": lambda node: node.keep.code if node.keep else "",
}
"""Keys to sort by: the most expensive, emptiest or oldest node first."""

_TEXT_FIELDS: Final[dict[str, Callable[[NodeView], str]]] = {
    "name": lambda node: node.name,
    "claim": lambda node: node.node_claim,
    "pool": lambda node: node.node_pool,
    "zone": lambda node: node.zone,
    "type": lambda node: node.instance_type,
    "capacity": lambda node: node.capacity_type,
    "arch": lambda node: node.arch,
    "state": lambda node: node.state.value,
    "why": lambda node: f"{node.keep.code} {node.keep.message}" if node.keep else "",
    "pod": lambda node: " ".join(pod.name for workload in node.workloads for pod in workload.pods),
    "workload": lambda node: " ".join(f"{each.namespace}/{each.name}" for each in node.workloads),
}
_NUMBER_FIELDS: Final[dict[str, Callable[[NodeView], float]]] = {
    "cpu": lambda node: get_share(node.cpu) * 100,
    "memory": lambda node: get_share(node.memory) * 100,
    "price": lambda node: node.price_per_hour or 0.0,
    "pods": lambda node: float(node.pods.requested),
}
"""Percentages, USD per hour and counts."""
_WORD_FIELDS: Final = ("name", "claim", "pool", "zone", "type", "capacity", "state", "why")
"""Where a word without a field is looked up."""

Term = Callable[[NodeView], bool]


class FilterError(DovetailError):
    """A filter cannot be parsed."""


class NodeFilter(msgspec.Struct, frozen=True):
    """Terms that all have to hold."""

    text: str = ""
    terms: tuple[Term, ...] = ()

    def matches(self, node: NodeView) -> bool:
        return all(term(node) for term in self.terms)


def parse_filter(text: str) -> NodeFilter:
    """Parse ``pool=web zone!=us-east-1a cpu<30 spot``; raise ``FilterError``."""
    return NodeFilter(text.strip(), tuple(_parse_term(term) for term in text.lower().split()))


def sort_nodes(nodes: Iterable[NodeView], key: str, *, reverse: bool = False) -> list[NodeView]:
    """Return nodes in order; equal ones by name."""
    get = SORTS[key]
    by_name = sorted(nodes, key=lambda node: node.name)
    return sorted(by_name, key=get, reverse=reverse)


def _parse_term(term: str) -> Term:
    for sign in ("!=", "<", ">", "="):
        field, separator, value = term.partition(sign)
        if not separator:
            continue
        if sign in ("<", ">"):
            return _compare(field, sign, value)
        return _contain(field, value, negated=sign == "!=")
    return lambda node: any(term in _TEXT_FIELDS[field](node).lower() for field in _WORD_FIELDS)


def _contain(field: str, value: str, *, negated: bool) -> Term:
    get = _TEXT_FIELDS.get(field)
    if get is None:
        hint = f" {field} takes < or >: {field}>{value}." if field in _NUMBER_FIELDS else ""
        raise FilterError(_unknown(field, _TEXT_FIELDS) + hint)
    values = [each for each in value.split(",") if each]
    return lambda node: any(each in get(node).lower() for each in values) is not negated


def _compare(field: str, sign: str, value: str) -> Term:
    get = _NUMBER_FIELDS.get(field)
    if get is None:
        raise FilterError(_unknown(field, _NUMBER_FIELDS))
    try:
        limit = float(value.strip("%$"))
    except ValueError:
        raise FilterError(f"{value!r} is not a number; write, for example, {field}{sign}30") from None
    if sign == "<":
        return lambda node: get(node) < limit
    return lambda node: get(node) > limit


def _unknown(field: str, fields: Iterable[str]) -> str:
    names = list(fields)
    close = get_close_matches(field, names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(names)}"
    return f"{field!r} is not a field; {hint}"
