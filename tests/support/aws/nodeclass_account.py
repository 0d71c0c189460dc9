"""An account in moto with a network, roles and images, and a node class resolver."""

import asyncio
import json
from collections.abc import Awaitable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar
from urllib.parse import parse_qs
from xml.sax.saxutils import escape

import boto3
import moto.ec2.models
import moto.ssm.models
from moto.core import DEFAULT_ACCOUNT_ID
from moto.ec2.models.amis import Ami
from moto.ssm.models import Parameter

from dovetail.aws.cluster_info import ClusterInfoResolver
from dovetail.aws.launchtemplate.launch_templates import LaunchTemplates
from dovetail.aws.nodeclass.amis import AmiResolver
from dovetail.aws.nodeclass.capacity_reservations import CapacityReservationResolver, ReservationCapacity
from dovetail.aws.nodeclass.dry_run import LaunchDryRun
from dovetail.aws.nodeclass.instance_profiles import InstanceProfiles
from dovetail.aws.nodeclass.network import FreeAddresses, NetworkResolver
from dovetail.aws.nodeclass.resolver import NodeClassResolver, Resolvers
from dovetail.aws.session import AwsSession, RetryPolicy
from dovetail.aws.userdata.bootstrap import ClusterInfo
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.host.executor import ThreadExecutor
from dovetail.host.randomness import SystemRandomSource
from dovetail.ports.cloudprovider import NodeClassStatus
from tests.support.moto.middleware import ScriptedError
from tests.support.moto.server import MotoAws
from tests.support.telemetry import RecordedLog

T = TypeVar("T")
REGION = "eu-west-1"
CLUSTER = ClusterInfo(
    name="demo",
    endpoint="https://demo.example.com",
    ca_bundle="Y2E=",
    cidr="10.100.0.0/16",
    dns="10.100.0.10",
    version="1.34",
)
QUICK = RetryPolicy(max_throttle_retries=2, max_transient_retries=1, initial_delay=timedelta(milliseconds=5))


