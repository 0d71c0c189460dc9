"""Base of handlers for the members of an EKS cluster: node groups, add-ons, access."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec

from dovetail.eks.aws_client import AwsClient, Raw, none_if_not_found
from dovetail.eks.plan.resource import OWNERSHIP_TAG, DesiredResource, ObservedResource
from dovetail.eks.plan.resource_kinds import FAILED_VALUE
from dovetail.eks.resources.handler import Attributes, AwsHandler
from dovetail.eks.resources.property_names import changed_properties
from dovetail.eks.resources.tags import write_tags
from dovetail.errors import DovetailError

_TRANSITIONAL: Final = frozenset({"CREATING", "UPDATING", "DELETING"})
_FAILED: Final = frozenset({"CREATE_FAILED", "DELETE_FAILED"})


class ApiMethods(msgspec.Struct, frozen=True, kw_only=True):
    """Names of boto3 methods and keys for one kind."""

    noun: str
    """Object of the create, describe and delete methods: "access_entry"."""
    key: str
    """Key of the object in a response."""
    list_method: tuple[str, str]
    """Method, and key of the list in its response."""
    name: str
    """Parameter that identifies an object."""
    arn: str
    """Key of the object's ARN."""


class ClusterMemberHandler(AwsHandler, ABC):
    """Handler of one kind of cluster members.

    Members that are neither desired nor owned (a node group created by hand) are
    left alone.
    """

    kind: str
    methods: ClassVar[ApiMethods]

    async def observe(self, cluster: str, desired: Sequence[DesiredResource]) -> Iterable[ObservedResource]:
        members = await self._aws.gather(
            [self.describe(cluster, key) for key in await self._list_keys(cluster)]
        )
        return [
            resource
            for raw in members
            if raw is not None
            for resource in self._to_observed(raw, desired, cluster)
        ]

    async def create(self, resource: DesiredResource) -> Attributes:
        cluster = resource.properties["ClusterName"]
        parameters = self.create_parameters(resource)
        created = await self._aws.create("eks", f"create_{self.methods.noun}", **parameters)
        raw = await self.wait_until_active(cluster, await self.find_key(resource))
        if created is None:
            # EKS or a lost request created it, perhaps with other properties.
            for observed in self._to_observed(raw, [resource], self._aws.cluster):
                await self.update(observed, resource)
        return self.attributes(raw)

    async def update(self, observed: ObservedResource, resource: DesiredResource) -> Attributes:
        names = changed_properties(observed, resource)
        if "Tags" in names:
            identity = {"resourceArn": observed.attributes["arn"]}
            await write_tags(self._aws, "eks", "resource", identity, observed=observed, resource=resource)
        if names - {"Tags"}:
            await self.update_properties(observed, resource, names)
        return observed.attributes

    async def delete(self, observed: ObservedResource) -> None:
        cluster, key = self._aws.cluster, self.observed_key(observed)
        identity = {"clusterName": cluster, self.methods.name: key}
        await self._aws.delete("eks", f"delete_{self.methods.noun}", **identity)

        async def poll() -> bool | None:
            return True if await self.describe(cluster, key) is None else None

        await self._aws.wait_for(f"{observed.address} is being deleted", poll)

    @abstractmethod
    def create_parameters(self, resource: DesiredResource) -> Raw:
        """Return the parameters of the create method."""

    @abstractmethod
    def properties(self, raw: Raw) -> Mapping[str, Any]:
        """Return the observed properties, in CloudFormation's shape."""

    @abstractmethod
    async def update_properties(
        self, observed: ObservedResource, resource: DesiredResource, names: frozenset[str]
    ) -> None:
        """Update the properties with these names."""

    def matches(self, raw: Raw, resource: DesiredResource) -> bool:
        """Return True if a member is the desired resource."""
        return self.raw_key(raw) == resource.name

    def raw_key(self, raw: Raw) -> str:
        return str(raw[self.methods.name])

    def observed_key(self, observed: ObservedResource) -> str:
        return observed.name

    def listed_key(self, item: Any) -> str:
        return str(item)

    async def find_key(self, resource: DesiredResource) -> str:
        """Return EKS's key of a desired resource that exists."""
        return resource.name

    async def extra_properties(self, raw: Raw) -> Mapping[str, Any]:
        """Return properties that need further calls."""
        return {}

    def attributes(self, raw: Raw) -> Attributes:
        return {"arn": raw[self.methods.arn]}

    async def describe(self, cluster: str, key: str) -> Raw | None:
        """Return a member as EKS describes it; None if it does not exist."""
        identity = {"clusterName": cluster, self.methods.name: key}
        response = await self._aws.call_or_none("eks", f"describe_{self.methods.noun}", **identity)
        if response is None:
            return None
        raw: Raw = response[self.methods.key]
        return {**raw, "extra": await self.extra_properties(raw)}

    async def wait_until_active(self, cluster: str, key: str) -> Raw:
        """Wait until the member can be used."""

        async def poll() -> Raw | None:
            raw = await self.describe(cluster, key)
            if raw is None or raw.get("status") in _FAILED:
                raise DovetailError(f"{self.kind} {key} did not become active: {health_issues(raw)}")
            return raw if raw.get("status") not in _TRANSITIONAL else None

        return await self._aws.wait_for(f"{self.kind} {key}", poll)

    async def finish_update(self, resource: DesiredResource, response: Raw) -> None:
        """Wait until an update has ended and the member can be used."""
        cluster, name = resource.properties["ClusterName"], resource.name
        await wait_for_update(
            self._aws, resource.address, response, name=cluster, **{self.methods.name: name}
        )
        await self.wait_until_active(cluster, name)

    async def _list_keys(self, cluster: str) -> list[str]:
        method, key = self.methods.list_method
        work = self._aws.list_all("eks", method, key, clusterName=cluster)
        return [self.listed_key(item) for item in await none_if_not_found(work) or ()]

    def _to_observed(
        self, raw: Raw, desired: Sequence[DesiredResource], cluster: str
    ) -> Iterable[ObservedResource]:
        name = next((resource.name for resource in desired if self.matches(raw, resource)), None)
        tags = raw.get("tags") or {}
        if name is None and tags.get(OWNERSHIP_TAG) != cluster:
            return
        properties = {**self.properties(raw), **raw["extra"]}
        if raw.get("status") in _FAILED:
            properties["ClusterName"] = FAILED_VALUE
        yield ObservedResource(
            kind=self.kind,
            name=name or self.raw_key(raw),
            properties=properties,
            tags=tags,
            attributes=self.attributes(raw),
            settled=raw.get("status") not in _TRANSITIONAL,
        )


