"""Record a catalogue from what EC2 itself says."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

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

from dovetail.aws.instancetype.descriptions import machine_of
from dovetail.aws.instancetype.offerings import descriptions, offered_in, region_of, zones_of
from dovetail.errors import CatalogError
from dovetail.model.cloud.ec2_catalog import Catalog, Machine, Region
from dovetail.model.frozen import FrozenDict

if TYPE_CHECKING:
    from types_boto3_ec2.client import EC2Client

Clients = Callable[[str], "EC2Client"]
"""Region → a client for it."""


def ec2_clients(endpoint_url: str | None = None) -> Clients:
    """Return a maker of clients that use the credentials of the environment."""
    patient = Config(retries={"mode": "standard", "max_attempts": 5}, connect_timeout=10)

    def client(region: str) -> "EC2Client":
        # A session of its own: boto3's default one keeps the first credentials it saw.
        session = boto3.Session()
        return session.client("ec2", region_name=region, endpoint_url=endpoint_url, config=patient)

    return client


def record_catalog(
    regions: Sequence[str],
    *,
    clients: Clients,
    source: str = "EC2 DescribeInstanceTypes and DescribeInstanceTypeOfferings",
    progress: Callable[[str], None] = lambda _: None,
) -> Catalog:
    """Ask EC2 in each region and return what it sells there.

    A type is kept only where a zone offers it: EC2 describes no other, but
    stand-ins for EC2 do. The date is the one on EC2's answers. Raises
    ``CatalogError`` when EC2 cannot be asked.
    """
    machines: dict[str, Machine] = {}
    recorded: dict[str, Region] = {}
    today = ""
    for name in regions:
        with _translated(name):
            client = clients(name)
            progress(f"{name}: zones and offerings")
            zones, today = zones_of(client)
            offered = offered_in(client, zones)
            if not offered:
                raise CatalogError(f"region {name}: EC2 offers no instance type there")
            progress(f"{name}: instance types")
            described = {one["InstanceType"]: one for one in descriptions(client)}
        for machine in sorted(described.keys() & offered.keys() - machines.keys()):
            machines[machine] = machine_of(described[machine])
        recorded[name] = region_of(name, zones, offered, described)
    return Catalog(
        recorded=today,
        source=source,
        machines=tuple(machines[name] for name in sorted(machines)),
        regions=FrozenDict(recorded),
    )


@contextmanager
def _translated(region: str) -> Iterator[None]:
    """Turn what the SDK raises into a sentence that says what to do."""
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
        told = error.response.get("Error", {})
        raise CatalogError(
            f"region {region}: EC2 refused {error.operation_name}:"
            f" {told.get('Code', 'unknown')}: {told.get('Message', error)}; the caller needs"
            " ec2:DescribeInstanceTypes, DescribeInstanceTypeOfferings and"
            " DescribeAvailabilityZones"
        ) from error
    except BotoCoreError as error:
        raise CatalogError(f"region {region}: {error}") from error
    except ValueError as error:  # botocore's word for a malformed endpoint URL
        raise CatalogError(f"region {region}: {error}") from error
