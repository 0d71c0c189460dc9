"""Random clusters for hypothesis, small enough to shrink and rich enough to bite."""

from typing import Any

from hypothesis import strategies as st

from dovetail.model import labels as label_keys
from dovetail.model.catalog import InstanceType, Offering
from dovetail.model.frozen import FrozenDict
from dovetail.model.nodepool import NodePool
from dovetail.model.nodes import Node
from dovetail.model.pods import HostPort, NodePolicy, NodeTerm, Pod, PodTerm, Spread
from dovetail.model.selectors import LabelSelector
from dovetail.model.snapshot import ClusterSnapshot
from dovetail.model.storage import BIND_COMPLETED, StorageClass, Volume, VolumeClaim
from dovetail.model.taints import Taint, Toleration
from dovetail.model.workloads import DaemonSet
from tests.support.build import (
    Entry,
    a_daemon_set,
    a_node,
    a_pod,
    a_pool,
    cluster,
    node_term,
    prefer_node,
    prefer_pods,
    selector,
    taint,
    tolerate,
)
from tests.support.catalog import GPU_A, ON_DEMAND, SPOT, ZONES, a_type

APPS = ("a", "b", "c")
NAMESPACES = ("default", "other")
TEAM, TIER = "team", "tier"
TAINTS = (taint("team", "x"), taint("gpu"), taint("soft", effect="PreferNoSchedule"))
KEYS = (label_keys.ZONE, label_keys.HOSTNAME, label_keys.CAPACITY_TYPE)
EBS = "ebs.csi.aws.com"


def sometimes(strategy: st.SearchStrategy[Any], default: Any = ()) -> st.SearchStrategy[Any]:
    """Mostly nothing: a cluster where every rule is in play places no pod at all."""
    return st.integers(0, 3).flatmap(lambda die: strategy if die == 0 else st.just(default))


# --- What can be bought ----------------------------------------------------------------------


@st.composite
def offering_lists(draw: st.DrawFn, price: float) -> tuple[Offering, ...]:
    """Any subset of zones and capacity types, some of them closed."""
    places = [(kind, zone) for kind in (SPOT, ON_DEMAND) for zone in ZONES]
    chosen = draw(st.lists(st.sampled_from(places), min_size=1, max_size=6, unique=True))
    factors = {SPOT: draw(st.sampled_from([0.3, 0.6, 1.0])), ON_DEMAND: 1.0}
    return tuple(
        Offering(
            zone=zone,
            capacity_type=kind,
            price=round(price * factors[kind] * (1 + 0.01 * ZONES.index(zone)), 6),
            available=draw(st.integers(0, 9)) > 0,
        )
        for kind, zone in sorted(chosen)
    )


@st.composite
def catalogues(draw: st.DrawFn) -> tuple[InstanceType, ...]:
    """Two to six types of different sizes, architectures and offerings."""
    kinds = []
    for i in range(draw(st.integers(2, 6))):
        cpu = draw(st.sampled_from([1, 2, 4, 8, 16]))
        price = cpu * draw(st.sampled_from([0.05, 0.08, 0.1]))
        kinds.append(
            a_type(
                f"t{i}-{cpu}",
                cpu=cpu,
                memory=f"{cpu * draw(st.sampled_from([2, 4]))}Gi",
                pods=draw(st.sampled_from([3, 10, 50])),
                arch=draw(st.sampled_from(["amd64", "amd64", "arm64"])),
                systems=("linux",),
                offered=draw(offering_lists(price)),
                more={GPU_A: 1} if draw(st.integers(0, 5)) == 0 else None,
            )
        )
    return tuple(kinds)


