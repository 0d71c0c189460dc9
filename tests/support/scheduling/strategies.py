"""Random clusters for hypothesis: small enough to shrink, with many features."""

from itertools import product
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from dovetail.model import labels as label_keys
from dovetail.model.cloud.cpu_credits import BurstablePolicy, CpuCredits
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.storage import BIND_COMPLETED, PersistentVolume, PersistentVolumeClaim, StorageClass
from dovetail.model.node import Node
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.scheduling.builders import (
    Entry,
    a_daemon_set,
    a_node,
    a_pod,
    a_pool,
    cluster,
    node_term,
    taint,
    tolerate,
)
from tests.support.scheduling.instance_types import GPU_A, ON_DEMAND, SPOT, ZONES, a_type, reserved
from tests.support.scheduling.pod_strategies import TEAM, TIER, maybe, pod_shapes, workloads

NAMESPACES = ("default", "other")
TAINTS = [[taint("team", "x")], [taint("gpu")], [taint("soft", effect="PreferNoSchedule")]]
EBS = "ebs.csi.aws.com"


# --- Instance types and NodePools ----------------------------------------------------------------------

OFFERINGS = [(capacity_type, zone) for capacity_type in (ON_DEMAND, SPOT) for zone in ZONES]
GAPS = st.sets(st.sampled_from(OFFERINGS), max_size=3)
SIZES: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"cpu": cpu, "memory": f"{cpu * factor}Gi", "pods": room, "arch": arch}
        for cpu, factor, room, arch in product(
            (4, 2, 8, 1, 16), (4, 2), (10, 3, 50), ("amd64", "amd64", "arm64")
        )
    ]
)
RATES = st.sampled_from([(rate, share) for rate in (0.05, 0.08, 0.1) for share in (0.3, 0.6, 1.0)])


# A reservation has the same number of slots for each of its types.
RESERVATIONS = [
    [reserved(zone, f"{name}-{slots}", slots)]
    for zone, name, slots in product(ZONES[:2], ("cr-1", "cr-2"), (1, 2))
]
EXTRA_GPU = Resources({GPU_A: 2})
LESS_ROOM = Resources.parse({"cpu": "500m", "memory": "256Mi"})
CREDITS: list[dict[str, Any]] = [
    {"baseline": baseline, "surplus_price": surplus_price, "policy": policy}
    for baseline, surplus_price in ((200, 0.05), (900, 0.3), (400, 0.0))
    for policy in BurstablePolicy
]
OVERRIDES = [{"capacity_override": EXTRA_GPU}, {"overhead_override": LESS_ROOM}]


@st.composite
def catalogues(draw: st.DrawFn) -> tuple[InstanceType, ...]:
    """Two to six types of different sizes, architectures and offerings, some closed."""
    types = []
    for i in range(draw(st.integers(2, 6))):
        size, (rate, share) = draw(SIZES), draw(RATES)
        missing, closed = draw(GAPS), maybe(draw, OFFERINGS, None)
        override: dict[str, Any] = maybe(draw, OVERRIDES, {})
        offered = [
            Offering(
                zone=zone,
                capacity_type=capacity_type,
                price=round(
                    size["cpu"]
                    * rate
                    * (share if capacity_type == SPOT else 1.0)
                    * (1 + 0.01 * ZONES.index(zone)),
                    6,
                ),
                available=(capacity_type, zone) != closed,
                **(override if (capacity_type, zone) == OFFERINGS[0] else {}),
            )
            for capacity_type, zone in OFFERINGS
            if (capacity_type, zone) not in missing
        ]
        more = maybe(draw, [{GPU_A: 1}], None)
        name = f"t{i}-{size['cpu']}"
        offered += maybe(draw, RESERVATIONS, [])
        cpu_credits = maybe(draw, CREDITS, None)
        built = a_type(name, systems=("linux",), offered=offered, more=more, **size)
        if cpu_credits is not None:
            built = replace(built, cpu_credits=CpuCredits(vcpus=size["cpu"], **cpu_credits))
        types.append(built)
    return tuple(types)


POOL_ENTRIES: list[Entry] = [
    (label_keys.ZONE, "In", list(ZONES[:2])),
    (label_keys.ZONE, "NotIn", [ZONES[0]]),
    (label_keys.CAPACITY_TYPE, "In", [SPOT]),
    (label_keys.CAPACITY_TYPE, "In", [ON_DEMAND]),
    (label_keys.ARCH, "In", ["amd64"]),
    (label_keys.ARCH, "In", ["arm64"]),
    (TEAM, "In", ["x"]),
    (TEAM, "In", ["x", "y"]),
    (TIER, "Exists"),
    (TIER, "NotIn", ["1"]),
    (TIER, "In", ["1", "2", "3"]),
    (TIER, "Gt", ["3"]),
    (TIER, "Lt", ["3"]),
    (label_keys.INSTANCE_TYPE, "Exists", [], 2),
]
LIMITS = [{"cpu": 8}, {"cpu": 30}, {"nodes": 1}, {"nodes": 3}, {"memory": "40Gi"}, {"cpu": 0}]
HOW_MANY_ENTRIES = st.sampled_from([0, 0, 1, 1, 2])


