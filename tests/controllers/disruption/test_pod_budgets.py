"""PodDisruptionBudgets of pods, as budgets come, change and go."""

import pytest

from dovetail.controllers.disruption.pod_budgets import PodBudgets
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.kube.workloads import PodDisruptionBudget
from dovetail.ports.api_resources import POD_DISRUPTION_BUDGETS
from dovetail.state.cluster.cache import ClusterCache


def a_budget(name: str, app: str, allowed: int) -> PodDisruptionBudget:
    selector = LabelSelector(match_labels=FrozenDict({"app": app}))
    return PodDisruptionBudget(namespace="default", name=name, selector=selector, disruptions_allowed=allowed)


def a_pod(app: str, namespace: str = "default") -> Pod:
    return Pod(namespace=namespace, name=f"{app}-1", uid=app, labels=FrozenDict({"app": app}))


class Budgets:
    """Budgets of a cluster that has one, `web`, for the pods of app `web`; one disruption is allowed."""

    def __init__(self) -> None:
        cache = ClusterCache()
        self.store = cache.stores[POD_DISRUPTION_BUDGETS]
        self.store.load([a_budget("web", "web", 1)])
        self.budgets = PodBudgets(cache)
        self.budgets.refresh()

    def refresh(self, *changed: PodDisruptionBudget) -> PodBudgets:
        """Return the budgets after a change."""
        self.store.load(changed)
        self.budgets.refresh()
        return self.budgets


@pytest.fixture
def given() -> Budgets:
    return Budgets()


def test_pod_has_the_budgets_that_select_it() -> None:
    cache = ClusterCache()
    cache.stores[POD_DISRUPTION_BUDGETS].load([a_budget("web", "web", 1), a_budget("db", "db", 0)])
    budgets = PodBudgets(cache)

    budgets.refresh()

    assert [budget.name for budget in budgets.get(a_pod("web"))] == ["web"]
    assert budgets.get(a_pod("web", namespace="other")) == ()
    assert budgets.exhausted == {("default", "db")}


def test_change_of_the_status_keeps_the_selectors(given: Budgets) -> None:
    version = given.budgets.selectors_version
    assert given.budgets.get(a_pod("web"))[0].disruptions_allowed == 1

    budgets = given.refresh(a_budget("web", "web", 0))

    assert budgets.selectors_version == version
    assert budgets.get(a_pod("web"))[0].disruptions_allowed == 0
    assert budgets.exhausted == {("default", "web")}


def test_new_budget_is_found_for_pods_seen_before(given: Budgets) -> None:
    version = given.budgets.selectors_version
    assert len(given.budgets.get(a_pod("web"))) == 1

    budgets = given.refresh(a_budget("web-too", "web", 1))

    assert budgets.selectors_version > version
    assert len(budgets.get(a_pod("web"))) == 2
