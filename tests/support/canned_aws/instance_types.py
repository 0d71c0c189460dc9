"""Instance types of the canned account, with made-up prices.

Descriptions are moto's. Nested virtualization is added where the canned world has it.
"""

import gzip
import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec

ZONES = {"us-west-2a": "usw2-az1", "us-west-2b": "usw2-az2", "us-west-2c": "usw2-az3"}
_FEW = (
    "m5.large m5.xlarge m5.2xlarge m5.4xlarge m5.metal c5.large c5.xlarge c5.2xlarge r5.large r5.xlarge"
    " t3.medium t3.large m6g.large m6g.xlarge c6g.large c6g.xlarge m5d.large m5d.xlarge c6gd.xlarge"
    " i3en.xlarge g4dn.xlarge g4dn.8xlarge - p4d.24xlarge inf1.xlarge trn1.32xlarge m7i-flex.large"
    " m6i.large m6a.large c7g.large - - c5n.18xlarge"
).split()
"""A small catalogue, the position is part of the price; ``-`` is a position without a type."""
_FIRST_OTHER = 40
"""Position of the first type of the whole catalogue, for those not in the small one."""
_TWO_ZONES = ("p", "trn", "dl")
_NESTED = ("m5.", "c5.")
_SPOT_SHARES = dict(zip(ZONES, (0.30, 0.31, 0.32), strict=True))


class PricedType(msgspec.Struct, frozen=True):
    """An instance type: EC2's description, zones, and price per hour as AWS writes it."""

    description: Mapping[str, Any]
    zones: tuple[str, ...]
    on_demand: str
    spot: Mapping[str, str]

    @property
    def name(self) -> str:
        return str(self.description["InstanceType"])


@cache
def priced_types(*, whole_catalog: bool) -> tuple[PricedType, ...]:
    """Return the small or the whole catalogue."""
    descriptions = _descriptions()
    positions = {name: _FIRST_OTHER + number for number, name in enumerate(descriptions)}
    positions |= {name: number for number, name in enumerate(_FEW)}
    names = list(descriptions) if whole_catalog else [name for name in _FEW if name in descriptions]
    return tuple(_priced(descriptions[name], positions[name]) for name in names)


@cache
def _descriptions() -> dict[str, dict[str, Any]]:
    packed = files("moto.ec2").joinpath("resources/instance_types.json.gz").read_bytes()
    descriptions: dict[str, dict[str, Any]] = json.loads(gzip.decompress(packed))
    for name, description in descriptions.items():
        if name.startswith(_NESTED):
            processor = description["ProcessorInfo"]
            features = [*processor.get("SupportedFeatures", ()), "nested-virtualization"]
            description["ProcessorInfo"] = {**processor, "SupportedFeatures": features}
    return descriptions


def _priced(description: Mapping[str, Any], position: int) -> PricedType:
    zones = tuple(ZONES)[: 2 if description["InstanceType"].startswith(_TWO_ZONES) else 3]
    on_demand = f"{_price(description) + 0.0001 * position:.5f}"
    spot = {zone: f"{float(on_demand) * _SPOT_SHARES[zone]:.6f}" for zone in zones}
    return PricedType(description, zones, on_demand, spot)


def _price(description: Mapping[str, Any]) -> float:
    gpus = sum(gpu["Count"] for gpu in description.get("GpuInfo", {}).get("Gpus", ()))
    accelerated = "NeuronInfo" in description or "InferenceAcceleratorInfo" in description
    memory = description["MemoryInfo"]["SizeInMiB"] / 1024
    cpus = description["VCpuInfo"]["DefaultVCpus"]
    return float(0.024 * cpus + 0.003 * memory + 2.5 * gpus + 1.0 * accelerated)