@st.composite
def pools(draw: st.DrawFn) -> list[NodePool]:
    """One to three NodePools; the first is usually plain, so that most pods fit."""
    drawn = []
    for i in range(draw(st.integers(1, 3))):
        plain = i == 0 and draw(st.booleans())
        count = 0 if plain else draw(HOW_MANY_ENTRIES)
        drawn.append(
            a_pool(
                f"pool-{i}",
                [draw(st.sampled_from(POOL_ENTRIES)) for _ in range(count)],
                taints=() if plain else maybe(draw, TAINTS, ()),
                labels=maybe(draw, [{TEAM: "x"}, {TIER: "2"}], {}),
                limits=maybe(draw, LIMITS, None),
                weight=draw(st.sampled_from([0, 0, 10])),
            )
        )
    return drawn


# --- Existing nodes -------------------------------------------------------------------

NODE_KINDS: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [
        {"cpu": cpu, "memory": "16Gi", "room": room, "zone": zone, "capacity_type": capacity_type}
        for cpu, room, zone, capacity_type in product(
            (4, 2, 8), (110, 4), (*ZONES, ""), (ON_DEMAND, SPOT, "")
        )
    ]
)


BOOTING = taint("boot")
STARTING: list[dict[str, Any]] = [
    {
        "initialized": False,
        "registered": registered,
        "allocatable": Resources(),
        "claim_allocatable": Resources.parse({"cpu": 4, "memory": "8Gi", "pods": 20}),
        "taints": (BOOTING,),
        "startup_taints": (BOOTING,),
    }
    for registered in (True, False)
]


@st.composite
def existing_nodes(draw: st.DrawFn) -> list[Node]:
    """Up to four nodes, managed or not, some with pods, taints or missing labels."""
    nodes = []
    for i in range(draw(st.sampled_from([0, 0, 1, 2, 4]))):
        name = f"old-{i}"
        running = [
            a_pod(f"{name}-{n}", deleting=maybe(draw, [True], False), **_light(draw(pod_shapes())))
            for n in range(draw(st.integers(0, 2)))
        ]
        nodes.append(
            a_node(
                name,
                pool=draw(st.sampled_from(["", "pool-0"])),
                labels=maybe(draw, [{TEAM: "x"}, {TIER: "2"}], {}),
                pods=running,
                **draw(NODE_KINDS),
                **{
                    "taints": tuple(maybe(draw, TAINTS, ())),
                    "deleting": maybe(draw, [True], False),
                    "volume_limits": maybe(draw, [FrozenDict({EBS: 1})], FrozenDict()),
                    **maybe(draw, STARTING, {}),
                },
            )
        )
    return nodes


def _light(shape: dict[str, Any]) -> dict[str, Any]:
    """Return the same pod, small enough for any node."""
    return {**shape, "cpu": "100m", "memory": "64Mi", "more": None, "host_ports": []}


DAEMON_SETS = [
    a_daemon_set(name, cpu=cpu, tolerations=tolerations, node_selector=node_selector)
    for (name, node_selector), cpu, tolerations in product(
        (
            ("agent", {}),
            ("logs", {label_keys.ARCH: "arm64"}),
            ("mesh", {TEAM: "x"}),
            ("zonal", {label_keys.ZONE: ZONES[0]}),
        ),
        ("50m", "400m"),
        ([], [tolerate()]),
    )
]
DAEMONS = st.lists(st.sampled_from(DAEMON_SETS), max_size=2, unique_by=lambda daemon_set: daemon_set.name)


def storage() -> dict[str, Any]:
    """Return claims with the names that workloads use, in both namespaces."""
    bound = FrozenDict({BIND_COMPLETED: "yes"})
    claims = [
        claim
        for where in NAMESPACES
        for claim in (
            PersistentVolumeClaim(
                namespace=where, name="zonal", volume="pv-z2", annotations=bound, phase="Bound"
            ),
            PersistentVolumeClaim(namespace=where, name="free", storage_class="anywhere"),
            PersistentVolumeClaim(namespace=where, name="shared", storage_class="two-zones"),
        )
    ]
    terms = tuple(node_term((label_keys.ZONE, "In", [zone])) for zone in ZONES)
    return {
        "volume_claims": claims,
        "volumes": [PersistentVolume(name="pv-z2", driver=EBS, node_terms=terms[1:2])],
        "storage_classes": [
            StorageClass(name="anywhere", provisioner=EBS),
            StorageClass(name="two-zones", provisioner=EBS, allowed_topologies=terms[:2]),
        ],
    }


STORAGE = storage()


@st.composite
def clusters(draw: st.DrawFn, *, most: int = 6) -> ClusterSnapshot:
    """Return a whole cluster with pending pods."""
    return cluster(
        draw(workloads(most=most)),
        draw(pools()),
        draw(catalogues()),
        nodes=draw(existing_nodes()),
        daemon_sets=draw(DAEMONS),
        namespaces={name: {"name": name} for name in NAMESPACES},
        **STORAGE,
    )
