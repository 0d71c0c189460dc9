"""A fake CloudProvider: launches at once, and fails as a test scripts it."""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.resources import Resources
from dovetail.ports.cloudprovider import Instance, InstanceNotFoundError, InterruptionMessage, NodeClassStatus
from dovetail.ports.event_loop import Clock
from tests.support.kube.failing_client import WriteObserver

SHAPE = Resources.parse({"cpu": 4, "memory": "16Gi", "pods": 110})
ZONE, TYPE = "us-east-1a", "m5.xlarge"


class FakeCloudProvider:
    """``ports.cloudprovider.CloudProvider``; outlives the controllers that use it."""

    def __init__(self, clock: Clock, *, on_write: WriteObserver) -> None:
        """Call ``on_write`` for every launch and termination."""
        self._clock = clock
        self._on_write = on_write
        self.instances: dict[str, Instance] = {}
        """Provider ID → instance, until it has terminated."""
        self.launched: list[str] = []
        """The claims for which an instance was launched, in that order."""
        self.requests: list[tuple[str, str]] = []
        """Every call: verb, and claim name or provider ID."""
        self.failing: dict[str, list[Exception]] = {}
        """Verb → errors of its next calls, in order."""
        self.during_launch: Callable[[], object] = lambda: None
        """Called while an instance is being launched."""
        self.termination_delay = timedelta()
        """From the first ``delete`` until the instance is gone."""
        self.labels = FrozenDict(
            {
                label_keys.INSTANCE_TYPE: TYPE,
                label_keys.ZONE: ZONE,
                label_keys.CAPACITY_TYPE: label_keys.ON_DEMAND,
            }
        )
        self.shape = SHAPE
        self.types: tuple[InstanceType, ...] = ()
        self.resolved = NodeClassStatus(status={"subnets": [{"id": "subnet-1", "zone": ZONE}]})
        self.drifted: dict[str, str] = {}
        """Claim → its drift reason."""
        self._uids: dict[str, str] = {}
        self._gone_at: dict[str, datetime] = {}

    def fail(self, verb: str, *errors: Exception) -> None:
        """Raise these errors in the next calls of a verb."""
        self.failing.setdefault(verb, []).extend(errors)

    def calls(self, verb: str) -> list[str]:
        return [subject for called, subject in self.requests if called == verb]

    def remove_instance(self, provider_id: str) -> None:
        """Remove an instance without a call of ``delete``."""
        self.instances.pop(provider_id, None)

    def terminate(self, provider_id: str) -> None:
        """Begin to terminate an instance, as a user with the console would."""
        instance = self._find(provider_id)
        self.instances[provider_id] = msgspec.structs.replace(instance, terminating=True)
        self._gone_at[provider_id] = self._clock.now() + self.termination_delay

    def add_instance(self, provider_id: str, **fields: Any) -> Instance:
        """Add an instance that no controller launched."""
        instance = Instance(
            provider_id=provider_id,
            launch_time=fields.pop("launched", self._clock.now()),
            nodeclaim=fields.pop("nodeclaim", fields.pop("claim", "")),
            labels=self.labels,
            capacity=self.shape,
            allocatable=self.shape,
            **fields,
        )
        self.instances[provider_id] = instance
        return instance

    async def create(self, claim: NodeClaim) -> Instance:
        self._record("create", claim.name)
        existing = self._uids.get(claim.uid)
        if existing in self.instances:
            return self.instances[existing]
        provider_id = f"aws:///{ZONE}/i-{len(self.launched):017x}"
        self.launched.append(claim.name)
        self._uids[claim.uid] = provider_id
        instance = self.add_instance(
            provider_id,
            instance_type=TYPE,
            zone=ZONE,
            capacity_type=self.labels.get(label_keys.CAPACITY_TYPE, label_keys.ON_DEMAND),
            image_id="ami-1",
            nodeclaim=claim.name,
            nodepool=claim.pool,
        )
        await self._on_write("launch", f"instance of {claim.name}")
        self.during_launch()
        return instance

    async def delete(self, provider_id: str) -> None:
        self._record("delete", provider_id)
        self._settle(provider_id)
        if not self._find(provider_id).terminating:
            self.terminate(provider_id)
            await self._on_write("terminate", provider_id)

    async def get(self, provider_id: str) -> Instance:
        self._record("get", provider_id)
        self._settle(provider_id)
        return self._find(provider_id)

    async def list(self) -> Sequence[Instance]:
        self._record("list", "")
        for provider_id in list(self.instances):
            self._settle(provider_id)
        return list(self.instances.values())

    def instance_types(self, pool: NodePool) -> tuple[InstanceType, ...]:
        return self.types

    async def drift_reason(self, claim: NodeClaim) -> str | None:
        self._record("drift", claim.name)
        self._find(claim.provider_id)
        return self.drifted.get(claim.name)

    async def resolve_nodeclass(self, node_class: dict[str, Any]) -> NodeClassStatus:
        self._record("resolve", node_class["metadata"]["name"])
        return self.resolved

    async def delete_nodeclass_resources(self, node_class: dict[str, Any]) -> None:
        self._record("forget", node_class["metadata"]["name"])

    def _record(self, verb: str, subject: str) -> None:
        self.requests.append((verb, subject))
        if self.failing.get(verb):
            raise self.failing[verb].pop(0)

    def _settle(self, provider_id: str) -> None:
        gone_at = self._gone_at.get(provider_id)
        if gone_at is not None and gone_at <= self._clock.now():
            self.instances.pop(provider_id, None)

    def _find(self, provider_id: str) -> Instance:
        if provider_id not in self.instances:
            raise InstanceNotFoundError(f"there is no instance {provider_id}")
        return self.instances[provider_id]


class FakeInterruptionQueue:
    """``ports.cloudprovider.InterruptionQueue``; outlives the controllers that use it."""

    def __init__(self) -> None:
        self.messages: list[InterruptionMessage] = []
        self.errors: list[Exception] = []
        """Errors of the next calls of ``receive``, in order."""

    async def receive(self) -> Sequence[InterruptionMessage]:
        if self.errors:
            raise self.errors.pop(0)
        return list(self.messages)

    async def delete(self, message: InterruptionMessage) -> None:
        self.messages = [other for other in self.messages if other.id != message.id]
