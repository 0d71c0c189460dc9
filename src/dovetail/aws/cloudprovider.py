"""``ports.cloudprovider.CloudProvider`` on AWS.

``create`` is idempotent: whatever fails, a NodeClaim gets at most one instance.

    create(claim) ── batched by launch_batch_key ──> _create_batch
        │
        ├─ may an instance exist already? (another process, a lost response)
        │      └─ find it by tag ──> adopt it, or report that the outcome is unknown
        └─ no ──> InstanceLauncher ──> new instance

Nothing in memory has to survive a restart: instances carry the claims that they
were launched for as tags. A search by tag is needed for claims older than this
process, and for claims whose launch had an unknown outcome. It costs one
DescribeInstances for all of them.
"""

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from dovetail.aws.batcher import CREATE_FLEET_WINDOW, Batcher
from dovetail.aws.claim_tags import NODECLAIM_TAG, claim_key
from dovetail.aws.instance.create_fleet import LaunchedInstance
from dovetail.aws.instance.fleet_request import Launch, launch_batch_key
from dovetail.aws.instance.instances import CONSISTENT_AFTER, DescribedInstance, Ec2Instances
from dovetail.aws.instance.launcher import InstanceLauncher, UnknownOutcomeError
from dovetail.aws.launchtemplate.launch_config import LaunchConfig, NodeClassProvider
from dovetail.aws.launchtemplate.launch_templates import LaunchTemplates
from dovetail.aws.launchtemplate.template_data import placement_labels
from dovetail.aws.nodeclass.capacity_reservations import ReservationCapacity
from dovetail.core.instancetypes.launch_choices import LaunchChoice, launch_labels, launch_resources
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.cloudprovider import (
    CloudError,
    Instance,
    InstanceNotFoundError,
    InsufficientCapacityError,
    NodeClassStatus,
)
from dovetail.ports.event_loop import EventLoop
from dovetail.ports.telemetry import NO_METRICS, Metrics
from dovetail.state.cloudprovider import (
    BaseCloudProvider,
    InstanceTypeSource,
    claim_error,
    launch_annotations,
    require_ready,
)
from dovetail.state.instancetypes.nodeoverlays import NodeOverlays
from dovetail.state.nodes.instances import InstanceCache

_CLOCK_SKEW: Final = timedelta(minutes=1)
"""Upper bound of the difference between the API server's clock and ours."""
_MAX_LAUNCHED_CLAIMS: Final = 20_000


