"""An account on paper: steps change what is observed, and nothing else happens."""

from collections.abc import Iterable
from typing import Any

import msgspec

from dovetail.eks.plan.known_attributes import predicted
from dovetail.eks.plan.planner import Plan, Step, Verb
from dovetail.eks.plan.references import Reference, resolved
from dovetail.eks.plan.resolver import found
from dovetail.eks.plan.resource import Account, Existing, Observed, Resource
from dovetail.eks.plan.resource_kinds import KINDS
from tests.support.clusters import ACCOUNT


class PaperAccount:
    """Does steps as AWS would, without any AWS; refuses what AWS would refuse."""

    def __init__(self, wanted: Iterable[Resource], account: Account = ACCOUNT) -> None:
        self.wanted = {one.address: one for one in wanted}
        self.account = account
        self.resources: dict[str, Existing] = {}
        self.writes = 0
        self._made = 0
        self._users: dict[str, list[str]] = {}
        for one in self.wanted.values():
            for need in one.needs():
                self._users.setdefault(need, []).append(one.address)
        for one in self.wanted.values():
            if one.given:
                self.resources[one.address] = self._existing(one)

    def observed(self) -> Observed:
        return Observed(account=self.account, resources=dict(self.resources))

    def run(self, plan: Plan, *, steps: int | None = None) -> None:
        """Do a plan, or its first steps as if something stopped it there."""
        done: set[str] = set()
        for step in plan.steps[:steps]:
            assert done.issuperset(step.needs), f"{step.id} came before {step.needs}"
            self.do(step)
            done.add(step.id)

    def do(self, step: Step) -> None:
        self.writes += 1
        if step.verb is Verb.REMOVE:
            users = [one for one in self._users.get(step.address, ()) if one in self.resources]
            assert not users, f"{step.address} is in use by {users}"
            del self.resources[step.address]
            return
        assert step.wanted is not None
        there = self.resources.get(step.address)
        made = self._existing(step.wanted)
        if there is not None:
            made = msgspec.structs.replace(made, attributes=there.attributes)
        self.resources[step.address] = made

    def _existing(self, one: Resource) -> Existing:
        return Existing(
            kind=one.kind,
            name=one.name,
            properties=resolved(one.properties, self._look_up),
            tags=dict(one.tags),
            attributes=self._attributes(one),
        )

    def _attributes(self, one: Resource) -> dict[str, Any]:
        self._made += 1
        made: dict[str, Any] = {
            name: f"{name}-{self._made:04}" for name in KINDS[one.kind].attributes
        }
        if "ids" in made:
            made["ids"] = ["subnet-1", "subnet-2"]
        return made | predicted(one, self.account)

    def _look_up(self, reference: Reference) -> Any:
        live = Observed(account=self.account, resources=self.resources)
        return found(reference, observed=live, wanted={})


def changed(one: Resource, **properties: Any) -> Resource:
    """Return a resource with other values for some of its properties."""
    return msgspec.structs.replace(one, properties={**one.properties, **properties})
