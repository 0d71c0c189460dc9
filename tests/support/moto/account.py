"""An account in which clusters are made from files: moto, EKS and an API server."""

import asyncio
import gzip
import json
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import timedelta
from functools import cache
from typing import Any, TypeVar

import boto3
import botocore.session
import msgspec
from moto.core import DEFAULT_ACCOUNT_ID
from moto.iam.models import AWSManagedPolicy, iam_backends

from dovetail.aws.session import Aws, Patience
from dovetail.host.chance import RealChance
from dovetail.host.loop import AsyncioLoop
from dovetail.host.offload import ThreadOffload
from dovetail.infra.destroying import destroy, proof, removal
from dovetail.infra.executing import Run, carry_out
from dovetail.infra.helm import Release
from dovetail.infra.kubedoor import KubeDoor
from dovetail.infra.planning import Plan
from dovetail.infra.reach import Pace
from dovetail.infra.reading import read_spec
from dovetail.infra.site import Site, open_site, refuse_to_write
from dovetail.infra.spec.cluster import ClusterSpec
from dovetail.infra.sweeping import Left
from dovetail.ports.resources import NAMESPACES, SECRETS
from dovetail.sim.apiserver.server import ApiServer
from tests.support.clusters import EXAMPLES
from tests.support.moto.door import Wsgi
from tests.support.moto.eks import Eks
from tests.support.moto.kubeapi import ServedApi, served_api
from tests.support.moto.server import MotoAws, moto_aws

T = TypeVar("T")
QUICK = Pace(
    look=timedelta(milliseconds=5),
    patience=timedelta(seconds=20),
    settling=timedelta(seconds=5),
)
_MANAGED = (
    "AmazonEKSClusterPolicy",
    "AmazonEKSVPCResourceController",
    "AmazonEKSWorkerNodePolicy",
    "AmazonEKS_CNI_Policy",
    "AmazonEC2ContainerRegistryPullOnly",
    "AmazonSSMManagedInstanceCore",
    "AmazonEKSFargatePodExecutionRolePolicy",
    "CloudWatchAgentServerPolicy",
)


_ANYTHING = {"Effect": "Allow", "Action": "*", "Resource": "*"}


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
            "info": {"status": "deployed", "description": release.note},
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


class TestAccount:
    """Where a test makes its clusters."""

    __test__ = False

    def __init__(self, moto: MotoAws, eks: Eks, served: ServedApi) -> None:
        self.moto, self.eks, self.served = moto, eks, served
        self.helm = PaperHelm(served)
        self.pace = QUICK
        self._session = _Clients()
        eks.endpoint, eks.authority = served.url, served.authority

    def client(self, service: Any, region: str = "us-east-1") -> Any:
        return self._session.client(service, region_name=region, endpoint_url=self.moto.url)

    def use_managed_policies(self) -> None:
        """Have the policies of AWS's own that roles are given."""
        for name in _MANAGED:
            _make_managed(name)

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
            session=self._session,
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

    def prepared(self, name: str) -> ClusterSpec:
        """Return an example, with what it expects to find made for it."""
        path = next(one for one in EXAMPLES if one.stem == name)
        text = path.read_text()
        if "existing:" in text:
            text = self._with_network(text)
        spec = read_spec(path.name, text.encode())
        if name == "existing-cluster":
            self._make_cluster(spec)
        if name == "managed-node-group":
            iam = self.client("iam")
            iam.create_role(RoleName="Developers", AssumeRolePolicyDocument="{}")
        return spec

    def _with_network(self, text: str) -> str:
        """Make a VPC, and name its ids where the file names others."""
        ec2 = self.client("ec2")
        vpc = ec2.create_vpc(CidrBlock="10.9.0.0/16")["Vpc"]["VpcId"]
        ids = []
        for number, zone in enumerate("abc"):
            made = ec2.create_subnet(
                VpcId=vpc, CidrBlock=f"10.9.{number}.0/24", AvailabilityZone=f"us-east-1{zone}"
            )
            ids.append(made["Subnet"]["SubnetId"])
        known = iter(ids)
        text = re.sub(r"subnet-0[0-9a-f]+", lambda _: next(known), text)
        if "platform-one" in text:
            tag = {"Key": "karpenter.sh/discovery", "Value": "platform-one"}
            ec2.create_tags(Resources=ids, Tags=[tag])
        return re.sub(r"vpc-0[0-9a-f]+", vpc, text)

    def _make_cluster(self, spec: ClusterSpec) -> None:
        """Make the cluster that an example is to be put onto, by other hands."""
        iam = self.client("iam")
        iam.create_role(RoleName="platform-one-worker", AssumeRolePolicyDocument="{}")
        iam.create_policy(
            PolicyName="platform-boundary",
            PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [_ANYTHING]}),
        )
        ec2 = self.client("ec2")
        filters = [{"Name": "tag:karpenter.sh/discovery", "Values": ["platform-one"]}]
        subnets = [one["SubnetId"] for one in ec2.describe_subnets(Filters=filters)["Subnets"]]
        self.client("eks").create_cluster(
            name=spec.name,
            version="1.33",
            roleArn="arn:aws:iam::123456789012:role/another",
            resourcesVpcConfig={"subnetIds": subnets},
        )
        self.client("eks").describe_cluster(name=spec.name)


class _Clients(boto3.Session):
    """Makes each client once for an account, however many commands are run in it."""

    def __init__(self) -> None:
        super().__init__(
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106 - for tests
            botocore_session=_descriptions(),
        )
        self._made: dict[tuple[Any, Any], Any] = {}

    def client(self, service_name: Any, *given: Any, **named: Any) -> Any:
        key = (service_name, named.get("region_name"))
        if key not in self._made:
            self._made[key] = super().client(service_name, *given, **named)
        return self._made[key]


@cache
def _descriptions() -> botocore.session.Session:
    """Read the SDK's descriptions of services once: they are large."""
    return botocore.session.get_session()


def _secret(release: str) -> str:
    return f"sh.helm.release.v1.{release}.v1"


def _make_managed(name: str) -> None:
    backend = iam_backends[DEFAULT_ACCOUNT_ID]["aws"]
    data = {
        "Arn": f"arn:aws:iam::aws:policy/{name}",
        "Path": "/",
        "DefaultVersionId": "v1",
        "Document": {"Version": "2012-10-17", "Statement": []},
        "CreateDate": "2024-01-01T00:00:00+00:00",
        "UpdateDate": "2024-01-01T00:00:00+00:00",
    }
    made = AWSManagedPolicy.from_data(name, DEFAULT_ACCOUNT_ID, "us-east-1", data)
    backend.managed_policies[made.arn] = made


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
