"""Selector terms in EC2's words."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from dovetail.model.karpenter.ec2nodeclass_launch import SelectorTerm

ANY: Final = "*"
Filters = list[dict[str, Any]]


def filters_of(terms: Iterable[SelectorTerm], *, id_key: str, name_key: str = "") -> list[Filters]:
    """Return the queries whose answers together are what the terms find.

    All ids go in one query and all names in another; of a term that says more
    than one thing the id counts, then the name, then the tags.
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
    """Write tags as filters, which all must hold."""
    for key, value in tags.items():
        if value == ANY:
            yield {"Name": "tag-key", "Values": [key]}
        else:
            yield {"Name": f"tag:{key}", "Values": [value]}


def spelled(terms: Iterable[SelectorTerm]) -> str:
    """Write terms for people: ``id subnet-1, or tags team=a``."""
    return ", or ".join(_spelled(term) for term in terms) or "nothing"


def _spelled(term: SelectorTerm) -> str:
    tags = ", ".join(f"{key}={value}" for key, value in term.tags.items())
    said = {
        "id": term.id,
        "name": term.name,
        "alias": term.alias,
        "ssmParameter": term.ssm_parameter,
        "tags": tags,
        "owner": term.owner,
        "instanceMatchCriteria": term.match_criteria,
    }
    return " and ".join(f"{name} {value}" for name, value in said.items() if value)
