"""An account in memory: steps change the observed state, and nothing else."""

from collections.abc import Iterable
from typing import Any

import msgspec

from dovetail.eks.plan.planner import Action, Plan, Step
from dovetail.eks.plan.references import Reference, resolve_references
from dovetail.eks.plan.resolver import predict_attributes, resolve_reference
from dovetail.eks.plan.resource import Account, DesiredResource, ObservedResource, ObservedState
from dovetail.eks.plan.resource_kinds import KINDS
from tests.support.eks.configs import ACCOUNT


class InMemoryAccount:
    """Executes steps as AWS would, and rejects what AWS would reject."""

    def __init__(self, desired: Iterable[DesiredResource], account: Account = ACCOUNT) -> None:
        self.desired = {resource.address: resource for resource in desired}
        self.account = account
        self.resources: dict[str, ObservedResource] = {}
        self.writes = 0
        self._created = 0
        self._dependents: dict[str, list[str]] = {}
        for resource in self.desired.values():
            for dependency in resource.dependencies():
                self._dependents.setdefault(dependency, []).append(resource.address)
        for resource in self.desired.values():
            if resource.external:
                self.resources[resource.address] = self._to_observed(resource)

    def observed(self) -> ObservedState:
        return ObservedState(account=self.account, resources=dict(self.resources))

    def run(self, plan: Plan, *, steps: int | None = None) -> None:
        """Execute a plan, or its first steps, as if it was interrupted."""
        done: set[str] = set()
        for step in plan.steps[:steps]:
            assert done.issuperset(step.depends_on), f"{step.id} came before {step.depends_on}"
            self.execute(step)
            done.add(step.id)

    def execute(self, step: Step) -> None:
        self.writes += 1
        if step.action is Action.DELETE:
            dependents = [
                resource for resource in self._dependents.get(step.address, ()) if resource in self.resources
            ]
            assert not dependents, f"{step.address} is in use by {dependents}"
            del self.resources[step.address]
            return
        assert step.desired is not None
        current = self.resources.get(step.address)
        observed = self._to_observed(step.desired)
        if current is not None:
            observed = msgspec.structs.replace(observed, attributes=current.attributes)
        self.resources[step.address] = observed

    def _to_observed(self, resource: DesiredResource) -> ObservedResource:
        return ObservedResource(
            kind=resource.kind,
            name=resource.name,
            properties=resolve_references(resource.properties, self._lookup),
            tags=dict(resource.tags),
            attributes=self._attributes(resource),
        )

    def _attributes(self, resource: DesiredResource) -> dict[str, Any]:
        self._created += 1
        attributes: dict[str, Any] = {
            name: f"{name}-{self._created:04}" for name in KINDS[resource.kind].attributes
        }
        if "ids" in attributes:
            attributes["ids"] = ["subnet-1", "subnet-2"]
        return attributes | predict_attributes(resource, self.account)

    def _lookup(self, reference: Reference) -> Any:
        state = ObservedState(account=self.account, resources=self.resources)
        return resolve_reference(reference, observed=state, desired={})


def changed(resource: DesiredResource, **properties: Any) -> DesiredResource:
    """Return a resource with some properties changed."""
    return msgspec.structs.replace(resource, properties={**resource.properties, **properties})
