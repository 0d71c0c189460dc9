"""An account in moto with a network, roles and images, and one process that looks classes up."""

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

from dovetail.aws.cluster_info import ClusterFacts
from dovetail.aws.launchtemplate.launch_templates import LaunchTemplates
from dovetail.aws.nodeclass.amis import Images
from dovetail.aws.nodeclass.capacity_reservations import Reservations, RoomLeft
from dovetail.aws.nodeclass.dry_run import Rehearsal
from dovetail.aws.nodeclass.instance_profiles import Profiles
from dovetail.aws.nodeclass.network import FreeAddresses, Network
from dovetail.aws.nodeclass.resolver import NodeClassResolver, Parts
from dovetail.aws.session import Aws, Patience
from dovetail.aws.userdata.bootstrap import Cluster
from dovetail.host.event_loop import AsyncioLoop
from dovetail.host.executor import ThreadOffload
from dovetail.host.randomness import RealChance
from dovetail.ports.cloudprovider import ClassStatus
from tests.support.moto.door import Fault
from tests.support.moto.server import MotoAws
from tests.support.telling import KeptLog

T = TypeVar("T")
REGION = "eu-west-1"
CLUSTER = Cluster(
    name="demo",
    endpoint="https://demo.example.com",
    ca_bundle="Y2E=",
    cidr="10.100.0.0/16",
    dns="10.100.0.10",
    version="1.34",
)
QUICK = Patience(throttled=2, transient=1, first=timedelta(milliseconds=5))


