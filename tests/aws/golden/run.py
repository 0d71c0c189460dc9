"""Runs a case: the AWS adapters of `dovetail run` against the canned account, phase by phase."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, cast

import boto3
import msgspec
import pytest

from dovetail.codec.kube.conditions import encode_conditions
from dovetail.core.instancetypes.settings import InstanceTypeSettings
from dovetail.core.nodeclass.hash import compute_nodeclass_hash_annotations
from dovetail.core.nodeclass.readiness import compute_conditions
from dovetail.errors import DovetailError
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.host.randomness import SystemRandomSource
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.operator.aws import AwsCloudFactory, AwsSettings
from dovetail.operator.cloud import CloudContext, CloudServices
from dovetail.operator.instance_type_refresh import CatalogSettings
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS
from dovetail.ports.cloudprovider import Instance, InsufficientCapacityError, NodeClassNotReadyError
from dovetail.ports.kube_client import KubeClient
from dovetail.ports.telemetry import NO_METRICS
from dovetail.state.cluster.cache import ClusterCache
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOfferings
from tests.aws.golden.cases import Case
from tests.support.aws.credentials import FAKE_CREDENTIALS
from tests.support.canned_aws.account import CLUSTER, CannedAccount, FleetErrors
from tests.support.canned_aws.server import CannedAws, RecordedRequest, canned_aws
from tests.support.telemetry import RecordedLog

_PARKED = timedelta(seconds=30)
"""A background task that sleeps longer has finished its work for now."""
_LARGE = 100_000
"""Size of responses that are parsed only once."""
_DELETED_MESSAGES = ("rh-spot", "rh-health-notification")


class CaseRun(msgspec.Struct, frozen=True, kw_only=True):
    """Requests by phase, and results."""

    requests: dict[str, list[RecordedRequest]]
    results: dict[str, Any]


@contextmanager
def running_aws() -> Iterator[tuple[CannedAws, boto3.Session]]:
    """Run the canned AWS; yield it and a session whose clients talk to it."""
    with canned_aws() as aws, pytest.MonkeyPatch.context() as patch:
        environment = {**FAKE_CREDENTIALS, "AWS_ENDPOINT_URL": aws.url}
        for name, value in environment.items():
            patch.setenv(name, value)
        shared = _SharedSession()
        try:
            yield aws, shared
        finally:
            shared.close()


def run_case(aws: CannedAws, session: boto3.Session, case: Case) -> CaseRun:
    """Start the adapters and run all steps of a case."""
    errors = case.settings.get("fleet", {})
    aws.account = CannedAccount(
        whole_catalog=case.settings.get("all", False),
        ipv6=case.settings.get("ipv6", False),
        fleet_errors=FleetErrors(**errors),
        messages=[(message["id"], message["body"]) for message in case.messages],
    )
    aws.take_requests()
    return asyncio.run(_Process(aws, session, case).run())


class _Process:
    """One process of `dovetail run`, without API server and controllers."""

    def __init__(self, aws: CannedAws, session: boto3.Session, case: Case) -> None:
        self._aws = aws
        self._session = session
        self._case = case
        self._cache = ClusterCache()
        self._cache.replace(NODE_POOLS, [case.nodepool])
        self._cache.replace(NODE_CLAIMS, case.nodeclaims)
        self._version = 0
        self._launched: dict[str, Instance] = {}
        self._results: dict[str, Any] = {}

    async def run(self) -> CaseRun:
        self._loop = _Loop()
        settings = self._case.settings
        isolated = settings.get("isolated", False)
        factory = AwsCloudFactory(
            AwsSettings(
                cluster_name=CLUSTER,
                region=settings.get("region", "us-west-2"),
                interruption_queue=CLUSTER,
                isolated_vpc=isolated,
                catalog=CatalogSettings(
                    instance_types=InstanceTypeSettings(reserved_enis=settings.get("reservedENIs", 0)),
                    isolated=isolated,
                ),
            ),
            session=self._session,
        )
        context = CloudContext(
            loop=self._loop,
            random=SystemRandomSource(),
            log=RecordedLog(),
            metrics=NO_METRICS,
            kube=cast(KubeClient, _DnsService(settings.get("dns", "10.100.0.10"))),
            cache=self._cache,
            unavailable_offerings=UnavailableOfferings(),
            kubernetes_version="1.34",
            get_kubernetes_version=lambda: asyncio.sleep(0, "1.34"),
            ca_certificates="ca-bundle\n",
        )
        requests: dict[str, list[RecordedRequest]] = {}
        try:
            services = await factory(context)
            try:
                await self._loop.settle()
                requests["start"] = self._aws.take_requests()
                for step in self._case.steps:
                    await getattr(self, f"_{step}")(services)
                    requests[step] = self._aws.take_requests()
            finally:
                services.close()
        finally:
            await self._loop.stop()
        return CaseRun(requests=requests, results=self._results)

    async def _class(self, services: CloudServices) -> None:
        await self._resolve(services, self._case.nodeclass)

    async def _reclass(self, services: CloudServices) -> None:
        changed = {**self._case.nodeclass["metadata"], "generation": 2}
        await self._resolve(services, {**self._case.changed_nodeclass, "metadata": changed})

    async def _resolve(self, services: CloudServices, node_class: dict[str, Any]) -> None:
        """Do as the controllers of node classes do."""
        self._store(node_class)
        resolved = await services.cloud_provider.resolve_nodeclass(node_class)
        decoded = self._cache.node_class("default")
        assert decoded is not None
        conditions = compute_conditions(
            decoded, self._loop.now(), problems=resolved.false_conditions, unknown=resolved.unknown_conditions
        )
        status = {**resolved.status, "conditions": encode_conditions(conditions)}
        annotations = compute_nodeclass_hash_annotations(decoded, services.cluster_ca_bundle)
        metadata = {**node_class["metadata"], "annotations": annotations}
        self._store({**node_class, "metadata": metadata, "status": status})
        self._results.setdefault("status", resolved.status)
        reasons = {entry["type"]: (entry["status"], entry["reason"]) for entry in status["conditions"]}
        self._results.setdefault("conditions", reasons)

    def _store(self, node_class: dict[str, Any]) -> None:
        self._version += 1
        metadata = {**node_class["metadata"], "resourceVersion": str(self._version)}
        self._cache.replace(EC2_NODE_CLASSES, [{**node_class, "metadata": metadata}])

    async def _launch(self, services: CloudServices) -> None:
        claims = self._claims()
        outcomes = await self._loop.gather([services.cloud_provider.create(claim) for claim in claims])
        for claim, outcome in zip(claims, outcomes, strict=True):
            if isinstance(outcome, Instance):
                self._launched[claim.name] = msgspec.structs.replace(
                    outcome,
                    labels=claim.labels.with_items(outcome.labels),
                    annotations=claim.annotations.with_items(outcome.annotations),
                )
            elif isinstance(outcome, DovetailError):
                self._results.setdefault("errors", []).append(outcome)
            else:
                raise outcome
        self._results["launched"] = list(self._launched.values())

    async def _get(self, services: CloudServices) -> None:
        for instance in self._launched.values():
            await services.cloud_provider.get(instance.provider_id)

    async def _list(self, services: CloudServices) -> None:
        self._results["listed"] = len(await services.cloud_provider.list())

    async def _tag(self, services: CloudServices) -> None:
        assert services.instance_tagger is not None
        for name, instance in self._launched.items():
            await services.instance_tagger.tag(instance.provider_id, node=f"node-{name}", claim=name)

    async def _status(self, services: CloudServices) -> None:
        assert services.instance_status is not None
        await services.instance_status.list_unhealthy()

    async def _drift(self, services: CloudServices) -> None:
        claim = self._claims()[0]
        instance = self._launched.get(claim.name)
        if instance is None:
            return
        launched = msgspec.structs.replace(
            claim,
            provider_id=instance.provider_id,
            image_id=instance.image_id,
            labels=instance.labels,
            annotations=instance.annotations,
        )
        self._results["drift"] = await services.cloud_provider.drift_reason(launched) or ""

    async def _delete(self, services: CloudServices) -> None:
        deletions = [
            services.cloud_provider.delete(instance.provider_id) for instance in self._launched.values()
        ]
        for outcome in await self._loop.gather(deletions):
            assert outcome is None, outcome

    async def _forget(self, services: CloudServices) -> None:
        raw = self._cache.raw_node_class("default")
        assert raw is not None
        await services.cloud_provider.delete_nodeclass_resources(raw)

    async def _queue(self, services: CloudServices) -> None:
        queue = services.interruption_queue
        received = [*await queue.receive(), *await queue.receive()]
        self._results["messages"] = {message.id: message for message in received}
        await self._loop.gather(
            [queue.delete(message) for message in received if message.id in _DELETED_MESSAGES]
        )

    def _claims(self) -> list[NodeClaim]:
        return sorted(self._cache.claims(), key=lambda claim: claim.name)


class _Loop(AsyncioEventLoop):
    """Knows when background tasks have done what they do at the start."""

    def __init__(self) -> None:
        super().__init__()
        self._working = 0
        self._settled = asyncio.Event()

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        async def work() -> None:
            try:
                await coroutine
            finally:
                self._change(-1)

        self._change(1)
        super().spawn(work())

    async def sleep(self, delay: timedelta) -> None:
        if delay < _PARKED:
            await super().sleep(delay)
            return
        self._change(-1)
        try:
            await super().sleep(delay)
        finally:
            self._change(1)

    async def settle(self) -> None:
        """Wait until every spawned task has ended or sleeps."""
        async with asyncio.timeout(60):
            await self._settled.wait()

    def _change(self, by: int) -> None:
        self._working += by
        if self._working:
            self._settled.clear()
        else:
            self._settled.set()


class _DnsService:
    """An API server with the Service kube-dns; it accepts patches of NodeClaims."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def get(self, *_: object) -> dict[str, Any]:
        return {"spec": {"clusterIP": self._address}}

    async def patch(
        self, _: object, name: str, patch: dict[str, Any], *__: object, **___: object
    ) -> dict[str, Any]:
        return {"metadata": {"name": name, "resourceVersion": "1", **patch["metadata"]}, "spec": {}}


