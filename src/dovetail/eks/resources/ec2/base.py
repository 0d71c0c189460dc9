"""Base of handlers for EC2 resources that are found by tags."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec
from botocore.exceptions import ClientError

from dovetail.eks.aws_client import Raw, describe_method, tag_filter
from dovetail.eks.plan.resource import NAME_TAG, OWNERSHIP_TAG, DesiredResource, ObservedResource
from dovetail.eks.resources.handler import Attributes, AwsHandler, InvalidStepError
from dovetail.eks.resources.property_names import changed_properties, tag_list, tag_map
from dovetail.eks.resources.tags import write_ec2_tags

GONE_STATES: Final = frozenset({"deleted", "deleting", "failed"})


class CreateCall(msgspec.Struct, frozen=True):
    """A call that creates a resource: method, key of the response, parameters."""

    method: str
    key: str
    parameters: Mapping[str, Any]


class TaggedEc2Handler(AwsHandler, ABC):
    """Handler of one EC2 kind: described by one call, tagged at creation."""

    kind: str
    plural: ClassVar[str]
    """EC2's name of several, in the describe call and its response: ``Subnets``."""
    id_key: ClassVar[str]
    resource_type: ClassVar[str]
    """EC2's name of the type, in TagSpecifications."""

    async def observe(self, cluster: str, desired: Sequence[DesiredResource]) -> Iterable[ObservedResource]:
        owned = await self._describe_all(tag_filter(OWNERSHIP_TAG, cluster))
        # Sorted, so that every run keeps the same one of two duplicates.
        owned.sort(key=lambda raw: str(raw[self.id_key]))
        by_name: dict[str, ObservedResource] = {}
        for raw in owned:
            name = self.name_of(raw)
            # A duplicate exists if the response of a creation was lost: one is kept, the
            # other has a name that is not desired, so the plan deletes it.
            unique = name if name not in by_name else f"{name}#{raw[self.id_key]}"
            by_name[unique] = await self._to_observed(raw, unique)
        for resource in desired:
            if resource.name not in by_name:
                for raw in await self._find_conflicting(resource):
                    by_name[resource.name] = await self._to_observed(raw, resource.name)
        return by_name.values()

    async def create(self, resource: DesiredResource) -> Attributes:
        method = self.create_call(resource).method
        raw = await self._aws.retry_until_visible(
            lambda: self._aws.run("ec2", method, lambda: self._create_if_absent(resource))
        )
        return self.attributes(await self.wait_until_ready(raw))

    async def update(self, observed: ObservedResource, resource: DesiredResource) -> Attributes:
        names = changed_properties(observed, resource)
        if "Tags" in names:
            await write_ec2_tags(self._aws, self.id_of(observed), observed=observed, resource=resource)
        changed = names - {"Tags"}
        if changed:
            updated = await self.update_properties(observed, resource, changed)
            return {**observed.attributes, **updated}
        return observed.attributes

    async def delete(self, observed: ObservedResource) -> None:
        resource_id = self.id_of(observed)
        if resource_id:
            await self.delete_by_id(resource_id)

    @abstractmethod
    def properties(self, raw: Raw) -> Mapping[str, Any]:
        """Return the observed properties, in CloudFormation's shape."""

    @abstractmethod
    def create_call(self, resource: DesiredResource) -> CreateCall:
        """Return the call that creates the resource, without tags."""

    async def delete_by_id(self, resource_id: str) -> None:
        """Delete the resource, and wait until it is gone if that takes time."""
        method = f"delete_{self.resource_type.replace('-', '_')}"
        await self._aws.delete("ec2", method, **{self.id_key: resource_id})

    async def update_properties(
        self, observed: ObservedResource, resource: DesiredResource, names: frozenset[str]
    ) -> Attributes:
        """Update properties; most kinds have no mutable ones."""
        raise InvalidStepError(f"{resource.address}: {sorted(names)} cannot be updated")

    def conflict_filters(self, resource: DesiredResource) -> Sequence[Raw]:
        """Return filters for a resource of any owner that would prevent a creation."""
        return ()

    async def extra_properties(self, raw: Raw) -> Mapping[str, Any]:
        """Return properties that need further calls."""
        return {}

    async def wait_until_ready(self, raw: Raw) -> Raw:
        """Wait until others can use the resource."""
        return raw

    def attributes(self, raw: Raw) -> Attributes:
        return {"id": raw[self.id_key]}

    def name_of(self, raw: Raw) -> str:
        return tag_map(raw.get("Tags")).get(NAME_TAG) or str(raw[self.id_key])

    def id_of(self, observed: ObservedResource) -> str:
        return str(observed.attributes.get("id", ""))

    async def describe(self, resource_id: str) -> Raw | None:
        """Return the current description; None if the resource is gone."""
        matches = await self._describe_all({"Name": self.id_filter, "Values": [resource_id]})
        return matches[0] if matches else None

    @property
    def id_filter(self) -> str:
        return self.resource_type + "-id"

    async def wait_until_deleted(self, resource_id: str) -> None:
        async def poll() -> bool | None:
            return True if await self.describe(resource_id) is None else None

        await self._aws.wait_for(f"{resource_id} is being deleted", poll)

    async def _to_observed(self, raw: Raw, name: str) -> ObservedResource:
        return ObservedResource(
            kind=self.kind,
            name=name,
            properties={**self.properties(raw), **await self.extra_properties(raw)},
            tags=tag_map(raw.get("Tags")),
            attributes=self.attributes(raw),
            settled=str(raw.get("State", "")).lower() != "pending",
        )

    def _create_if_absent(self, resource: DesiredResource) -> Raw:
        """Create the resource unless it exists; runs in a thread, and on every retry.

        Most EC2 calls that create take no client token for idempotency. So every
        attempt looks for the resource first.
        """
        current = self._find(resource)
        if current is not None:
            return current
        call = self.create_call(resource)
        tags = [{"ResourceType": self.resource_type, "Tags": tag_list(resource.tags)}]
        try:
            response = self._method(call.method)(**call.parameters, TagSpecifications=tags)
        except ClientError:
            # A concurrent run of the same file may have created it.
            current = self._find(resource)
            if current is None:
                raise
            return current
        return dict(response[call.key] if call.key else response)

    def _method(self, name: str) -> Callable[..., Raw]:
        method: Callable[..., Raw] = getattr(self._aws.session.client("ec2"), name)
        return method

    def _find(self, resource: DesiredResource) -> Raw | None:
        """Return an owned resource of this name; called from a thread."""
        client, method = self._aws.session.client("ec2"), describe_method(self.plural)
        filters = [tag_filter(OWNERSHIP_TAG, resource.tags[OWNERSHIP_TAG])]
        if client.can_paginate(method):
            pages = client.get_paginator(method).paginate(Filters=filters)
        else:
            pages = [getattr(client, method)(Filters=filters)]
        matches = [
            raw
            for page in pages
            for raw in page[self.plural]
            if _is_present(raw) and self.name_of(raw) == resource.name
        ]
        return dict(min(matches, key=lambda raw: str(raw[self.id_key]))) if matches else None

    async def _find_conflicting(self, resource: DesiredResource) -> list[Raw]:
        filters = self.conflict_filters(resource)
        return await self._describe_all(*filters) if filters else []

    async def _describe_all(self, *filters: Raw) -> list[Raw]:
        return [raw for raw in await self._aws.describe_ec2(self.plural, *filters) if _is_present(raw)]


def _is_present(raw: Raw) -> bool:
    return str(raw.get("State", "")).lower() not in GONE_STATES
