"""Launch templates: created on demand, deleted when unused."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dovetail.aws.claim_tags import CLUSTER_TAG
from dovetail.aws.errors import LAUNCH_TEMPLATE_EXISTS, AwsError, ErrorKind
from dovetail.aws.launchtemplate.template_data import encode_tags, template_name
from dovetail.aws.session import AwsSession
from dovetail.model import labels as label_keys
from dovetail.ports.event_loop import EventLoop

if TYPE_CHECKING:
    from types_boto3_ec2.client import EC2Client

_RETENTION: Final = timedelta(minutes=5)
"""Unused templates are deleted after this time.

Karpenter's one minute creates them again for every small burst of launches.
"""
_GC_INTERVAL: Final = timedelta(minutes=1)


class LaunchTemplate(msgspec.Struct, frozen=True, kw_only=True):
    """Desired launch template."""

    data: dict[str, Any]
    tags: dict[str, str]

    @property
    def name(self) -> str:
        """Return the name, which is a hash of the contents."""
        return template_name(self.data, self.tags)


class LaunchTemplates:
    """Cache of the launch templates that exist.

    A name is a hash of the contents, so creation is idempotent and templates of
    other processes are valid too. A cached template may have been deleted by
    another process: CreateFleet then fails, and ``discard`` has it created again.
    """

    def __init__(
        self,
        *,
        aws: AwsSession,
        ec2: "EC2Client",
        loop: EventLoop,
        cluster: str,
        retention: timedelta = _RETENTION,
    ) -> None:
        self._aws = aws
        self._ec2 = ec2
        self._loop = loop
        self._cluster = cluster
        self._retention = retention
        self._last_used: dict[str, datetime] = {}
        self._creations: dict[str, asyncio.Task[None]] = {}
        """Template name → creation in flight."""

    async def ensure(self, templates: Sequence[LaunchTemplate]) -> list[str]:
        """Create the templates that do not exist, and return all names in order."""
        names = [template.name for template in templates]
        await asyncio.gather(*map(self._ensure, names, templates))
        return names

    def discard(self, names: Sequence[str]) -> None:
        """Remove templates from the cache: they do not exist any more."""
        for name in names:
            self._last_used.pop(name, None)

    async def load_existing(self) -> None:
        """Load templates of earlier processes, so that unused ones are deleted."""
        now = self._loop.now()
        for name in await self._list_names({CLUSTER_TAG: self._cluster}):
            self._last_used.setdefault(name, now)

    async def run_garbage_collection(self) -> None:
        """Delete unused templates every minute, until cancelled."""
        while True:
            await self._loop.sleep(_GC_INTERVAL)
            with suppress(AwsError):  # They stay in the cache, so the next run retries.
                await self.delete_unused()

    async def delete_unused(self) -> None:
        """Delete the templates that were not used within the retention time."""
        before = self._loop.now() - self._retention
        await self._delete([name for name, used in self._last_used.items() if used <= before])

    async def delete_for(self, node_class: str) -> None:
        """Delete all templates of a node class, also those of other processes."""
        tags = {CLUSTER_TAG: self._cluster, label_keys.EC2_NODE_CLASS: node_class}
        await self._delete(await self._list_names(tags))

    async def _ensure(self, name: str, template: LaunchTemplate) -> None:
        if name not in self._last_used:
            creation = self._creations.get(name)
            if creation is None:
                creation = asyncio.ensure_future(self._create(name, template))
                self._creations[name] = creation
                creation.add_done_callback(lambda _: self._creations.pop(name, None))
            # Other launches wait for the same creation: one that is cancelled must not end it.
            await asyncio.shield(creation)
        self._last_used[name] = self._loop.now()

    async def _create(self, name: str, template: LaunchTemplate) -> None:
        request: dict[str, Any] = {
            "LaunchTemplateName": name,
            "LaunchTemplateData": template.data,
            "TagSpecifications": [{"ResourceType": "launch-template", "Tags": encode_tags(template.tags)}],
        }
        try:
            await self._aws.call("CreateLaunchTemplate", lambda: self._ec2.create_launch_template(**request))
        except AwsError as error:
            if error.code != LAUNCH_TEMPLATE_EXISTS:
                raise
            # The name is a hash of the contents, so the existing template is the same.

    async def _delete(self, names: Sequence[str]) -> None:
        for name in names:
            # Removed before the call, so that no launch uses it meanwhile.
            last_used = self._last_used.pop(name, self._loop.now())
            try:
                delete = partial(self._ec2.delete_launch_template, LaunchTemplateName=name)
                await self._aws.call("DeleteLaunchTemplate", delete)
            except AwsError as error:
                if error.kind is not ErrorKind.NOT_FOUND:
                    self._last_used.setdefault(name, last_used)
                    raise

    async def _list_names(self, tags: Mapping[str, str]) -> list[str]:
        filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in tags.items()]
        templates = await self._aws.list_pages(
            "DescribeLaunchTemplates", self._ec2, "LaunchTemplates", page_size=200, Filters=filters
        )
        return [template["LaunchTemplateName"] for template in templates]
