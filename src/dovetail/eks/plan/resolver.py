"""Where the values behind references come from."""

from collections.abc import Collection, Mapping
from typing import Any

from dovetail.eks.plan.known_attributes import predicted
from dovetail.eks.plan.references import AWS, Reference, Unresolved
from dovetail.eks.plan.resource import Observed, Resource


def found(
    reference: Reference,
    *,
    observed: Observed,
    wanted: Mapping[str, Resource],
    made: Mapping[str, Mapping[str, Any]] | None = None,
    without: Collection[str] = (),
) -> Any:
    """Return what a reference stands for; raises ``Unresolved`` while nobody knows.

    ``made`` are the attributes of what a run has made so far, by address: they
    win. What is in ``without`` will be made anew, so what it is now is worth
    nothing. What a name decides is known even before the thing is there.
    """
    address, attribute = reference.address, reference.attribute
    if address == AWS:
        return observed.account.attribute(attribute)
    existing = observed.resources.get(address)
    sources: list[Mapping[str, Any]] = [made.get(address, {})] if made else []
    if existing is not None and address not in without:
        sources.append(existing.attributes)
    if address in wanted and not wanted[address].given:
        sources.append(predicted(wanted[address], observed.account))
    for known in sources:
        if attribute in known:
            return known[attribute]
    raise Unresolved(reference)
