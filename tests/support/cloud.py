"""A cloud that does what a test says: machines at once, and errors by script."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.resources import Resources
from dovetail.ports.cloudprovider import ClassStatus, Instance, InstanceNotFound, Message
from dovetail.ports.event_loop import Clock
from tests.support.faults import Note

SHAPE = Resources.parse({"cpu": 4, "memory": "16Gi", "pods": 110})
ZONE, TYPE = "us-east-1a", "m5.xlarge"


class ScriptedCloud:
    """``ports.cloudprovider.Cloud`` and ``Interruptions``; outlives the controllers that use it."""

    def __init__(self, clock: Clock, *, note: Note) -> None:
        """``note`` is told of every machine bought or given back."""
        self._clock = clock
        self._tell = note
        self.machines: dict[str, Instance] = {}
        """Provider id → machine, until it has terminated."""
        self.bought: list[str] = []
        """The claims for which a machine was bought, in that order."""
        self.asked: list[tuple[str, str]] = []
        """Every call: verb, and claim name or provider id."""
        self.failing: dict[str, list[Exception]] = {}
        """Verb → what its next calls raise, one after the other."""
        self.terminating_takes = timedelta()
        """From the first ``delete`` until the machine is gone."""
        self.labels = FrozenDict(
            {
                label_keys.INSTANCE_TYPE: TYPE,
                label_keys.ZONE: ZONE,
                label_keys.CAPACITY_TYPE: label_keys.ON_DEMAND,
            }
        )
        self.shape = SHAPE
        self.types: tuple[InstanceType, ...] = ()
        self.resolved = ClassStatus(status={"subnets": [{"id": "subnet-1", "zone": ZONE}]})
        self.drifted: dict[str, str] = {}
        """Claim → why its class would not launch its machine as it is."""
        self.messages: list[Message] = []
        self._uids: dict[str, str] = {}
        self._gone_at: dict[str, datetime] = {}

    def fail(self, verb: str, *errors: Exception) -> None:
        """Have the next calls of a verb raise these."""
        self.failing.setdefault(verb, []).extend(errors)

    def calls(self, verb: str) -> list[str]:
        return [about for asked, about in self.asked if asked == verb]

    def vanish(self, provider_id: str) -> None:
        """Take a machine away without anybody asking."""
        self.machines.pop(provider_id, None)

    def terminate(self, provider_id: str) -> None:
        """Have a machine begin to go, as somebody with the console would."""
        found = self._find(provider_id)
        self.machines[provider_id] = msgspec.structs.replace(found, terminating=True)
        self._gone_at[provider_id] = self._clock.now() + self.terminating_takes

    def has(self, provider_id: str, **fields: Any) -> Instance:
        """Have a machine that nobody here bought."""
        made = Instance(
            provider_id=provider_id,
            launched=fields.pop("launched", self._clock.now()),
            labels=self.labels,
            capacity=self.shape,
            allocatable=self.shape,
            **fields,
        )
        self.machines[provider_id] = made
        return made

    async def create(self, claim: NodeClaim) -> Instance:
        self._note("create", claim.name)
        known = self._uids.get(claim.uid)
        if known is not None and known in self.machines:
            return self.machines[known]
        provider_id = f"aws:///{ZONE}/i-{len(self.bought):017x}"
        self.bought.append(claim.name)
        self._uids[claim.uid] = provider_id
        made = self.has(
            provider_id,
            instance_type=TYPE,
            zone=ZONE,
            capacity_type=self.labels.get(label_keys.CAPACITY_TYPE, label_keys.ON_DEMAND),
            image_id="ami-1",
            claim=claim.name,
            nodepool=claim.pool,
        )
        await self._tell("buy", f"machine of {claim.name}")
        return made

    async def delete(self, provider_id: str) -> None:
        self._note("delete", provider_id)
        self._settle(provider_id)
        if not self._find(provider_id).terminating:
            self.terminate(provider_id)
            await self._tell("give back", provider_id)

    async def get(self, provider_id: str) -> Instance:
        self._note("get", provider_id)
        self._settle(provider_id)
        return self._find(provider_id)

    async def list(self) -> Sequence[Instance]:
        self._note("list", "")
        for provider_id in list(self.machines):
            self._settle(provider_id)
        return list(self.machines.values())

    def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        return self.types

    async def drift(self, claim: NodeClaim) -> str | None:
        self._note("drift", claim.name)
        self._find(claim.provider_id)
        return self.drifted.get(claim.name)

    async def resolve(self, node_class: dict[str, Any]) -> ClassStatus:
        self._note("resolve", node_class["metadata"]["name"])
        return self.resolved

    async def forget(self, node_class: dict[str, Any]) -> None:
        self._note("forget", node_class["metadata"]["name"])

    async def receive(self) -> Sequence[Message]:
        self._note("receive", "")
        return list(self.messages)

    async def remove(self, message: Message) -> None:
        self._note("remove", message.id)
        self.messages = [one for one in self.messages if one.id != message.id]

    def _note(self, verb: str, about: str) -> None:
        self.asked.append((verb, about))
        if self.failing.get(verb):
            raise self.failing[verb].pop(0)

    def _settle(self, provider_id: str) -> None:
        gone_at = self._gone_at.get(provider_id)
        if gone_at is not None and gone_at <= self._clock.now():
            self.machines.pop(provider_id, None)

    def _find(self, provider_id: str) -> Instance:
        if provider_id not in self.machines:
            raise InstanceNotFound(f"there is no instance {provider_id}")
        return self.machines[provider_id]
