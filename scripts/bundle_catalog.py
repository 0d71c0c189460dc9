"""Write the bundled catalogue: EC2's descriptions in moto, and additions.

moto has the responses of EC2 to DescribeInstanceTypes and DescribeInstanceTypeOfferings in 30
regions. catalog_additions.json has facts that moto lacks, each with its source. Equal inputs
give an equal file:

    python scripts/bundle_catalog.py --date 2026-11-17
"""

import argparse
import json
import logging
import os
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS
from moto.moto_server.threaded_moto_server import ThreadedMotoServer

from dovetail.aws.instancetype.descriptions import decode_instance_type
from dovetail.aws.instancetype.record import ec2_clients, record_catalog
from dovetail.codec.catalog.instance_types import encode_catalog
from dovetail.model.cloud.ec2_catalog import Catalog, Ec2InstanceType, Region
from dovetail.model.frozen import FrozenDict

_SCRIPTS = Path(__file__).parent
_ADDITIONS = _SCRIPTS / "catalog_additions.json"
_TARGET = _SCRIPTS.parent / "src" / "dovetail" / "data" / "catalog.bin"


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--date", required=True, help="Date of the recording, YYYY-MM-DD.")
    parser.add_argument("--output", type=Path, default=_TARGET)
    options = parser.parse_args()
    data = encode_catalog(bundle(options.date))
    options.output.write_bytes(data)
    sys.stdout.write(f"{options.output}: {len(data):,} bytes\n")


def bundle(date: str) -> Catalog:
    """Return the catalogue that is bundled with a release."""
    os.environ.update(AWS_ACCESS_KEY_ID="x", AWS_SECRET_ACCESS_KEY="x")  # noqa: S106 - moto checks none
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        recorded = record_catalog(
            sorted(INSTANCE_TYPE_OFFERINGS["availability-zone"]),
            clients=ec2_clients(f"http://{host}:{port}"),
            source=f"EC2's own descriptions, through moto {version('moto')}",
        )
    finally:
        server.stop()
    additions = json.loads(_ADDITIONS.read_text("utf-8"))
    types = {entry.name: entry for entry in recorded.instance_types}
    for family in additions["families"]:
        types |= {entry.name: entry for entry in map(decode_instance_type, _descriptions(family))}
    for correction in additions["corrections"]:
        for name in correction["types"]:
            types[name] = msgspec.convert(
                {**msgspec.to_builtins(types[name]), **correction["facts"]}, Ec2InstanceType
            )
    regions = {name: _with_offerings(region, additions) for name, region in recorded.regions.items()}
    return msgspec.structs.replace(
        recorded,
        recorded=date,
        instance_types=tuple(types[name] for name in sorted(types)),
        regions=FrozenDict(regions),
    )


def _descriptions(family: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a family in the form of DescribeInstanceTypes."""
    return [
        {
            **family["shared"],
            "InstanceType": f"{family['name']}.{size}",
            "VCpuInfo": {"DefaultVCpus": facts["vcpus"]},
            "MemoryInfo": {"SizeInMiB": facts["memory_mib"]},
            "NetworkInfo": {
                **family["network"],
                "MaximumNetworkInterfaces": facts["enis"],
                "Ipv4AddressesPerInterface": facts["ipv4_per_eni"],
                "NetworkCards": [
                    {
                        "NetworkCardIndex": 0,
                        "MaximumNetworkInterfaces": facts["enis"],
                        "BaselineBandwidthInGbps": facts["network_gbps"],
                    }
                ],
            },
            "GpuInfo": {"Gpus": [{**family["gpu"], "Count": facts["gpus"]}]},
            "InstanceStorageInfo": {"TotalSizeInGB": facts["local_gb"], "NvmeSupport": "required"},
            "EbsInfo": {
                **family["ebs"],
                "EbsOptimizedInfo": {
                    "BaselineBandwidthInMbps": facts["ebs_baseline_mbps"],
                    "MaximumBandwidthInMbps": facts["ebs_maximum_mbps"],
                },
            },
        }
        for size, facts in family["sizes"].items()
    ]


def _with_offerings(region: Region, additions: dict[str, Any]) -> Region:
    offered = dict(region.offered_zones)
    for family in additions["families"]:
        zone_ids = family["zone_ids"].get(region.name, ())
        zones = frozenset(region.zone_names[zone_id] for zone_id in zone_ids)
        if zones:
            offered |= {f"{family['name']}.{size}": zones for size in family["sizes"]}
    return msgspec.structs.replace(region, offered_zones=FrozenDict(sorted(offered.items())))


if __name__ == "__main__":
    main()