def pool_entries() -> st.SearchStrategy[list[Entry]]:
    some_zones = st.lists(st.sampled_from(ZONES), min_size=1, max_size=2, unique=True)
    entries: list[st.SearchStrategy[Any]] = [
        st.tuples(st.just(label_keys.ZONE), st.sampled_from(["In", "NotIn"]), some_zones),
        st.tuples(
            st.just(label_keys.CAPACITY_TYPE), st.just("In"), st.sampled_from([[SPOT], [ON_DEMAND]])
        ),
        st.tuples(st.just(TEAM), st.just("In"), st.sampled_from([["x"], ["x", "y"]])),
        st.just((TIER, "Exists")),
        st.tuples(st.just(TIER), st.just("NotIn"), st.just(["1"])),
        st.tuples(st.just(TIER), st.sampled_from(["Gt", "Lt", "Gte", "Lte"]), st.just(["3"])),
        st.tuples(st.just(label_keys.ARCH), st.just("In"), st.sampled_from([["amd64"], ["arm64"]])),
        st.just((label_keys.INSTANCE_TYPE, "Exists", [], 2)),
    ]
    return st.lists(st.one_of(entries), max_size=2)


@st.composite
def pools(draw: st.DrawFn) -> list[NodePool]:
    """One to three NodePools; the first is usually plain, so that pods have a home."""
    found = []
    for i in range(draw(st.integers(1, 3))):
        plain = i == 0 and draw(st.booleans())
        found.append(
            a_pool(
                f"pool-{i}",
                [] if plain else draw(pool_entries()),
                taints=()
                if plain
                else draw(sometimes(st.lists(st.sampled_from(TAINTS), max_size=1))),
                labels=draw(sometimes(st.just({TEAM: "x"}), {})),
                limits=draw(sometimes(_limits(), None)),
                weight=draw(st.sampled_from([0, 0, 10])),
            )
        )
    return found


def _limits() -> st.SearchStrategy[dict[str, int]]:
    return st.one_of(
        st.builds(lambda cpu: {"cpu": cpu}, st.integers(1, 40)),
        st.builds(lambda nodes: {"nodes": nodes}, st.integers(1, 4)),
    )


# --- What has to run -------------------------------------------------------------------------


def app_selectors() -> st.SearchStrategy[LabelSelector]:
    equal = st.builds(lambda app: selector({"app": app}), st.sampled_from(APPS))
    among = st.builds(
        lambda op, apps: selector({}, ("app", op, apps)),
        st.sampled_from(["In", "NotIn"]),
        st.lists(st.sampled_from(APPS), min_size=1, max_size=2, unique=True),
    )
    return st.one_of(equal, equal, among, st.just(selector({}, ("app", "Exists"))))


def spreads() -> st.SearchStrategy[Spread]:
    return st.builds(
        Spread,
        topology_key=st.sampled_from([*KEYS, label_keys.ZONE, TIER]),
        max_skew=st.integers(1, 3),
        selector=app_selectors(),
        required=st.sampled_from([True, True, False]),
        min_domains=sometimes(st.integers(1, 4), None),
        match_label_keys=sometimes(st.just(("rev",))),
        node_affinity_policy=st.sampled_from([NodePolicy.HONOR, NodePolicy.IGNORE]),
        node_taints_policy=st.sampled_from([NodePolicy.IGNORE, NodePolicy.HONOR]),
    )


def pod_terms() -> st.SearchStrategy[PodTerm]:
    return st.builds(
        PodTerm,
        topology_key=st.sampled_from(KEYS),
        selector=app_selectors(),
        namespaces=sometimes(st.just(("other",))),
        namespace_selector=sometimes(st.just(LabelSelector()), None),
    )