class AwsCloudProvider(BaseCloudProvider):
    """Cloud provider of one cluster in one AWS account and region."""

    def __init__(
        self,
        *,
        loop: EventLoop,
        instances: Ec2Instances,
        launcher: InstanceLauncher,
        instance_types: InstanceTypeSource,
        launch_templates: LaunchTemplates,
        node_classes: NodeClassProvider,
        node_class: Callable[[str], EC2NodeClass | None],
        reservations: ReservationCapacity | None = None,
        overlays: NodeOverlays | None = None,
        metrics: Metrics = NO_METRICS,
    ) -> None:
        super().__init__(instance_types, overlays=overlays, node_class=node_class, loop=loop)
        self._ec2_instances = instances
        self._launcher = launcher
        self._launch_templates = launch_templates
        self._node_classes = node_classes
        self._reservations = reservations or ReservationCapacity()
        self._terminating: dict[str, str] = {}
        """Provider id → capacity reservation that is free once the instance is gone."""
        self._recent_launches: dict[str, datetime] = {}
        """Provider id → launch, of instances that were not terminated; oldest first."""
        self._instance_cache = InstanceCache()
        self._started = loop.now()
        self._launched_claims: dict[str, None] = {}
        """Keys of claims that this process launched, or may have; oldest first."""
        self._searched_claims: set[str] = set()
        """Keys of claims older than this process that have no instance."""
        self._creations: Batcher[Any, NodeClaim, Instance] = Batcher(
            self._create_batch, window=CREATE_FLEET_WINDOW, loop=loop, name="create_fleet", metrics=metrics
        )

    async def create(self, claim: NodeClaim) -> Instance:
        """Launch an instance for a claim, or return the one its uid already has."""
        # Claims of an earlier process's request share its client token, others must not.
        key = (*launch_batch_key(claim), self._launcher.open_token(claim))
        return await self._creations.submit(key, claim)

    async def delete(self, provider_id: str) -> None:
        """Terminate an instance; InstanceNotFoundError once it has terminated."""
        try:
            described = await self._ec2_instances.get(_instance_id(provider_id))
        except InstanceNotFoundError as error:
            if self._is_recent_launch(provider_id):
                # Eventual consistency: a caller that believes it gone would leave it running.
                raise CloudError(
                    f"instance {_instance_id(provider_id)} was launched less than 30s ago, and EC2 does"
                    " not show it yet; its termination is retried"
                ) from error
            self._reservations.mark_terminated(self._terminating.pop(provider_id, ""))
            raise
        if described.instance.capacity_reservation_id:
            self._terminating[provider_id] = described.instance.capacity_reservation_id
        if not described.is_terminating:
            await self._ec2_instances.terminate(described.id)
        self._recent_launches.pop(provider_id, None)

    async def get(self, provider_id: str) -> Instance:
        """Return an instance; InstanceNotFoundError if it has terminated."""
        instance = (await self._ec2_instances.get(_instance_id(provider_id))).instance
        self._instance_cache.add(instance, now=self._loop.now())
        return instance

    async def list(self) -> Sequence[Instance]:
        """Return every instance of this cluster that has not terminated."""
        instances = await self._ec2_instances.list_all()
        self._instance_cache.replace_all(instances, now=self._loop.now())
        return instances

    async def tag(self, provider_id: str, *, node: str, claim: str) -> None:
        """Tag an instance with its node and claim; existing tags stay."""
        await self._ec2_instances.tag(_instance_id(provider_id), {"Name": node, NODECLAIM_TAG: claim})

    async def resolve_nodeclass(self, node_class: dict[str, Any]) -> NodeClassStatus:
        """Resolve the selectors of a node class (an API object)."""
        return await self._node_classes.resolve(node_class)

    async def delete_nodeclass_resources(self, node_class: dict[str, Any]) -> None:
        """Delete the instance profiles and launch templates of a node class."""
        await self._node_classes.delete_resources(node_class)
        await self._launch_templates.delete_for(node_class["metadata"]["name"])

    def _is_recent_launch(self, provider_id: str) -> bool:
        """Return True if EC2 may not show a running instance yet."""
        self._drop_old_launches()
        return provider_id in self._recent_launches

    def _drop_old_launches(self) -> None:
        since = self._loop.now() - CONSISTENT_AFTER
        while self._recent_launches:
            oldest = next(iter(self._recent_launches))
            if self._recent_launches[oldest] > since:
                return
            del self._recent_launches[oldest]

    async def _get_instance(self, claim: NodeClaim) -> Instance:
        instance = self._instance_cache.get_fresh(claim.provider_id, now=self._loop.now())
        if instance is None or _may_have_left_reservation(claim, instance):
            return await self.get(claim.provider_id)
        return instance

    async def _create_batch(self, _: object, claims: Sequence[NodeClaim]) -> Sequence[Instance | Exception]:
        """Find or launch an instance for each claim of a batch.

        Claims are sorted by uid, so that a retry by another process is the same
        request to EC2 and has the same client token.
        """
        ordered = sorted({claim.uid: claim for claim in claims}.values(), key=lambda claim: claim.uid)
        results = await self._find_existing(ordered)
        new = [claim for claim in ordered if claim.uid not in results]
        if new:
            results |= await self._launch(new)
        return [results[claim.uid] for claim in claims]

    async def _find_existing(self, claims: Sequence[NodeClaim]) -> dict[str, Instance | Exception]:
        """Find instances that were launched for claims before: uid → result."""
        candidates = [claim for claim in claims if self._may_have_instance(claim)]
        if not candidates:
            return {}
        assignment = await self._ec2_instances.find_for_claims([claim_key(claim) for claim in candidates])
        results: dict[str, Instance | Exception] = {}
        for claim in candidates:
            key = claim_key(claim)
            if key in assignment.by_claim:
                results[claim.uid] = self._adopt(claim, assignment.by_claim[key])
            elif key in assignment.unknown:
                # Eventual consistency: launching now could launch a second instance.
                results[claim.uid] = UnknownOutcomeError(
                    "InternalError",
                    f"nodeclaim {claim.name}: its fleet was launched less than 30s ago, and EC2 may"
                    " not show all instances yet; the launch is retried",
                )
            else:
                self._searched_claims.add(key)
        return results

    def _may_have_instance(self, claim: NodeClaim) -> bool:
        """Return True if a search by tag is needed before a launch."""
        if self._launcher.is_unanswered(claim):
            return False  # The launcher repeats the request itself, which is consistent.
        key = claim_key(claim)
        is_old = claim.created is None or claim.created < self._started + _CLOCK_SKEW
        return key in self._launched_claims or (is_old and key not in self._searched_claims)

    def _adopt(self, claim: NodeClaim, described: DescribedInstance) -> Instance | Exception:
        """Return an existing instance as the result of ``create``."""
        instance = described.instance
        if described.is_terminating:
            return InsufficientCapacityError(
                f"nodeclaim {claim.name}: its instance {described.id} has terminated"
            )
        node_class = self._node_class(claim.node_class.name)
        if node_class is None:
            return msgspec.structs.replace(instance, nodeclaim=claim.name)
        choice = self._find_choice(instance, node_class)
        if choice is None:
            return instance
        return _with_claim_facts(instance, claim, choice, node_class)

    def _find_choice(self, instance: Instance, node_class: EC2NodeClass) -> LaunchChoice | None:
        """Return the choice that an instance must have been launched as."""
        for instance_type in self._types_for_node_class(node_class):
            if instance_type.name != instance.instance_type:
                continue
            for offering in instance_type.offerings:
                if (offering.zone, offering.capacity_type, offering.reservation_id) == (
                    instance.zone,
                    instance.capacity_type,
                    instance.capacity_reservation_id,
                ):
                    return LaunchChoice(instance_type=instance_type, offering=offering)
        return None

    async def _launch(self, claims: Sequence[NodeClaim]) -> dict[str, Instance | Exception]:
        name = claims[0].node_class.name
        try:
            node_class = require_ready(name, self._node_class(name))
            launch_config = self._node_classes.launch_config(node_class)
        except CloudError as error:
            return {claim.uid: claim_error(claim, error) for claim in claims}
        results = await self._launcher.launch(
            claims, launch_config, lambda: self._types_for_claim(claims[0], node_class)
        )
        return {
            claim.uid: self._record_result(claim, result, launch_config)
            for claim, result in zip(claims, results, strict=True)
        }

    def _record_result(
        self, claim: NodeClaim, result: Launch | Exception, launch_config: LaunchConfig
    ) -> Instance | Exception:
        key = claim_key(claim)
        if isinstance(result, Launch | UnknownOutcomeError):
            self._launched_claims[key] = None
            if len(self._launched_claims) > _MAX_LAUNCHED_CLAIMS:
                del self._launched_claims[next(iter(self._launched_claims))]
        else:
            self._launched_claims.pop(key, None)
        if isinstance(result, Exception):
            return result
        self._ec2_instances.record_assignment(claim.name, result.instance.id)
        now = self._loop.now()
        instance = _new_instance(result.instance, result.choice, launch_config, now=now)
        self._drop_old_launches()
        self._recent_launches[instance.provider_id] = now
        self._instance_cache.add(instance, now=now)
        return _with_claim_facts(instance, claim, result.choice, launch_config.node_class)