class Account:
    """What there is for classes to select; all of it is tagged ``team=a``."""

    def __init__(self, moto: MotoAws) -> None:
        self.moto = moto
        moto.door.reset()  # First: a script may be in the way of the next line.
        moto.reset()
        moto.door.answering.clear()
        self._reservations: list[Mapping[str, Any]] = []
        self._groups: dict[str, str] = {}
        moto.door.answering["DescribeCapacityReservations"] = self._answer_reservations
        moto.door.answering["DescribePlacementGroups"] = self._answer_placement_groups
        self._vpc = ""

    def network(self, ec2: Any) -> None:
        """Have three subnets, the second with most addresses free, and two security groups."""
        self._vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
        for number, (zone, size) in enumerate((("a", 24), ("b", 20), ("c", 24))):
            ec2.create_subnet(
                VpcId=self._vpc,
                AvailabilityZone=f"{REGION}{zone}",
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
        """Have an image, of Amazon's unless ``owner_alias`` is None."""
        backend = moto.ec2.models.ec2_backends[DEFAULT_ACCOUNT_ID][REGION]
        tags = fields.pop("tags", None)
        ends = fields.pop("deprecation_time", None)
        usual: dict[str, Any] = {
            "architecture": "x86_64",
            "owner_alias": "amazon",
            "owner_id": "602401143452",
            "creation_date": datetime(2026, 1, 1, tzinfo=UTC),
            "region_name": REGION,
        }
        made = Ami(backend, ami_id, **{**usual, **fields})
        if tags:
            made.add_tags(tags)
        if ends is not None:
            made.deprecation_time = ends  # type: ignore[attr-defined]
        backend.amis[ami_id] = made

    def parameter(self, name: str, value: str) -> None:
        """Have an SSM parameter, also where only AWS may put one."""
        held = moto.ssm.models.ssm_backends[DEFAULT_ACCOUNT_ID][REGION]._parameters
        held[name] = [
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
            "availabilityZone": f"{REGION}a",
            "ownerId": DEFAULT_ACCOUNT_ID,
            "instanceMatchCriteria": "targeted",
            "reservationType": "default",
            "availableInstanceCount": 3,
            "state": "active",
        }
        self._reservations.append({**usual, **fields})

    def placement_group(self, name: str, group_id: str) -> None:
        self._groups[name] = group_id

    def cluster(self, told: Mapping[str, Any]) -> None:
        """Have EKS know a cluster; moto itself knows no IPv6 clusters."""
        text = json.dumps({"cluster": dict(told)}).encode()
        path = f"GET /clusters/{told['name']}"
        self.moto.door.answering[path] = lambda _: ("application/json", text)

    def refuse(self, operation: str, code: str = "UnauthorizedOperation", **more: Any) -> None:
        """Have a call fail from now on."""
        usual = {"status": 403, "times": 10**6, "message": "You are not authorized"}
        self.moto.door.script(Fault(operation=operation, code=code, **{**usual, **more}))

    def calls(self, operation: str) -> int:
        return self.moto.door.calls[operation]

    def _answer_reservations(self, body: bytes) -> tuple[str, bytes]:
        asked = parse_qs(body.decode())
        wanted = asked.get("CapacityReservationId.1")
        shown = [
            one
            for one in self._reservations
            if not wanted or one["capacityReservationId"] in wanted
        ]
        items = "".join(f"<item>{_elements(one)}</item>" for one in shown)
        inner = f"<capacityReservationSet>{items}</capacityReservationSet>"
        return "text/xml", _answer("DescribeCapacityReservations", inner)

    def _answer_placement_groups(self, body: bytes) -> tuple[str, bytes]:
        asked = parse_qs(body.decode())
        wanted = {*asked.get("GroupName.1", []), *asked.get("GroupId.1", [])}
        items = "".join(
            f"<item>{_elements({'groupName': name, 'groupId': one, 'state': 'available'})}</item>"
            for name, one in self._groups.items()
            if {name, one} & wanted
        )
        inner = f"<placementGroupSet>{items}</placementGroupSet>"
        return "text/xml", _answer("DescribePlacementGroups", inner)


class ShiftedLoop(AsyncioLoop):
    """Real time, moved on by as much as a test likes."""

    ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


class ClassProcess:
    """A process that looks classes up, with nothing in its memory."""

    def __init__(
        self,
        account: Account,
        *,
        cluster: Cluster = CLUSTER,
        url: str | None = None,
        region: str | None = REGION,
        session: boto3.Session | None = None,
        **rehearsal: Any,
    ) -> None:
        self.account = account
        self.log = KeptLog()
        self._session = session
        self._runner = asyncio.Runner()
        self._offload = ThreadOffload(8)
        self.isolated = rehearsal.pop("isolated", False)
        self._runner.run(self._begin(cluster, url or account.moto.url, region, rehearsal))

    async def _begin(
        self, cluster: Cluster, url: str, region: str | None, rehearsal: dict[str, Any]
    ) -> None:
        self.loop = loop = ShiftedLoop()
        self.aws = aws = Aws(
            loop=loop,
            offload=self._offload,
            chance=RealChance(),
            region=region,
            endpoint_url=url,
            patience=QUICK,
            session=self._session,
        )
        self.room = RoomLeft()
        self.addresses = FreeAddresses()
        name = cluster.name
        self.profiles = Profiles(
            aws, cluster=name, clock=loop, log=self.log, isolated=self.isolated
        )
        # Without a region there is no client, and no class gets as far as needing one here.
        ec2: Any = aws.ec2() if region else None
        templates = LaunchTemplates(aws=aws, ec2=ec2, loop=loop, cluster=name)
        self.parts = Parts(
            network=Network(aws, self.addresses),
            images=Images(aws, clock=loop, log=self.log),
            reservations=Reservations(aws, room=self.room, clock=loop, log=self.log),
            profiles=self.profiles,
            templates=templates,
            rehearsal=Rehearsal(aws, templates=templates, cluster=name, clock=loop, **rehearsal),
            facts=ClusterFacts(aws, cluster),
        )
        self.resolver = NodeClassResolver(self.parts, loop=loop, room=self.room)

    def resolve(self, node_class: dict[str, Any]) -> ClassStatus:
        return self.do(self.resolver.resolve(node_class))

    def forget(self, node_class: dict[str, Any]) -> None:
        self.do(self.resolver.forget(node_class))

    def do(self, work: Awaitable[T]) -> T:
        async def wait() -> T:
            return await work

        return self._runner.run(wait())

    def stop(self) -> None:
        self._runner.close()
        self._offload.close()


def _tagged(kind: str, tags: Mapping[str, str]) -> list[dict[str, Any]]:
    listed = [{"Key": key, "Value": value} for key, value in tags.items()]
    return [{"ResourceType": kind, "Tags": listed}]


def _elements(fields: Mapping[str, Any]) -> str:
    return "".join(f"<{name}>{escape(_text(value))}</{name}>" for name, value in fields.items())


def _text(value: Any) -> str:
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _answer(operation: str, inner: str) -> bytes:
    space = "http://ec2.amazonaws.com/doc/2016-11-15/"
    name = f"{operation}Response"
    return f'<{name} xmlns="{space}"><requestId>1</requestId>{inner}</{name}>'.encode()