class Account:
    """Resources that node classes select; all are tagged ``team=a``."""

    def __init__(self, moto: MotoAws, region: str = REGION) -> None:
        self.moto = moto
        self._region = region
        moto.middleware.reset()  # First: a scripted error could hit the next line.
        moto.reset()
        moto.middleware.responses.clear()
        self._reservations: list[Mapping[str, Any]] = []
        self._groups: dict[str, tuple[str, str]] = {}
        """Name → id and strategy."""
        self.dry_run_types: list[str] = []
        """Instance types of RunInstances calls, after ``reject_types``."""
        moto.middleware.responses["DescribeCapacityReservations"] = self._describe_reservations
        moto.middleware.responses["DescribePlacementGroups"] = self._describe_placement_groups
        self._vpc = ""

    def network(self, ec2: Any) -> None:
        """Add two security groups, and a subnet in each of up to three zones.

        The second subnet has most free addresses.
        """
        self._vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        zones = [zone["ZoneName"] for zone in ec2.describe_availability_zones()["AvailabilityZones"]]
        for number, (zone, size) in enumerate((("a", 24), ("b", 20), ("c", 24))):
            if f"{self._region}{zone}" not in zones:
                continue
            ec2.create_subnet(
                VpcId=self._vpc,
                AvailabilityZone=f"{self._region}{zone}",
                CidrBlock=f"10.0.{number * 32}.0/{size}",
                TagSpecifications=_tagged("subnet", {"team": "a", "zone": zone}),
            )
        for name in ("nodes", "shared"):
            ec2.create_security_group(
                VpcId=self._vpc,
                GroupName=name,
                Description=name,
                TagSpecifications=_tagged("security-group", {"team": "a", "name": name}),
            )

    def role(self, iam: Any, name: str = "nodes") -> None:
        iam.create_role(RoleName=name, AssumeRolePolicyDocument="{}")

    def image(self, ami_id: str, **fields: Any) -> None:
        """Add an AMI, owned by Amazon unless ``owner_alias`` is None.

        ``root_gib`` is the size of its root snapshot; launches with a smaller disk fail.
        """
        backend = moto.ec2.models.ec2_backends[DEFAULT_ACCOUNT_ID][self._region]
        tags = fields.pop("tags", None)
        deprecation_time = fields.pop("deprecation_time", None)
        root_gib = fields.pop("root_gib", 0)
        usual: dict[str, Any] = {
            "architecture": "x86_64",
            "owner_alias": "amazon",
            "owner_id": "602401143452",
            "creation_date": datetime(2026, 1, 1, tzinfo=UTC),
            "region_name": self._region,
        }
        ami = Ami(backend, ami_id, **{**usual, **fields})
        if tags:
            ami.add_tags(tags)
        if deprecation_time is not None:
            ami.deprecation_time = deprecation_time  # type: ignore[attr-defined]
        ami.root_gib = root_gib  # type: ignore[attr-defined]
        backend.amis[ami_id] = ami

    def parameter(self, name: str, value: str) -> None:
        """Add an SSM parameter, also below paths that only AWS may write."""
        parameters = moto.ssm.models.ssm_backends[DEFAULT_ACCOUNT_ID][self._region]._parameters
        parameters[name] = [
            Parameter(
                account_id=DEFAULT_ACCOUNT_ID,
                name=name,
                value=value,
                parameter_type="String",
                description=None,
                allowed_pattern=None,
                keyid=None,
                last_modified_date=datetime(2026, 1, 1, tzinfo=UTC),
                version=1,
                data_type="text",
            )
        ]

    def reservation(self, reservation_id: str, **fields: Any) -> None:
        usual = {
            "capacityReservationId": reservation_id,
            "instanceType": "m5.large",
            "availabilityZone": f"{self._region}a",
            "ownerId": DEFAULT_ACCOUNT_ID,
            "instanceMatchCriteria": "targeted",
            "reservationType": "default",
            "availableInstanceCount": 3,
            "state": "active",
        }
        self._reservations.append({**usual, **fields})

    def placement_group(self, name: str, group_id: str, strategy: str = "cluster") -> None:
        self._groups[name] = (group_id, strategy)
        self.moto.capacity.placement_groups |= {name: strategy, group_id: strategy}

    def cluster(self, description: Mapping[str, Any]) -> None:
        """Add an EKS cluster; moto itself has no IPv6 clusters."""
        text = json.dumps({"cluster": dict(description)}).encode()
        path = f"GET /clusters/{description['name']}"
        self.moto.middleware.responses[path] = lambda _: ("application/json", text)

    def fail(self, operation: str, code: str = "UnauthorizedOperation", **more: Any) -> None:
        """Fail all further calls of an operation."""
        usual = {"status": 403, "times": 10**6, "message": "You are not authorized"}
        self.moto.middleware.add_error(ScriptedError(operation=operation, code=code, **{**usual, **more}))

    def reject_types(self, *names: str) -> None:
        """Reject RunInstances with these types, as EC2 rejects what a type does not support."""

        def check(body: bytes) -> ScriptedError | None:
            [requested] = parse_qs(body.decode())["InstanceType"]
            self.dry_run_types.append(requested)
            if requested not in names:
                return None
            return ScriptedError(
                operation="RunInstances",
                code="InvalidParameterCombination",
                message=f"{requested} does not support the parameters",
                status=400,
            )

        self.moto.middleware.rejections["RunInstances"] = check

    def calls(self, operation: str) -> int:
        return self.moto.middleware.calls[operation]

    def _describe_reservations(self, body: bytes) -> tuple[str, bytes]:
        ids = parse_qs(body.decode()).get("CapacityReservationId.1")
        selected = [item for item in self._reservations if not ids or item["capacityReservationId"] in ids]
        items = "".join(f"<item>{_elements(item)}</item>" for item in selected)
        inner = f"<capacityReservationSet>{items}</capacityReservationSet>"
        return "text/xml", _response("DescribeCapacityReservations", inner)

    def _describe_placement_groups(self, body: bytes) -> tuple[str, bytes]:
        params = parse_qs(body.decode())
        selected = {*params.get("GroupName.1", []), *params.get("GroupId.1", [])}
        items = "".join(
            f"<item>{_elements(_placement_group(name, group_id, strategy))}</item>"
            for name, (group_id, strategy) in self._groups.items()
            if {name, group_id} & selected
        )
        inner = f"<placementGroupSet>{items}</placementGroupSet>"
        return "text/xml", _response("DescribePlacementGroups", inner)


