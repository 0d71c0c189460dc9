"""OIDC providers: what lets IAM believe a cluster's service account tokens."""

from collections.abc import Iterable, Sequence

from dovetail.eks.aws_client import Raw, Reach
from dovetail.eks.plan.resource import OWNER_TAG, Existing, Resource
from dovetail.eks.resources.handler import Attributes
from dovetail.eks.resources.property_names import differing, tag_list, tag_map


class OidcProviders:
    """Providers by URL. IAM itself finds the thumbprint of EKS's certificates."""

    kind = "oidc-provider"

    def __init__(self, reach: Reach) -> None:
        self._reach = reach

    async def observe(self, cluster: str, wanted: Sequence[Resource]) -> Iterable[Existing]:
        names = {_bare(one.properties["Url"]): one.name for one in wanted}
        found: list[Existing] = []
        for arn in await self._arns():
            url = arn.partition("oidc-provider/")[2]
            raw = await self._provider(arn)
            if raw is None:
                continue
            tags = tag_map(raw.get("Tags"))
            name = names.get(url) or (url if tags.get(OWNER_TAG) == cluster else None)
            if name is not None:
                found.append(
                    Existing(
                        kind=self.kind,
                        name=name,
                        properties={
                            "Url": f"https://{url}",
                            "ClientIdList": raw.get("ClientIDList", []),
                        },
                        tags=tags,
                        attributes={"arn": arn},
                    )
                )
        return found

    async def create(self, resource: Resource) -> Attributes:
        url = resource.properties["Url"]
        await self._reach.make(
            "iam",
            "create_open_id_connect_provider",
            Url=url,
            ClientIDList=list(resource.properties["ClientIdList"]),
            Tags=tag_list(resource.tags),
        )
        arns = await self._arns()
        return {"arn": next(one for one in arns if one.endswith(f"/{_bare(url)}"))}

    async def change(self, existing: Existing, resource: Resource) -> Attributes:
        names = differing(existing, resource)
        which = {"OpenIDConnectProviderArn": existing.attributes["arn"]}
        if "Tags" in names:
            tags = tag_list(resource.tags)
            await self._reach.ask("iam", "tag_open_id_connect_provider", **which, Tags=tags)
        if "ClientIdList" in names:
            before = set(existing.properties["ClientIdList"])
            for client in set(resource.properties["ClientIdList"]) - before:
                await self._reach.ask(
                    "iam", "add_client_id_to_open_id_connect_provider", **which, ClientID=client
                )
        return existing.attributes

    async def remove(self, existing: Existing) -> None:
        await self._reach.remove(
            "iam",
            "delete_open_id_connect_provider",
            OpenIDConnectProviderArn=existing.attributes["arn"],
        )

    async def _arns(self) -> list[str]:
        listed = await self._reach.ask("iam", "list_open_id_connect_providers")
        return [one["Arn"] for one in listed["OpenIDConnectProviderList"]]

    async def _provider(self, arn: str) -> Raw | None:
        return await self._reach.ask_if_there(
            "iam", "get_open_id_connect_provider", OpenIDConnectProviderArn=arn
        )


def _bare(url: str) -> str:
    return url.removeprefix("https://")
