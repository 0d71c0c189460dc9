"""Launch templates: made when first needed, taken away when long unused."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dovetail.aws.claim_tags import CLUSTER
from dovetail.aws.errors import TEMPLATE_EXISTS, AwsError, Kind
from dovetail.aws.launchtemplate.template_data import as_list, name_of
from dovetail.aws.session import Aws
from dovetail.model import labels as label_keys
from dovetail.ports.event_loop import Loop

if TYPE_CHECKING:
    from types_boto3_ec2.client import EC2Client

_UNUSED: Final = timedelta(minutes=5)
"""After which a template goes. Upstream's one minute makes them anew for every small burst."""
_LOOK: Final = timedelta(minutes=1)


class Template(msgspec.Struct, frozen=True, kw_only=True):
    """A launch template that is wanted."""

    data: dict[str, Any]
    tags: dict[str, str]

    @property
    def name(self) -> str:
        return name_of(self.data, self.tags)


class LaunchTemplates:
    """Knows which templates there are.

    A name stands for its contents, so what another process made is as good as
    our own. What is known here may be deleted by others: the launch then says
    so, and ``forget`` has the template made again.
    """

    def __init__(
        self,
        *,
        aws: Aws,
        ec2: "EC2Client",
        loop: Loop,
        cluster: str,
        kept: timedelta = _UNUSED,
    ) -> None:
        self._aws = aws
        self._ec2 = ec2
        self._loop = loop
        self._cluster = cluster
        self._kept = kept
        self._used: dict[str, datetime] = {}
        self._making: dict[str, asyncio.Task[None]] = {}

    async def ensure(self, templates: Sequence[Template]) -> list[str]:
        """Return the names of templates that are there by then, in the order given."""
        names = [one.name for one in templates]
        await asyncio.gather(*map(self._ensure, names, templates))
        return names

    def forget(self, names: Sequence[str]) -> None:
        """Know nothing of these any more."""
        for name in names:
            self._used.pop(name, None)

    async def adopt(self) -> None:
        """Learn what earlier processes left, so that it goes when nobody uses it."""
        now = self._loop.now()
        for name in await self._tagged({CLUSTER: self._cluster}):
            self._used.setdefault(name, now)

    async def keep_tidy(self) -> None:
        """Take away what is unused, for as long as the process lives."""
        while True:
            await self._loop.sleep(_LOOK)
            with suppress(AwsError):  # They are still known: next time, then.
                await self.tidy()

    async def tidy(self) -> None:
        """Take away what has not been used for a while."""
        before = self._loop.now() - self._kept
        await self._delete([name for name, used in self._used.items() if used <= before])

    async def delete_of(self, node_class: str) -> None:
        """Take away all that belong to a node class, whoever made them."""
        found = await self._tagged({CLUSTER: self._cluster, label_keys.EC2_NODE_CLASS: node_class})
        await self._delete(found)

    async def _ensure(self, name: str, template: Template) -> None:
        if name not in self._used:
            making = self._making.get(name)
            if making is None:
                making = asyncio.ensure_future(self._create(name, template))
                self._making[name] = making
                making.add_done_callback(lambda _: self._making.pop(name, None))
            # One who leaves must not take it away from the others who wait for it.
            await asyncio.shield(making)
        self._used[name] = self._loop.now()

    async def _create(self, name: str, template: Template) -> None:
        request: dict[str, Any] = {
            "LaunchTemplateName": name,
            "LaunchTemplateData": template.data,
            "TagSpecifications": [
                {"ResourceType": "launch-template", "Tags": as_list(template.tags)}
            ],
        }
        try:
            await self._aws.call(
                "CreateLaunchTemplate", lambda: self._ec2.create_launch_template(**request)
            )
        except AwsError as error:
            if error.code != TEMPLATE_EXISTS:
                raise
            # The name is made of the contents: what is there is what we want.

    async def _delete(self, names: Sequence[str]) -> None:
        for name in names:
            # Before it goes, so that no launch takes it to be there.
            used = self._used.pop(name, self._loop.now())
            try:
                await self._aws.call("DeleteLaunchTemplate", self._deletion_of(name))
            except AwsError as error:
                if error.kind is not Kind.GONE:
                    self._used.setdefault(name, used)
                    raise

    def _deletion_of(self, name: str) -> Any:
        return lambda: self._ec2.delete_launch_template(LaunchTemplateName=name)

    async def _tagged(self, tags: Mapping[str, str]) -> list[str]:
        filters: Any = [{"Name": f"tag:{key}", "Values": [value]} for key, value in tags.items()]

        def read() -> list[str]:
            pages = self._ec2.get_paginator("describe_launch_templates").paginate(
                Filters=filters, PaginationConfig={"PageSize": 200}
            )
            return [one["LaunchTemplateName"] for page in pages for one in page["LaunchTemplates"]]

        return await self._aws.call("DescribeLaunchTemplates", read)
