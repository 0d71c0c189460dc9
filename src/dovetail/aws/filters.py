"""Selector terms of node classes as EC2 filters."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from dovetail.model.karpenter.ec2nodeclass_launch import SelectorTerm

ANY: Final = "*"
Filters = list[dict[str, Any]]


def selector_filters(terms: Iterable[SelectorTerm], *, id_key: str, name_key: str = "") -> list[Filters]:
    """Return the Describe queries whose results together are what the terms select.

    All ids share one query, and all names another. Of a term with several
    fields the id counts, then the name, then the tags.
    """
    ids: list[str] = []
    names: list[str] = []
    queries: list[Filters] = []
    for term in terms:
        if term.id:
            ids.append(term.id)
        elif term.name and name_key:
            names.append(term.name)
        elif term.tags:
            queries.append(list(tag_filters(term.tags)))
    if names:
        queries.insert(0, [{"Name": name_key, "Values": names}])
    if ids:
        queries.insert(0, [{"Name": id_key, "Values": ids}])
    return queries


def tag_filters(tags: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield a filter per tag; EC2 combines filters with AND."""
    for key, value in tags.items():
        if value == ANY:
            yield {"Name": "tag-key", "Values": [key]}
        else:
            yield {"Name": f"tag:{key}", "Values": [value]}


def format_terms(terms: Iterable[SelectorTerm]) -> str:
    """Return terms for messages: ``id subnet-1, or tags team=a``."""
    return ", or ".join(_format_term(term) for term in terms) or "nothing"


def _format_term(term: SelectorTerm) -> str:
    tags = ", ".join(f"{key}={value}" for key, value in term.tags.items())
    fields = {
        "id": term.id,
        "name": term.name,
        "alias": term.alias,
        "ssmParameter": term.ssm_parameter,
        "tags": tags,
        "owner": term.owner,
        "instanceMatchCriteria": term.match_criteria,
    }
    return " and ".join(f"{name} {value}" for name, value in fields.items() if value)
