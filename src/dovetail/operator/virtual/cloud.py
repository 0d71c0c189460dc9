"""Cloud factory for a virtual account."""

from contextlib import AsyncExitStack
from typing import Final

import msgspec

from dovetail.core.instancetypes.settings import InstanceTypeSettings
from dovetail.errors import DovetailError, InvalidInputError, ValidationError
from dovetail.kube.auth.kubeconfig import RestConfig
from dovetail.model.cloud.cpu_credits import BurstablePolicy
from dovetail.model.cloud.discounts import NO_DISCOUNTS, DiscountBook
from dovetail.operator.cloud import CloudContext, CloudServices
from dovetail.operator.virtual.account import AccountServer, AccountSettings, VirtualAccount
from dovetail.operator.virtual.client import AccountClient, VirtualCloudProvider, VirtualInterruptionQueue
from dovetail.ports.api_resources import NODES
from dovetail.ports.kube_client import KubeClient
from dovetail.simulator.kubelet.node_status import OS_IMAGE
from dovetail.state.instancetypes.provider import InstanceTypeProvider

_MAX_LISTED_NODES: Final = 3


class VirtualSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of the virtual cloud."""

    cluster_name: str
    account: AccountSettings
    endpoint: str = ""
    """URL of an account in another process; empty: one inside this process."""
    discounts: DiscountBook = NO_DISCOUNTS
    burstable: BurstablePolicy = BurstablePolicy.BASELINE
    allow_real_nodes: bool = False
    """Run also in a cluster with real nodes."""


async def check_no_real_nodes(kube: KubeClient, *, allow_real_nodes: bool) -> None:
    """Raise if the cluster has real nodes: pods on virtual nodes do not run."""
    if allow_real_nodes:
        return
    real = [
        node["metadata"]["name"]
        for node in await kube.list(NODES)
        if ((node.get("status") or {}).get("nodeInfo") or {}).get("osImage") != OS_IMAGE
    ]
    if real:
        more = f" and {len(real) - _MAX_LISTED_NODES} more" if len(real) > _MAX_LISTED_NODES else ""
        raise DovetailError(
            f"this cluster has real nodes ({', '.join(sorted(real)[:_MAX_LISTED_NODES])}{more}), and "
            "pods on virtual nodes do not run; to continue, give --virtual-anyway"
        )


class VirtualCloudFactory:
    """Makes the adapter; an instance is a ``CloudFactory``."""

    def __init__(self, access: RestConfig, settings: VirtualSettings) -> None:
        self._access = access
        self._settings = settings

    async def __call__(self, context: CloudContext) -> CloudServices:
        settings = self._settings
        account_settings = settings.account
        if account_settings.region not in account_settings.catalog.regions:
            message = f"{account_settings.region!r} is not a region of the bundled catalogue"
            raise InvalidInputError([ValidationError("--region:", 0, "", message)])
        await check_no_real_nodes(context.kube, allow_real_nodes=settings.allow_real_nodes)
        resources, url = AsyncExitStack(), settings.endpoint
        if not url:
            # An account inside this process.
            embedded = VirtualAccount(self._access, account_settings, log=context.log)
            server = AccountServer(embedded)
            resources.push_async_callback(embedded.close)
            resources.push_async_callback(server.stop)
            await embedded.start()
            url = await server.start()
        account = AccountClient(url, cluster=settings.cluster_name, fence=context.fence)
        resources.push_async_callback(account.close)
        try:
            # Fails at startup instead of at the first launch.
            await account.call("list")
        except DovetailError:
            await resources.aclose()
            raise
        cloud = VirtualCloudProvider(
            account,
            instance_types=InstanceTypeProvider(
                account_settings.catalog.instance_types_in(account_settings.region),
                region=account_settings.catalog.regions[account_settings.region],
                prices=account_settings.prices,
                unavailable=context.unavailable_offerings,
                settings=InstanceTypeSettings(
                    kubelet_expressions=account_settings.kubelet_expressions, burstable=settings.burstable
                ),
                discounts=settings.discounts,
                running=dict,
            ),
            unavailable=context.unavailable_offerings,
            overlays=context.nodeoverlays,
            loop=context.loop,
            node_class=context.cache.node_class,
        )
        context.log.info("using a virtual cloud", endpoint=url)
        return CloudServices(
            cloud_provider=cloud,
            interruption_queue=VirtualInterruptionQueue(account, loop=context.loop),
            close=lambda: None,
            shutdown=resources.aclose,
            provider_name="virtual",
        )