async def wait_for_update(aws: AwsClient, address: str, response: Raw, **identity: str) -> None:
    """Wait for the end of an update; raises if it failed.

    A cluster or member is ACTIVE again after a failed update, with its old
    version: the status alone does not show the failure.
    """
    update_id = response["update"]["id"]

    async def poll() -> Raw | None:
        described = await aws.call("eks", "describe_update", updateId=update_id, **identity)
        update: Raw = described["update"]
        return None if update["status"] == "InProgress" else update

    update = await aws.wait_for(f"update of {address}", poll, timeout=aws.polling.update_timeout)
    if update["status"] != "Successful":
        raise DovetailError(f"{address} was not updated: {_update_errors(update)}")


def _update_errors(update: Raw) -> str:
    """Return the errors of an update, each with the resources that it names."""
    errors = []
    for error in update.get("errors") or ():
        resources = ", ".join(error.get("resourceIds") or ())
        errors.append(
            f"{error.get('errorCode')}: {error.get('errorMessage')}"
            + (f" ({resources})" if resources else "")
        )
    return "; ".join(errors) or "EKS reports no reason"


def health_issues(raw: Raw | None) -> str:
    """Return the health issues that EKS reports, as text."""
    issues = ((raw or {}).get("health") or {}).get("issues") or ()
    text = "; ".join(f"{issue.get('code')}: {issue.get('message')}" for issue in issues)
    return text or "EKS reports no reason"