class _SharedSession(boto3.Session):
    """One set of clients for all cases: creating them is most of the cost of a start."""

    def __init__(self) -> None:
        super().__init__()
        self._clients: dict[tuple[object, ...], Any] = {}
        self._parsed: dict[bytes, Any] = {}

    def client(self, service: Any, **options: Any) -> Any:
        key = (service, options["region_name"], options["config"].read_timeout)
        if key not in self._clients:
            client = super().client(service, **options)
            endpoint = client._endpoint
            factory = endpoint._response_parser_factory
            endpoint._response_parser_factory = _ParserFactory(factory, self._parsed)
            self._clients[key] = client
        return self._clients[key]

    def close(self) -> None:
        """Close the connections of all clients."""
        for client in self._clients.values():
            client.close()


class _ParserFactory:
    """Creates parsers that parse equal large bodies once: the catalogue is 5 MB of XML."""

    def __init__(self, factory: Any, parsed: dict[bytes, Any]) -> None:
        self._factory = factory
        self._parsed = parsed

    def create_parser(self, protocol: str) -> "_Parser":
        return _Parser(self._factory.create_parser(protocol), self._parsed)


class _Parser(msgspec.Struct, frozen=True):
    parser: Any
    parsed: dict[bytes, Any]

    def parse(self, response: dict[str, Any], shape: Any) -> Any:
        body = response["body"]
        if len(body) < _LARGE:
            return self.parser.parse(response, shape)
        if body not in self.parsed:
            self.parsed[body] = self.parser.parse(response, shape)
        return self.parsed[body]


def error_kind(error: DovetailError) -> str:
    """Return the class of a launch error, as the lifecycle controller distinguishes it."""
    if isinstance(error, InsufficientCapacityError):
        return "insufficient-capacity"
    return "nodeclass-not-ready" if isinstance(error, NodeClassNotReadyError) else "failed"
