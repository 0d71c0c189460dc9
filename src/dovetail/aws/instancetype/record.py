"""Records a catalogue of instance types from EC2 (``dovetail catalog record``)."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Final

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    NoCredentialsError,
    PartialCredentialsError,
)

from dovetail.aws.instancetype.descriptions import decode_instance_type
from dovetail.aws.instancetype.offerings import (
    build_region,
    describe_instance_types,
    describe_offerings,
    describe_subnet_zones,
    describe_zones,
    zones_of,
)
from dovetail.errors import CatalogError
from dovetail.model.cloud.ec2_catalog import Catalog, Ec2InstanceType, Region
from dovetail.model.frozen import FrozenDict

if TYPE_CHECKING:
    from types_boto3_ec2.client import EC2Client

_REFUSALS: Final = ("UnauthorizedOperation", "AccessDenied", "AccessDeniedException")
Clients = Callable[[str], "EC2Client"]
"""Region → EC2 client."""


def ec2_clients(endpoint_url: str | None = None) -> Clients:
    """Return a factory of clients with the credentials of the environment."""
    config = Config(retries={"mode": "standard", "max_attempts": 5}, connect_timeout=10)

    def client(region: str) -> "EC2Client":
        # A new session: boto3's default session caches the first credentials.
        session = boto3.Session()
        return session.client("ec2", region_name=region, endpoint_url=endpoint_url, config=config)

    return client


def record_catalog(
    regions: Sequence[str],
    *,
    clients: Clients,
    source: str = "EC2 DescribeInstanceTypes and DescribeInstanceTypeOfferings",
    progress: Callable[[str], None] = lambda _: None,
) -> Catalog:
    """Read zones, offerings and instance types of each region.

    Instance types that no zone offers are dropped: EC2 does not describe them,
    but emulators do. The date is that of EC2's responses. Raises ``CatalogError``.
    """
    instance_types: dict[str, Ec2InstanceType] = {}
    recorded: dict[str, Region] = {}
    dates: list[str] = []

    def note_date(http_response: Any, **_: object) -> None:
        dates.append(http_response.headers["date"])

    for name in regions:
        with _translate_errors(name):
            client = clients(name)
            client.meta.events.register("after-call.ec2", note_date)
            progress(f"{name}: zones and offerings")
            zones = _read_zones(client, name, progress)
            offered = describe_offerings(client, zones)
            if not offered:
                raise CatalogError(f"region {name}: EC2 offers no instance type there")
            if zones is None:
                zones = _zones_without_permission(client, offered)
            progress(f"{name}: instance types")
            described = {
                description["InstanceType"]: description for description in describe_instance_types(client)
            }
        for kind in sorted(described.keys() & offered.keys() - instance_types.keys()):
            instance_types[kind] = decode_instance_type(described[kind])
        recorded[name] = build_region(name, zones, offered, described)
    return Catalog(
        recorded=parsedate_to_datetime(dates[-1]).date().isoformat(),
        source=source,
        instance_types=tuple(instance_types[name] for name in sorted(instance_types)),
        regions=FrozenDict(recorded),
    )


def _read_zones(client: "EC2Client", region: str, progress: Callable[[str], None]) -> dict[str, str] | None:
    """Return zone → id; None if the caller may not read them, as with Karpenter's policy."""
    try:
        return describe_zones(client)
    except ClientError as error:
        if error.response.get("Error", {}).get("Code") not in _REFUSALS:
            raise
        progress(f"{region}: no permission for DescribeAvailabilityZones; zones are those of the offerings")
        return None


def _zones_without_permission(client: "EC2Client", offered: Mapping[str, frozenset[str]]) -> dict[str, str]:
    """Return the zones of the offerings; those without a subnet have no id."""
    try:
        ids = describe_subnet_zones(client)
    except ClientError:
        ids = {}
    return {zone: ids.get(zone, "") for zone in zones_of(offered)}


@contextmanager
def _translate_errors(region: str) -> Iterator[None]:
    """Translate exceptions of the SDK into ``CatalogError`` with advice."""
    try:
        yield
    except (NoCredentialsError, PartialCredentialsError) as error:
        raise CatalogError(
            f"region {region}: no AWS credentials found; set AWS_PROFILE, or"
            " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        ) from error
    except (EndpointConnectionError, ConnectTimeoutError) as error:
        raise CatalogError(
            f"region {region}: EC2 cannot be reached ({error}); check the region's name,"
            " the network and --endpoint-url"
        ) from error
    except ClientError as error:
        details = error.response.get("Error", {})
        raise CatalogError(
            f"region {region}: EC2 refused {error.operation_name}:"
            f" {details.get('Code', 'unknown')}: {details.get('Message', error)}; the caller needs"
            " ec2:DescribeInstanceTypes and DescribeInstanceTypeOfferings"
        ) from error
    except BotoCoreError as error:
        raise CatalogError(f"region {region}: {error}") from error
    except ValueError as error:  # botocore's word for a malformed endpoint URL
        raise CatalogError(f"region {region}: {error}") from error
