"""PodDisruptionBudgets that allow nothing even when all is well."""

from collections.abc import Iterator

from dovetail.doctor.facts import Facts
from dovetail.doctor.object_fields import at
from dovetail.ports.api_resources import POD_DISRUPTION_BUDGETS
from dovetail.ports.kube_client import Object


def blocking(facts: Facts) -> Iterator[Object]:
    """Hand out budgets at rest with nothing allowed."""
    for one in facts.of(POD_DISRUPTION_BUDGETS):
        status = at(one, "status") or {}
        expected = int(status.get("expectedPods") or 0)
        if (
            expected
            and int(status.get("currentHealthy") or 0) >= expected
            and not int(status.get("disruptionsAllowed") or 0)
        ):
            yield one
