"""A test account for cluster.yaml files: moto, a fake EKS and an API server."""

import gzip
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import msgspec

from dovetail.aws.session import AwsSession, RetryPolicy
from dovetail.eks.apply.executor import MAX_CONCURRENT_STEPS, ExecutionResult, execute_plan
from dovetail.eks.aws_client import PollSettings
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.kubernetes.helm import HelmRelease
from dovetail.eks.session import ClusterSession, open_session, refuse_writes
from dovetail.errors import DovetailError
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.host.executor import ThreadExecutor
from dovetail.host.randomness import SystemRandomSource
from dovetail.kube.connection import no_fence
from dovetail.ports.api_resources import NAMESPACES, SECRETS
from dovetail.simulator.apiserver.server import ApiServer
from tests.support.eks.cluster_commands import ClusterCommands
from tests.support.moto.account import MotoAccount
from tests.support.moto.api_server import ServedApi, served_api
from tests.support.moto.eks import Eks
from tests.support.moto.middleware import Wsgi
from tests.support.moto.server import MotoAws, moto_aws

T = TypeVar("T")
QUICK = PollSettings(
    interval=timedelta(milliseconds=5),
    timeout=timedelta(seconds=20),
    conflict_timeout=timedelta(seconds=5),
    visibility_timeout=timedelta(seconds=1),
)


class FakeHelm:
    """Stores releases in the cluster as Helm does, without the objects of the chart."""

    def __init__(self, served: ServedApi) -> None:
        self._served = served
        self.charts: dict[str, str] = {}
        """Namespace and name of a release → name of its chart."""

    async def install(self, release: HelmRelease) -> None:
        address, chart = f"{release.namespace}/{release.name}", release.chart.rpartition("/")[2]
        others = [name for name, other in self.charts.items() if other == chart and name != address]
        if others:
            # Charts have objects that are not in a namespace: CRDs, ClusterRoles, APIServices.
            raise DovetailError(f"helm: invalid ownership metadata: objects of {chart} belong to {others[0]}")
        self.charts[address] = chart
        revision = {
            "name": release.name,
            "namespace": release.namespace,
            "version": 1,
            "config": dict(release.values),
            "info": {"status": "deployed", "description": f"dovetail cluster {release.owner}"},
            "chart": {"metadata": {"name": chart, "version": release.version or "0.1.0"}},
        }
        text = b64encode(b64encode(gzip.compress(json.dumps(revision).encode()))).decode()
        secret = {
            "metadata": {"name": _secret(release.name), "labels": {"owner": "helm"}},
            "type": "helm.sh/release.v1",
            "data": {"release": text},
        }
        self._served.call(lambda: self._write(secret, release.namespace))

    async def uninstall(self, name: str, namespace: str) -> None:
        self.charts.pop(f"{namespace}/{name}", None)
        self._served.call(lambda: self._delete(name, namespace))

    def _write(self, secret: dict[str, Any], namespace: str) -> None:
        api = self._served.api
        if namespace not in {item["metadata"]["name"] for item in api.list(NAMESPACES).items}:
            api.create(NAMESPACES, {"metadata": {"name": namespace}})
        self._delete_secret(api, secret["metadata"]["name"], namespace)
        api.create(SECRETS, secret, namespace)

    def _delete(self, name: str, namespace: str) -> None:
        self._delete_secret(self._served.api, _secret(name), namespace)

    def _delete_secret(self, api: ApiServer, name: str, namespace: str) -> None:
        names = {
            (secret["metadata"]["namespace"], secret["metadata"]["name"])
            for secret in api.list(SECRETS).items
        }
        if (namespace, name) in names:
            api.delete(SECRETS, name, namespace)


class TestAccount(MotoAccount, ClusterCommands):
    """An account in which a test creates clusters."""

    __test__ = False

    def __init__(self, moto: MotoAws, eks: Eks, served: ServedApi) -> None:
        super().__init__(moto)
        self.eks, self.served = eks, served
        self.helm = FakeHelm(served)
        self.polling = QUICK
        eks.endpoint, eks.authority = served.url, served.authority

    @asynccontextmanager
    async def open_session(
        self, config: ClusterConfig, *, may_write: bool = True
    ) -> AsyncIterator[ClusterSession]:
        loop = AsyncioEventLoop()
        threads = ThreadExecutor(8)
        aws_session = AwsSession(
            loop=loop,
            executor=threads,
            random=SystemRandomSource(),
            region=config.region,
            endpoint_url=self.moto.url,
            retry_policy=RetryPolicy(
                initial_delay=timedelta(milliseconds=5), max_delay=timedelta(milliseconds=20)
            ),
            session=self.session,
            fence=no_fence if may_write else refuse_writes,
        )
        opening = open_session(
            config,
            aws_session=aws_session,
            loop=loop,
            polling=self.polling,
            may_write=may_write,
            helm=lambda _: self.helm,
        )
        try:
            async with opening as session:
                yield session
        finally:
            threads.close()

    def apply(self, config: ClusterConfig, *, steps: int | None = None) -> ExecutionResult:
        """Apply a file, or its first steps, as if the run was killed after them."""

        async def work(session: ClusterSession) -> ExecutionResult:
            plan, observed = await session.plan_when_settled(lambda _: None)
            return await execute_plan(
                msgspec.structs.replace(plan, steps=plan.steps[:steps]),
                session.executor(observed),
                max_concurrent=MAX_CONCURRENT_STEPS if steps is None else 1,
            )

        return self.run(config, work)


def _secret(release: str) -> str:
    return f"sh.helm.release.v1.{release}.v1"


@contextmanager
def an_account() -> Iterator[TestAccount]:
    """Yield an empty account."""
    servers: list[Eks] = []

    def front(inner: Wsgi) -> Eks:
        servers.append(Eks(inner))
        return servers[-1]

    with served_api() as served, moto_aws(front) as moto:
        moto.reset()
        account = TestAccount(moto, servers[0], served)
        account.use_managed_policies()
        yield account
