"""Two small sets of instance types for scheduling tests.

``DEFAULT_TYPES`` has six types (small, default, GPUs, arm, single-pod).
``incremental(n)`` returns ``fake-it-0``, ``fake-it-1``, … each one CPU larger.
``size``, ``special`` and ``integer`` are no well-known labels: a NodePool must
define such a key before a pod can require it.
"""

from collections.abc import Iterable, Mapping, Sequence

from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.kube.requirements import Requirement, Requirements
from dovetail.model.kube.resources import CPU, MEMORY, Resources

Z1, Z2, Z3 = "test-zone-1", "test-zone-2", "test-zone-3"
ZONES = (Z1, Z2, Z3)
SPOT, ON_DEMAND, RESERVED = label_keys.SPOT, label_keys.ON_DEMAND, label_keys.RESERVED

SIZE, SPECIAL, INTEGER = "size", "special", "integer"
GPU_A, GPU_B = "fake.com/vendor-a", "fake.com/vendor-b"

OVERHEAD = Resources.parse({"cpu": "100m", "memory": "10Mi"})
EVERYWHERE = ((SPOT, Z1), (SPOT, Z2), (ON_DEMAND, Z1), (ON_DEMAND, Z2), (ON_DEMAND, Z3))


def list_price(capacity: Resources) -> float:
    """Return USD per hour: 0.1 per CPU and per GB of memory, 1 per kind of GPU."""
    gpus = sum(1 for name in (GPU_A, GPU_B) if capacity.get(name))
    return 0.1 * capacity[CPU] / 1000 + 0.1 * capacity[MEMORY] / 1e9 + gpus


def offerings(
    price: float, where: Iterable[tuple[str, str]] = EVERYWHERE, *, closed: bool = False
) -> tuple[Offering, ...]:
    """Return offerings of one price for each (capacity type, zone)."""
    return tuple(
        Offering(zone=zone, capacity_type=capacity_type, price=price, available=not closed)
        for capacity_type, zone in where
    )


def reserved(
    zone: str, reservation: str, capacity: int, *, price: float = 0.0001, available: bool = True
) -> Offering:
    """Return an offering of a capacity reservation."""
    return Offering(
        zone=zone,
        capacity_type=RESERVED,
        price=price,
        available=available and capacity > 0,
        reservation_id=reservation,
        reservation_capacity=capacity,
    )


def a_type(
    name: str,
    *,
    cpu: str | int = 4,
    memory: str = "4Gi",
    pods: int = 5,
    arch: str = "amd64",
    systems: Sequence[str] = ("linux", "windows", "darwin"),
    price: float | None = None,
    offered: Iterable[Offering] | None = None,
    more: Mapping[str, str | int] | None = None,
    labels: Mapping[str, str] | None = None,
    overhead: Resources = OVERHEAD,
) -> InstanceType:
    """Return an instance type; ``more`` are extended resources."""
    capacity = Resources.parse(
        {"cpu": cpu, "memory": memory, "pods": pods, "ephemeral-storage": "20Gi", **(more or {})}
    )
    hourly = list_price(capacity) if price is None else price
    offered = offerings(hourly) if offered is None else tuple(offered)
    available = [offering for offering in offered if offering.available]
    large = capacity[CPU] > 4000 and capacity[MEMORY] > 8 * 2**30
    requirements = [
        Requirement.one_of(label_keys.INSTANCE_TYPE, name),
        Requirement.one_of(label_keys.ARCH, arch),
        Requirement.one_of(label_keys.OS, *systems),
        Requirement.one_of(label_keys.ZONE, *(offering.zone for offering in available)),
        Requirement.one_of(label_keys.CAPACITY_TYPE, *(offering.capacity_type for offering in available)),
        Requirement.one_of(SIZE, "large" if large else "small"),
        Requirement.one_of(SPECIAL, "optional") if large else Requirement.does_not_exist(SPECIAL),
        Requirement.one_of(INTEGER, str(capacity[CPU] // 1000)),
        *(Requirement.one_of(key, value) for key, value in (labels or {}).items()),
    ]
    ids = {offering.reservation_id for offering in available if offering.reservation_id}
    if ids:
        requirements.append(Requirement.one_of(label_keys.CAPACITY_RESERVATION_ID, *ids))
    return InstanceType(
        name=name,
        requirements=Requirements.from_requirements(requirements),
        capacity=capacity,
        overhead=overhead,
        offerings=tuple(offered),
    )


DEFAULT_TYPES: tuple[InstanceType, ...] = (
    a_type("default"),
    a_type("small", cpu=2, memory="2Gi"),
    a_type("gpu-a", more={GPU_A: 2}),
    a_type("gpu-b", more={GPU_B: 2}),
    a_type("arm", cpu=16, memory="128Gi", arch="arm64", systems=("ios", "linux", "windows", "darwin")),
    a_type("single-pod", pods=1),
)


def incremental(count: int) -> tuple[InstanceType, ...]:
    """Return ``fake-it-0`` … each with one CPU, 2 GiB and 10 pods more."""
    return tuple(
        a_type(f"fake-it-{i}", cpu=i + 1, memory=f"{2 * (i + 1)}Gi", pods=10 * (i + 1)) for i in range(count)
    )