def _instance_id(provider_id: str) -> str:
    return provider_id.rpartition("/")[2]


def _may_have_left_reservation(claim: NodeClaim, instance: Instance) -> bool:
    """Return True if the cached capacity type may be out of date.

    An instance leaves its capacity reservation when that expires.
    """
    reserved = label_keys.RESERVED
    return claim.labels.get(label_keys.CAPACITY_TYPE) == reserved == instance.capacity_type


def _new_instance(
    launched: LaunchedInstance, choice: LaunchChoice, launch_config: LaunchConfig, *, now: datetime
) -> Instance:
    zone = choice.offering.zone
    return Instance(
        provider_id=f"aws:///{zone}/{launched.id}",
        instance_type=launched.instance_type,
        zone=zone,
        capacity_type=choice.offering.capacity_type,
        image_id=launched.ami_id,
        launch_time=now,
        subnet_id=launched.subnet_id,
        security_group_ids=launch_config.security_groups,
        capacity_reservation_id=choice.offering.reservation_id,
    )


def _with_claim_facts(
    instance: Instance, claim: NodeClaim, choice: LaunchChoice, node_class: EC2NodeClass
) -> Instance:
    """Return an instance with labels, annotations and resources of its claim."""
    labels = launch_labels(choice, claim)
    if claim.pool:
        labels = labels.with_items({label_keys.NODEPOOL: claim.pool})
    labels = labels.with_items(placement_labels(claim, node_class))
    lists_interfaces = bool(node_class.launch.network_interfaces)
    capacity, allocatable = launch_resources(choice, claim, lists_interfaces=lists_interfaces)
    return msgspec.structs.replace(
        instance,
        nodeclaim=claim.name,
        nodepool=claim.pool,
        labels=labels,
        annotations=FrozenDict(launch_annotations(node_class, profile=node_class.resolved.instance_profile)),
        capacity=capacity,
        allocatable=allocatable,
    )
