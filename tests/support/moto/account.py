"""An account in which clusters are made from files: moto, EKS and an API server."""

import asyncio
import gzip
import json
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import msgspec

from dovetail.aws.session import Aws, Patience
from dovetail.eks.apply.executor import Run, carry_out
from dovetail.eks.aws_client import Pace
from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.destroy.destroy import destroy, proof, removal
from dovetail.eks.destroy.leftovers import Left
from dovetail.eks.kubernetes.api import KubeDoor
from dovetail.eks.kubernetes.helm import Release
from dovetail.eks.plan.planner import Plan
from dovetail.eks.session import Site, open_site, refuse_to_write
from dovetail.host.event_loop import AsyncioLoop
from dovetail.host.executor import ThreadOffload
from dovetail.host.randomness import RealChance
from dovetail.ports.api_resources import NAMESPACES, SECRETS
from dovetail.simulator.apiserver.server import ApiServer
from tests.support.moto.door import Wsgi
from tests.support.moto.eks import Eks
from tests.support.moto.ground import Ground
from tests.support.moto.kubeapi import ServedApi, served_api
from tests.support.moto.server import MotoAws, moto_aws

T = TypeVar("T")
QUICK = Pace(
    look=timedelta(milliseconds=5),
    patience=timedelta(seconds=20),
    settling=timedelta(seconds=5),
    appearing=timedelta(seconds=1),
)


class PaperHelm:
    """Leaves releases in the cluster as Helm does, without what charts hold."""

    def __init__(self, served: ServedApi) -> None:
        self._served = served
        self.releases: dict[str, Release] = {}

    async def install(self, release: Release) -> None:
        whole = {
            "name": release.name,
            "namespace": release.namespace,
            "version": 1,
            "config": dict(release.values),
            "info": {"status": "deployed", "description": f"dovetail cluster {release.owner}"},
            "chart": {
                "metadata": {
                    "name": release.chart.rpartition("/")[2],
                    "version": release.version or "0.1.0",
                }
            },
        }
        text = b64encode(b64encode(gzip.compress(json.dumps(whole).encode()))).decode()
        secret = {
            "metadata": {"name": _secret(release.name), "labels": {"owner": "helm"}},
            "type": "helm.sh/release.v1",
            "data": {"release": text},
        }
        self._served.call(lambda: self._write(secret, release.namespace))

    async def uninstall(self, name: str, namespace: str) -> None:
        self._served.call(lambda: self._delete(name, namespace))

    def _write(self, secret: dict[str, Any], namespace: str) -> None:
        api = self._served.api
        if namespace not in {one["metadata"]["name"] for one in api.list(NAMESPACES).items}:
            api.create(NAMESPACES, {"metadata": {"name": namespace}})
        self._delete_secret(api, secret["metadata"]["name"], namespace)
        api.create(SECRETS, secret, namespace)

    def _delete(self, name: str, namespace: str) -> None:
        self._delete_secret(self._served.api, _secret(name), namespace)

    def _delete_secret(self, api: ApiServer, name: str, namespace: str) -> None:
        held = {
            (one["metadata"]["namespace"], one["metadata"]["name"])
            for one in api.list(SECRETS).items
        }
        if (namespace, name) in held:
            api.delete(SECRETS, name, namespace)


class TestAccount(Ground):
    """Where a test makes its clusters."""

    __test__ = False

    def __init__(self, moto: MotoAws, eks: Eks, served: ServedApi) -> None:
        super().__init__(moto)
        self.eks, self.served = eks, served
        self.helm = PaperHelm(served)
        self.pace = QUICK
        eks.endpoint, eks.authority = served.url, served.authority

    @asynccontextmanager
    async def site(self, spec: ClusterSpec, *, may_write: bool = True) -> AsyncIterator[Site]:
        loop = AsyncioLoop()
        offload = ThreadOffload(8)
        guard = (lambda: None) if may_write else refuse_to_write
        aws = Aws(
            loop=loop,
            offload=offload,
            chance=RealChance(),
            region=spec.region,
            endpoint_url=self.moto.url,
            patience=Patience(first=timedelta(milliseconds=5), most=timedelta(milliseconds=20)),
            session=self.session,
            guard=guard,
        )
        helm: Callable[[KubeDoor], PaperHelm] = lambda _: self.helm  # noqa: E731
        given = {"aws": aws, "loop": loop, "helm": helm}
        opening = open_site(spec, pace=self.pace, may_write=may_write, **given)
        try:
            async with opening as site:
                yield site
        finally:
            offload.close()

    def do(self, spec: ClusterSpec, work: Callable[[Site], Awaitable[T]], **given: bool) -> T:
        """Open a site, do something with it, and close it."""

        async def run() -> T:
            opening: AbstractAsyncContextManager[Site] = self.site(spec, **given)
            async with opening as site:
                return await work(site)

        return asyncio.run(run())

    def plan(self, spec: ClusterSpec) -> Plan:
        async def look(site: Site) -> Plan:
            return (await site.plan())[0]

        return self.do(spec, look, may_write=False)

    def apply(self, spec: ClusterSpec, *, steps: int | None = None) -> Run:
        """Apply a file, or the first steps of it as if somebody pulled the plug."""

        async def run(site: Site) -> Run:
            found, observed = await site.settled_plan(lambda _: None)
            cut = found.steps if steps is None else found.steps[:steps]
            at_once = 16 if steps is None else 1
            return await carry_out(
                msgspec.structs.replace(found, steps=cut),
                site.executor(observed),
                at_once=at_once,
            )

        return self.do(spec, run)

    def destroy(self, spec: ClusterSpec) -> list[Left]:
        """Take all of it away, and return what is left."""

        async def run(site: Site) -> list[Left]:
            await destroy(site, *await removal(site))
            return await proof(site)

        return self.do(spec, run)


def _secret(release: str) -> str:
    return f"sh.helm.release.v1.{release}.v1"


@contextmanager
def an_account() -> Iterator[TestAccount]:
    """Have an account that is empty."""
    made: list[Eks] = []

    def front(inner: Wsgi) -> Eks:
        made.append(Eks(inner))
        return made[-1]

    with served_api() as served, moto_aws(front) as moto:
        moto.reset()
        account = TestAccount(moto, made[0], served)
        account.use_managed_policies()
        yield account
