"""Whether an eviction kept to the PodDisruptionBudgets, judged from the pods alone."""

from collections.abc import Iterator
from math import ceil

from dovetail.ports.api_resources import POD_DISRUPTION_BUDGETS, PODS
from dovetail.ports.kube_client import Object
from dovetail.simulator.apiserver.options import ListOptions
from dovetail.simulator.apiserver.pdb import is_healthy
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.frozen_object import look
from dovetail.simulator.apiserver.storage.selectors import labels_match, terms_of


def broken_budgets(api: ApiServer, pod: Object) -> Iterator[str]:
    """Name the budgets that have fewer healthy pods than they demand, now that one goes.

    ``pod`` is as it was before: one that was not ready, or was going already,
    takes nothing away from anybody.
    """
    if not is_healthy(pod):
        return
    namespace = pod["metadata"]["namespace"]
    here = ListOptions(namespace=namespace)
    for budget in api.list(POD_DISRUPTION_BUDGETS, here).items:
        if not _covers(budget, pod):
            continue
        pods = [one for one in api.list(PODS, here).items if _covers(budget, one)]
        healthy, least = sum(map(is_healthy, pods)), _least(budget)
        if healthy < least:
            title = budget["metadata"]["name"]
            yield f"budget {namespace}/{title}: {healthy} healthy, {least} wanted"


def _covers(budget: Object, pod: Object) -> bool:
    selector = look(budget, "spec", "selector")
    labels = pod["metadata"].get("labels") or {}
    return selector is not None and labels_match(terms_of(selector), labels)


def _least(budget: Object) -> int:
    """Return how many pods must stay, of as many as the budget says are expected."""
    expected = look(budget, "status", "expectedPods") or 0
    spec = budget["spec"]
    if "maxUnavailable" in spec:
        return max(0, expected - _share(spec["maxUnavailable"], expected))
    return _share(spec.get("minAvailable", 0), expected)


def _share(amount: int | str, whole: int) -> int:
    if isinstance(amount, int):
        return amount
    return ceil(int(amount.removesuffix("%")) * whole / 100)