def node_entries() -> st.SearchStrategy[Entry]:
    keys: list[st.SearchStrategy[Any]] = [
        st.tuples(
            st.just(label_keys.ZONE),
            st.sampled_from(["In", "NotIn"]),
            st.lists(st.sampled_from(ZONES), min_size=1, max_size=2, unique=True),
        ),
        st.tuples(st.just(label_keys.CAPACITY_TYPE), st.just("In"), st.just([SPOT])),
        st.tuples(st.just(label_keys.ARCH), st.just("In"), st.sampled_from([["amd64"], ["arm64"]])),
        st.tuples(st.just(TEAM), st.sampled_from(["In", "NotIn"]), st.just(["x"])),
        st.tuples(st.just(TEAM), st.sampled_from(["Exists", "DoesNotExist"])),
        st.tuples(st.just(TIER), st.sampled_from(["Gt", "Lt"]), st.sampled_from([["1"], ["4"]])),
        st.tuples(st.just(TIER), st.sampled_from(["In", "NotIn"]), st.sampled_from([["2"], ["3"]])),
    ]
    return st.one_of(keys)


def node_terms() -> st.SearchStrategy[NodeTerm]:
    return st.lists(node_entries(), min_size=1, max_size=2).map(lambda some: node_term(*some))


def tolerations() -> st.SearchStrategy[Toleration]:
    chosen = [
        tolerate("team", "x"),
        tolerate("team"),
        tolerate("gpu"),
        tolerate("soft"),
        tolerate(),
    ]
    return st.sampled_from(chosen)


@st.composite
def pod_shapes(draw: st.DrawFn) -> dict[str, Any]:
    """Everything about a workload's pods except their names."""
    shape: dict[str, Any] = {
        "cpu": draw(st.sampled_from(["100m", "500m", "900m", "1500m", "3"])),
        "memory": draw(st.sampled_from(["64Mi", "512Mi", "2Gi", "5Gi"])),
        "labels": {"app": draw(st.sampled_from(APPS)), "rev": draw(st.sampled_from("12"))},
        "namespace": draw(st.sampled_from(["default", "default", "other"])),
        "tolerations": draw(sometimes(st.lists(tolerations(), min_size=1, max_size=2))),
        "node_terms": draw(sometimes(st.lists(node_terms(), min_size=1, max_size=2))),
        "node_selector": draw(sometimes(_node_selectors(), {})),
        "spreads": draw(st.lists(spreads(), max_size=2)),
        "affinity": draw(sometimes(st.lists(pod_terms(), min_size=1, max_size=1))),
        "anti_affinity": draw(sometimes(st.lists(pod_terms(), min_size=1, max_size=2))),
        "host_ports": draw(sometimes(st.lists(_ports(), min_size=1, max_size=1))),
    }
    if draw(st.integers(0, 5)) == 0:
        weight = draw(st.integers(1, 100))
        shape["preferred_node_terms"] = [prefer_node(weight, draw(node_entries()))]
        shape["preferred_affinity"] = [prefer_pods(weight, draw(pod_terms()))]
        shape["preferred_anti_affinity"] = [prefer_pods(weight, draw(pod_terms()))]
    if draw(st.integers(0, 7)) == 0:
        shape["more"] = {GPU_A: 1}
    return shape


def _node_selectors() -> st.SearchStrategy[dict[str, str]]:
    return st.one_of(
        st.builds(lambda zone: {label_keys.ZONE: zone}, st.sampled_from(ZONES)),
        st.builds(
            lambda kind: {label_keys.CAPACITY_TYPE: kind}, st.sampled_from([SPOT, ON_DEMAND])
        ),
        st.just({TEAM: "x"}),
        st.just({TIER: "2"}),
    )


def _ports() -> st.SearchStrategy[HostPort]:
    return st.builds(
        HostPort,
        port=st.sampled_from([80, 443]),
        protocol=st.sampled_from(["TCP", "UDP"]),
        ip=st.sampled_from(["0.0.0.0", "10.0.0.1"]),  # noqa: S104
    )


@st.composite
def workloads(draw: st.DrawFn, *, most: int = 6, prefix: str = "w") -> list[Pod]:
    """Up to ``most`` workloads of one to six alike pods."""
    found: list[Pod] = []
    for i in range(draw(st.integers(1, most))):
        shape = draw(pod_shapes())
        claim = draw(sometimes(st.sampled_from(["zonal", "free", "missing", "shared"]), ""))
        if claim:
            shape["claims"] = [claim]
        found += [a_pod(f"{prefix}{i}-{n}", **shape) for n in range(draw(st.integers(1, 6)))]
    return found


