"""GovCloud, China and regions that the bundled data lacks: from node class to instance."""

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS

from dovetail.model import labels as label_keys
from dovetail.operator.aws import AwsSettings
from dovetail.operator.cloud import CloudServices
from dovetail.ports.api_resources import EC2_NODE_CLASSES
from dovetail.ports.cloudprovider import Instance, NodeClassStatus
from dovetail.state.cluster.cache import ClusterCache
from tests.operator.cloud_services import build, wait_for_line
from tests.simulator.ec2.harness import a_claim
from tests.support.aws.credentials import FAKE_CREDENTIALS
from tests.support.aws.nodeclass_account import Account
from tests.support.aws.pricelists import METAL, SHARED, PriceLists, product
from tests.support.moto.server import MotoAws, moto_aws
from tests.support.telemetry import RecordedLog

pytestmark = pytest.mark.slow

_TYPES = ("m5.large", "m5.xlarge", "m6i.large")
_IMAGE = "ami-al2023"
_PARAMETER = "/aws/service/eks/optimized-ami/1.34/amazon-linux-2023/x86_64/standard/recommended/image_id"
_ESTIMATED = "on-demand prices are estimated"


def a_node_class() -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default", "uid": "uid-of-default", "generation": 1, "resourceVersion": "1"},
        "spec": {
            "role": "nodes",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"team": "a"}}],
            "securityGroupSelectorTerms": [{"tags": {"team": "a"}}],
        },
    }


@pytest.fixture(scope="module")
def running() -> Iterator[MotoAws]:
    with moto_aws() as aws:
        yield aws


class RegionalAccount:
    """An account in one region, and the process that launches instances there."""

    def __init__(self, moto: MotoAws, region: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.region = region
        self.moto = moto
        self.log = RecordedLog()
        self.cache = ClusterCache()
        for name, value in {**FAKE_CREDENTIALS, "AWS_ENDPOINT_URL": moto.url}.items():
            monkeypatch.setenv(name, value)
        account = Account(moto, region)
        ec2 = self.client("ec2")
        zones = [zone["ZoneName"] for zone in ec2.describe_availability_zones()["AvailabilityZones"]]
        # moto has no offerings of these regions.
        offered = [
            {"InstanceType": name, "LocationType": "availability-zone", "Location": zone}
            for name in _TYPES
            for zone in zones
        ]
        monkeypatch.setitem(INSTANCE_TYPE_OFFERINGS["availability-zone"], region, offered)
        account.network(ec2)
        account.role(self.client("iam"))
        account.image(_IMAGE, name="amazon-eks-node-al2023-x86_64-standard-1.34")
        account.parameter(_PARAMETER, _IMAGE)
        account.cluster(
            {
                "name": "demo",
                "kubernetesNetworkConfig": {"serviceIpv4Cidr": "10.100.0.0/16"},
                "version": "1.34",
            }
        )

    def client(self, service: Any) -> Any:
        return boto3.client(service, region_name=self.region, endpoint_url=self.moto.url)

    def launch(self) -> tuple[NodeClassStatus, list[Instance]]:
        """Resolve the node class, then launch an on-demand and a spot instance."""
        settings = AwsSettings(
            cluster_name="demo", cluster_endpoint="https://demo.example.com", region=self.region
        )
        return build(settings, self.log, self._launch, cache=self.cache)

    async def _launch(self, services: CloudServices) -> tuple[NodeClassStatus, list[Instance]]:
        await wait_for_line(self.log, _ESTIMATED)
        node_class = a_node_class()
        self.cache.apply_event(EC2_NODE_CLASSES, node_class)
        status = await services.cloud_provider.resolve_nodeclass(node_class)
        node_class = {
            **node_class,
            "metadata": {**node_class["metadata"], "resourceVersion": "2"},
            "status": {**status.status, "conditions": [{"type": "Ready", "status": "True"}]},
        }
        self.cache.apply_event(EC2_NODE_CLASSES, node_class)
        instances = [
            await services.cloud_provider.create(a_claim(f"{kind}-1", kinds=(kind,)))
            for kind in (label_keys.ON_DEMAND, label_keys.SPOT)
        ]
        return status, instances


@pytest.fixture
def regional_account(
    running: MotoAws, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RegionalAccount]:
    yield RegionalAccount(running, request.param, monkeypatch)
    running.middleware.responses.clear()
    running.reset()


@pytest.mark.parametrize(
    ("regional_account", "partition", "factor", "reads_prices"),
    [
        ("us-gov-west-1", "aws-us-gov", "1.2", False),
        ("cn-north-1", "aws-cn", "10", True),
        ("mx-central-1", "aws", "1", True),
    ],
    indirect=["regional_account"],
)
def test_instances_are_launched_where_aws_has_no_prices(
    regional_account: RegionalAccount, partition: str, factor: str, reads_prices: bool
) -> None:
    status, instances = regional_account.launch()

    assert not status.false_conditions
    assert not status.unknown_conditions
    assert [instance.capacity_type for instance in instances] == [label_keys.ON_DEMAND, label_keys.SPOT]
    assert all(instance.zone.startswith(regional_account.region) for instance in instances)
    assert all(instance.image_id == _IMAGE for instance in instances)
    (profile,) = regional_account.client("iam").list_instance_profiles()["InstanceProfiles"]
    assert profile["InstanceProfileName"] == status.status["instanceProfile"]
    assert profile["Arn"].split(":")[1] == partition
    assert profile["Roles"][0]["Arn"].split(":")[1] == partition
    (line,) = regional_account.log.entries(_ESTIMATED)
    assert line["count"] == len(_TYPES)
    assert f"{factor} × us-east-1" in line["source"]
    assert bool(regional_account.moto.middleware.calls["GetProducts"]) == reads_prices


@pytest.mark.parametrize("regional_account", ["cn-north-1"], indirect=True)
def test_in_china_prices_are_in_yuan_and_only_missing_ones_are_estimated(
    regional_account: RegionalAccount,
) -> None:
    lists = PriceLists()
    lists.products = {SHARED: [[product("m5.large", "1.013", "CNY")]], METAL: []}
    regional_account.moto.middleware.responses["GetProducts"] = lambda body: lists.respond(
        "GetProducts", body
    )[1:]

    regional_account.launch()

    (line,) = regional_account.log.entries(_ESTIMATED)
    assert (line["count"], line["types"]) == (2, "m5.xlarge, m6i.large")
    assert line["source"].endswith("all amounts are in CNY")
    assert {request["Filters"][0]["Value"] for _, request in lists.requests} == {"cn-north-1"}