class ShiftedLoop(AsyncioEventLoop):
    """Real time plus an offset that a test sets."""

    ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


class NodeClassProcess:
    """A process that resolves node classes, with empty caches."""

    def __init__(
        self,
        account: Account,
        *,
        cluster: ClusterInfo = CLUSTER,
        url: str | None = None,
        region: str | None = REGION,
        session: boto3.Session | None = None,
        **dry_run: Any,
    ) -> None:
        self.account = account
        self.log = RecordedLog()
        self._session = session
        self._runner = asyncio.Runner()
        self._executor = ThreadExecutor(8)
        self.isolated = dry_run.pop("isolated", False)
        self._runner.run(self._begin(cluster, url or account.moto.url, region, dry_run))

    async def _begin(
        self, cluster: ClusterInfo, url: str, region: str | None, dry_run: dict[str, Any]
    ) -> None:
        self.loop = loop = ShiftedLoop()
        self.aws = aws = AwsSession(
            loop=loop,
            executor=self._executor,
            random=SystemRandomSource(),
            region=region,
            endpoint_url=url,
            retry_policy=QUICK,
            session=self._session,
        )
        self.reservation_capacity = ReservationCapacity()
        self.addresses = FreeAddresses()
        name = cluster.name
        self.profiles = InstanceProfiles(aws, cluster=name, clock=loop, log=self.log, isolated=self.isolated)
        # Without a region there is no client, and no node class needs one in these tests.
        ec2: Any = aws.ec2() if region else None
        templates = LaunchTemplates(aws=aws, ec2=ec2, loop=loop, cluster=name)
        self.parts = Resolvers(
            network=NetworkResolver(aws, self.addresses),
            amis=AmiResolver(aws, clock=loop, log=self.log),
            reservations=CapacityReservationResolver(
                aws, capacity=self.reservation_capacity, clock=loop, log=self.log
            ),
            profiles=self.profiles,
            templates=templates,
            dry_run=LaunchDryRun(aws, templates=templates, cluster=name, clock=loop, **dry_run),
            cluster=ClusterInfoResolver(aws, cluster),
        )
        self.resolver = NodeClassResolver(self.parts, loop=loop, capacity=self.reservation_capacity)

    def resolve(self, node_class: dict[str, Any]) -> NodeClassStatus:
        return self.do(self.resolver.resolve(node_class))

    def delete_resources(self, node_class: dict[str, Any]) -> None:
        self.do(self.resolver.delete_resources(node_class))

    def do(self, work: Awaitable[T]) -> T:
        async def wait() -> T:
            return await work

        return self._runner.run(wait())

    def stop(self) -> None:
        self._runner.close()
        self._executor.close()


def _placement_group(name: str, group_id: str, strategy: str) -> dict[str, str]:
    return {"groupName": name, "groupId": group_id, "strategy": strategy, "state": "available"}


def _tagged(kind: str, tags: Mapping[str, str]) -> list[dict[str, Any]]:
    pairs = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": kind, "Tags": pairs}]


def _elements(fields: Mapping[str, Any]) -> str:
    return "".join(f"<{name}>{escape(_text(value))}</{name}>" for name, value in fields.items())


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _response(operation: str, inner: str) -> bytes:
    space = "http://ec2.amazonaws.com/doc/2016-11-15/"
    name = f"{operation}Response"
    return f'<{name} xmlns="{space}"><requestId>1</requestId>{inner}</{name}>'.encode()