# --- What is there already -------------------------------------------------------------------


@st.composite
def existing_nodes(draw: st.DrawFn) -> list[Node]:
    """Up to four nodes, managed or not, some with pods, taints or missing labels."""
    found = []
    for i in range(draw(st.integers(0, 4))):
        name = f"old-{i}"
        shapes = draw(st.lists(pod_shapes(), max_size=2))
        running = [
            a_pod(f"{name}-{n}", deleting=draw(st.integers(0, 5)) == 0, **_light(shape))
            for n, shape in enumerate(shapes)
        ]
        taints: list[Taint] = draw(sometimes(st.lists(st.sampled_from(TAINTS), max_size=1)))
        found.append(
            a_node(
                name,
                cpu=draw(st.sampled_from([2, 4, 8])),
                memory="16Gi",
                room=draw(st.sampled_from([4, 110])),
                zone=draw(st.sampled_from(["", *ZONES])),
                pool=draw(st.sampled_from(["", "pool-0"])),
                capacity_type=draw(st.sampled_from(["", SPOT, ON_DEMAND])),
                labels=draw(sometimes(st.sampled_from([{TEAM: "x"}, {TIER: "2"}]), {})),
                taints=tuple(taints),
                pods=running,
                volume_limits=draw(sometimes(st.just(FrozenDict({EBS: 1})), FrozenDict())),
            )
        )
    return found


def _light(shape: dict[str, Any]) -> dict[str, Any]:
    """The same pod, small enough to run anywhere."""
    return {**shape, "cpu": "100m", "memory": "64Mi", "more": None, "host_ports": []}


def daemon_sets() -> st.SearchStrategy[list[DaemonSet]]:
    one = st.builds(
        lambda name, cpu, consent, picked: a_daemon_set(
            name, cpu=cpu, tolerations=consent, node_selector=picked
        ),
        st.sampled_from(["agent", "logs", "mesh"]),
        st.sampled_from(["50m", "400m"]),
        st.sampled_from([[], [tolerate()]]),
        st.sampled_from([{}, {label_keys.ARCH: "arm64"}, {TEAM: "x"}, {label_keys.ZONE: ZONES[0]}]),
    )
    return st.lists(one, max_size=2, unique_by=lambda one: one.name)


def storage() -> dict[str, Any]:
    """Claims by the names that workloads use, in both namespaces."""
    bound = FrozenDict({BIND_COMPLETED: "yes"})
    claims = [
        claim
        for where in NAMESPACES
        for claim in (
            VolumeClaim(
                namespace=where, name="zonal", volume="pv-z2", annotations=bound, phase="Bound"
            ),
            VolumeClaim(namespace=where, name="free", storage_class="anywhere"),
            VolumeClaim(namespace=where, name="shared", storage_class="two-zones"),
        )
    ]
    terms = tuple(node_term((label_keys.ZONE, "In", [zone])) for zone in ZONES)
    return {
        "volume_claims": claims,
        "volumes": [Volume(name="pv-z2", driver=EBS, node_terms=terms[1:2])],
        "storage_classes": [
            StorageClass(name="anywhere", provisioner=EBS),
            StorageClass(name="two-zones", provisioner=EBS, topologies=terms[:2]),
        ],
    }


@st.composite
def clusters(draw: st.DrawFn, *, most: int = 6) -> ClusterSnapshot:
    """A whole cluster with pods waiting."""
    return cluster(
        draw(workloads(most=most)),
        draw(pools()),
        draw(catalogues()),
        nodes=draw(existing_nodes()),
        daemon_sets=draw(daemon_sets()),
        namespaces={name: {"name": name} for name in NAMESPACES},
        **storage(),
    )
