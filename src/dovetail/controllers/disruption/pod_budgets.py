"""PodDisruptionBudgets of pods, looked up by labels: replicas share them."""

from typing import Final

from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.kube.workloads import PodDisruptionBudget
from dovetail.ports.api_resources import POD_DISRUPTION_BUDGETS
from dovetail.state.cluster.cache import ClusterCache

BudgetKey = tuple[str, str]
"""Namespace and name of a PodDisruptionBudget."""
_MAX_LABELS: Final = 10_000
"""Distinct labels that are remembered: jobs may have labels of their own."""


class PodBudgets:
    """PodDisruptionBudgets as of the last ``refresh``."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._all: tuple[PodDisruptionBudget, ...] | None = None
        self._budgets: dict[BudgetKey, PodDisruptionBudget] = {}
        self._selectors: dict[BudgetKey, LabelSelector | None] = {}
        self._namespaces: set[str] = set()
        self._keys_by_labels: dict[tuple[str, FrozenDict[str, str]], tuple[BudgetKey, ...]] = {}
        self.selectors_version = 0
        """Increases when a budget selects other pods than before."""
        self.exhausted: frozenset[BudgetKey] = frozenset()
        """Budgets that allow no disruption now."""

    def refresh(self) -> None:
        """Read the budgets of the cluster cache."""
        budgets: tuple[PodDisruptionBudget, ...] = self._cache.stores[POD_DISRUPTION_BUDGETS].all()
        if budgets is self._all:
            return
        self._all = budgets
        self._budgets = {(budget.namespace, budget.name): budget for budget in budgets}
        self.exhausted = frozenset(
            key for key, budget in self._budgets.items() if budget.disruptions_allowed <= 0
        )
        selectors = {key: budget.selector for key, budget in self._budgets.items()}
        if selectors != self._selectors:
            self._selectors = selectors
            self._namespaces = {budget.namespace for budget in budgets}
            self._keys_by_labels.clear()
            self.selectors_version += 1

    def get(self, pod: Pod) -> tuple[PodDisruptionBudget, ...]:
        """Return the budgets that select a pod."""
        return tuple(self._budgets[key] for key in self.get_keys(pod))

    def get_keys(self, pod: Pod) -> tuple[BudgetKey, ...]:
        """Return the keys of the budgets that select a pod."""
        if pod.namespace not in self._namespaces:
            return ()
        labels = (pod.namespace, pod.labels)
        keys = self._keys_by_labels.get(labels)
        if keys is None:
            if len(self._keys_by_labels) >= _MAX_LABELS:
                self._keys_by_labels.clear()
            selecting = (
                key
                for key, selector in self._selectors.items()
                if key[0] == pod.namespace and selector is not None and selector.matches(pod.labels)
            )
            keys = self._keys_by_labels[labels] = tuple(selecting)
        return keys
