"""A session of ``dovetail run`` that makes every call to AWS once, over HTTP.

The AWS adapter is wired as in the real process. What the controllers would do is
called directly: resolve node classes, launch, tag, list, terminate, read messages.
"""

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, cast

import msgspec
from moto.core import DEFAULT_ACCOUNT_ID

from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.host.randomness import SystemRandomSource
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.operator.aws import AwsCloudFactory, AwsSettings
from dovetail.operator.cloud import CloudContext, CloudServices
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_POOLS
from dovetail.ports.cloudprovider import Instance, InstanceNotFoundError
from dovetail.ports.kube_client import KubeClient
from dovetail.ports.kube_errors import NotFound
from dovetail.ports.telemetry import NO_METRICS
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOfferings
from tests.simulator.ec2.harness import a_claim
from tests.support.aws.launches import NEW
from tests.support.aws.nodeclass_account import REGION, Account
from tests.support.aws.pricelists import product
from tests.support.telemetry import RecordedLog

CLUSTER = "demo"
ROLE = "demo-node"
_IMAGE = "ami-al2023"
_ALIAS = "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023"
_ARN = f"arn:aws:eks:{REGION}:{DEFAULT_ACCOUNT_ID}:cluster/{CLUSTER}"
_SETTINGS = AwsSettings(
    cluster_name=CLUSTER, region=REGION, interruption_queue=CLUSTER, enable_zonal_shift=True
)


class _NoServices:
    """An API server without Services; it accepts patches of NodeClaims."""

    async def get(self, *_: object) -> dict[str, Any]:
        raise NotFound("not found")

    async def patch(
        self, _: object, name: str, patch: dict[str, Any], *__: object, **___: object
    ) -> dict[str, Any]:
        return {"metadata": {"name": name, "resourceVersion": "1", **patch["metadata"]}, "spec": {}}


class RunSession:
    """An account with everything that a node class selects, and a run in it."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.log = RecordedLog()
        self._cache = ClusterCache()

    def prepare(self, clients: Mapping[str, Any]) -> None:
        """Create network, role, image, queue, reservation and prices."""
        account, moto = self.account, self.account.moto
        account.network(clients["ec2"])
        account.role(clients["iam"], ROLE)
        account.image(_IMAGE, name="amazon-eks-node-al2023-x86_64-standard-1.34")
        for variant in ("standard", "nvidia", "neuron"):
            account.parameter(f"{_ALIAS}/x86_64/{variant}/recommended/image_id", _IMAGE)
        account.reservation("cr-1")
        account.placement_group("close", "pg-1")
        description = {"name": CLUSTER, "arn": _ARN, "endpoint": "https://demo", "version": "1.34"}
        network = {"serviceIpv4Cidr": "10.100.0.0/16"}
        account.cluster({**description, "kubernetesNetworkConfig": network})
        moto.middleware.responses |= {
            "GetProducts": lambda _: _json({"PriceList": [product("m5.large", "0.1")]}),
            f"GET /managedresources/{_ARN}": lambda _: _json(
                {"arn": _ARN, "appliedWeights": {}, "zonalShifts": []}
            ),
        }
        moto.capacity.spot_prices = {("m5.large", f"{REGION}a"): 0.04}
        queue = clients["sqs"].create_queue(QueueName=CLUSTER)["QueueUrl"]
        clients["sqs"].send_message(QueueUrl=queue, MessageBody="{}")

    def run(self) -> list[Instance]:
        """Run the session; return the launched instances, which are terminated."""
        return asyncio.run(self._run())

    async def _run(self) -> list[Instance]:
        loop = AsyncioEventLoop()
        context = CloudContext(
            loop=loop,
            random=SystemRandomSource(),
            log=self.log,
            metrics=NO_METRICS,
            kube=cast(KubeClient, _NoServices()),
            cache=self._cache,
            unavailable_offerings=UnavailableOfferings(),
            kubernetes_version="1.34",
            get_kubernetes_version=lambda: asyncio.sleep(0, "1.34"),
            ca_certificates="",
            wait_until_leader=lambda: asyncio.sleep(0, True),
        )
        try:
            services = await AwsCloudFactory(_SETTINGS)(context)
            try:
                return await self._use(services)
            finally:
                services.close()
        finally:
            await loop.stop()

    async def _use(self, services: CloudServices) -> list[Instance]:
        cloud = services.cloud_provider
        async with asyncio.timeout(60):
            # Prices are read in the background.
            while not {"DescribeSpotPriceHistory", "GetProducts", "GetCallerIdentity"} <= set(self._calls()):
                await asyncio.sleep(0.02)
        classes = [_node_class("default"), _node_class("close", placementGroupSelector={"name": "close"})]
        for node_class in classes:
            await self._resolve(services, node_class)
        instances = [await cloud.create(claim) for claim in _claims()]
        await self._resolve(services, _node_class("default", generation=2))  # The reads are cached.
        for instance in instances:
            assert services.instance_tagger is not None
            await services.instance_tagger.tag(instance.provider_id, node="node", claim=instance.nodeclaim)
        assert services.instance_status is not None
        await services.instance_status.list_unhealthy()
        for message in await services.interruption_queue.receive():
            await services.interruption_queue.delete(message)
        for instance in await cloud.list():
            with suppress(InstanceNotFoundError):
                await cloud.delete(instance.provider_id)
        for node_class in classes:
            await cloud.delete_nodeclass_resources(node_class)
        return instances

    async def _resolve(self, services: CloudServices, node_class: dict[str, Any]) -> None:
        """Resolve a node class, and store it with its status and a NodePool."""
        result = await services.cloud_provider.resolve_nodeclass(node_class)
        assert not result.false_conditions, result.false_conditions
        assert not result.unknown_conditions, result.unknown_conditions
        ready = {"type": "Ready", "status": "True", "reason": "Ready", "observedGeneration": 0}
        status = {**result.status, "conditions": [ready]}
        self._cache.apply_event(EC2_NODE_CLASSES, {**node_class, "status": status})
        name = node_class["metadata"]["name"]
        reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": name}
        spec = {"template": {"spec": {"nodeClassRef": reference, "requirements": []}}}
        metadata = {"name": name, "uid": f"pool-{name}", "resourceVersion": "1"}
        self._cache.apply_event(NODE_POOLS, {"metadata": metadata, "spec": spec})

    def _calls(self) -> Iterable[str]:
        return list(self.account.moto.middleware.calls)


def _claims() -> list[NodeClaim]:
    """Return claims of each capacity type."""
    claims = [
        a_claim(f"default-{kind}", types=["m5.large"], kinds=[kind])
        for kind in ("on-demand", "spot", "reserved")
    ]
    return [msgspec.structs.replace(claim, created=NEW) for claim in claims]


def _node_class(name: str, *, generation: int = 1, **spec: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"team": "a"}}],
        "securityGroupSelectorTerms": [{"tags": {"team": "a"}}],
        "capacityReservationSelectorTerms": [{"id": "cr-1"}],
        "role": ROLE,
        "tags": {"cost": "a"},
    }
    metadata = {
        "name": name,
        "uid": f"uid-{name}",
        "generation": generation,
        "resourceVersion": str(generation),
    }
    return {"metadata": metadata, "spec": {**usual, **spec}}


def _json(content: Mapping[str, Any]) -> tuple[str, bytes]:
    return "application/json", msgspec.json.encode(content)
