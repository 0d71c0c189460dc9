"""Random workloads for hypothesis.

All choices come from constant lists: one draw per choice keeps hypothesis fast.
The first entry of a list is the simplest; hypothesis shrinks to it.
"""

from collections.abc import Sequence
from itertools import product
from typing import Any

from hypothesis import strategies as st

from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import (
    HostPort,
    NodeInclusionPolicy,
    Pod,
    PodAffinityTerm,
    TopologySpreadConstraint,
)
from dovetail.model.kube.selectors import LabelSelector
from tests.support.scheduling.builders import (
    Entry,
    a_pod,
    affinity,
    node_term,
    prefer_node,
    prefer_pods,
    selector,
    spread,
    tolerate,
)
from tests.support.scheduling.instance_types import GPU_A, ON_DEMAND, SPOT, ZONES

APPS = ("a", "b", "c")
TEAM, TIER = "team", "tier"
KEYS = (label_keys.ZONE, label_keys.HOSTNAME, label_keys.CAPACITY_TYPE)
RARELY = st.sampled_from([False] * 4 + [True])


def maybe(draw: st.DrawFn, choices: Sequence[Any], default: Any) -> Any:
    """Return mostly the default: with all rules at once no pod could be placed."""
    return draw(st.sampled_from(choices)) if draw(RARELY) else default


SELECTORS: list[LabelSelector] = [
    *(selector({"app": app}) for app in APPS),
    *(selector({"app": app}) for app in APPS),
    selector({}, ("app", "In", ["a", "b"])),
    selector({}, ("app", "NotIn", ["c"])),
    selector({}, ("app", "NotIn", ["a", "b"])),
    selector({}, ("app", "Exists")),
]
SPREAD_EXTRAS: list[dict[str, Any]] = [
    {},
    {},
    {"min_domains": 2},
    {"min_domains": 4},
    {"match_label_keys": ("rev",)},
    {"node_affinity_policy": NodeInclusionPolicy.IGNORE},
    {"node_taints_policy": NodeInclusionPolicy.HONOR},
    {"required": False},
    {"required": False, "min_domains": 3},
]
SPREADS: list[TopologySpreadConstraint] = [
    spread(key, select, skew, **extra)
    for key, select, skew, extra in product(
        (*KEYS, label_keys.ZONE, label_keys.HOSTNAME, label_keys.ARCH, TIER),
        SELECTORS,
        (1, 2, 3),
        SPREAD_EXTRAS,
    )
]
NAMESPACE_EXTRAS: list[dict[str, Any]] = [
    {},
    {},
    {"namespaces": ["other"]},
    {"namespace_selector": LabelSelector()},
]
POD_TERMS: list[PodAffinityTerm] = [
    affinity(select, key, **where) for key, select, where in product(KEYS, SELECTORS, NAMESPACE_EXTRAS)
]
NODE_ENTRIES: list[Entry] = [
    *((label_keys.ZONE, "In", [zone]) for zone in ZONES),
    (label_keys.ZONE, "In", list(ZONES[1:])),
    (label_keys.ZONE, "NotIn", [ZONES[0]]),
    (label_keys.CAPACITY_TYPE, "In", [SPOT]),
    (label_keys.ARCH, "In", ["amd64"]),
    (label_keys.ARCH, "NotIn", ["amd64"]),
    (TEAM, "In", ["x"]),
    (TEAM, "NotIn", ["x"]),
    (TEAM, "Exists"),
    (TEAM, "DoesNotExist"),
    (TIER, "Gt", ["1"]),
    (TIER, "Lt", ["4"]),
    (TIER, "In", ["2", "5"]),
    (TIER, "NotIn", ["3"]),
]
TERMS = [
    *(node_term(entry) for entry in NODE_ENTRIES),
    *(node_term(*both) for both in product(NODE_ENTRIES[:6], NODE_ENTRIES[6:])),
]
TERM_LISTS = [[term] for term in TERMS] + [list(pair) for pair in product(TERMS[:14:2], TERMS[1:14:2])]
NODE_SELECTORS = [
    *({label_keys.ZONE: zone} for zone in ZONES),
    {label_keys.CAPACITY_TYPE: SPOT},
    {label_keys.CAPACITY_TYPE: ON_DEMAND},
    {TEAM: "x"},
    {TIER: "2"},
    {label_keys.ZONE: ZONES[1], label_keys.CAPACITY_TYPE: SPOT},
]
TOLERATIONS = [
    [tolerate()],
    [tolerate("team")],
    [tolerate("team", "x"), tolerate("soft")],
    [tolerate("gpu")],
    [tolerate("team", "y")],
]
PORTS = [
    [HostPort(port=port, protocol=protocol, ip=ip)]
    for port, protocol, ip in product((80, 443), ("TCP", "UDP"), ("0.0.0.0", "10.0.0.1"))  # noqa: S104
]
PREFERENCES: list[dict[str, Any]] = [
    *({"preferred_node_terms": [prefer_node(7, entry)]} for entry in NODE_ENTRIES),
    *({"preferred_affinity": [prefer_pods(5, term)]} for term in POD_TERMS),
    *({"preferred_anti_affinity": [prefer_pods(3, term)]} for term in POD_TERMS),
    *(
        {
            "preferred_node_terms": [prefer_node(9, entry), prefer_node(1, ("no", "Exists"))],
            "preferred_affinity": [prefer_pods(5, near)],
            "preferred_anti_affinity": [prefer_pods(3, far)],
        }
        for entry, near, far in zip(NODE_ENTRIES, POD_TERMS[::7], POD_TERMS[3::7], strict=False)
    ),
]
CLAIMS = [["free"], ["zonal"], ["shared"], ["shared", "zonal"], ["missing"]]
BASICS = st.sampled_from(
    [
        {"cpu": cpu, "memory": memory, "labels": {"app": app, "rev": rev}}
        for cpu, memory, app, rev in product(
            ("100m", "500m", "900m", "1500m"), ("64Mi", "512Mi", "2Gi"), APPS, "12"
        )
    ]
)
HOW_MANY_SPREADS = st.sampled_from([0, 0, 1, 1, 2])


@st.composite
def pod_shapes(draw: st.DrawFn) -> dict[str, Any]:
    """Return all fields of a workload's pods except their names."""
    avoided = maybe(draw, POD_TERMS, None)
    wanted = maybe(draw, POD_TERMS, None)
    both = [wanted, draw(st.sampled_from(POD_TERMS))] if wanted and draw(RARELY) else [wanted]
    return {
        **draw(BASICS),
        "namespace": maybe(draw, ["other"], "default"),
        "spreads": [draw(st.sampled_from(SPREADS)) for _ in range(draw(HOW_MANY_SPREADS))],
        "anti_affinity": [avoided] if avoided else [],
        "affinity": both if wanted else [],
        "tolerations": maybe(draw, TOLERATIONS, []),
        "node_terms": maybe(draw, TERM_LISTS, []),
        "node_selector": maybe(draw, NODE_SELECTORS, {}),
        "host_ports": maybe(draw, PORTS, []),
        "more": maybe(draw, [{GPU_A: 1}], None),
        **maybe(draw, PREFERENCES, {}),
    }


@st.composite
def workloads(draw: st.DrawFn, *, most: int = 6) -> list[Pod]:
    """Return up to ``most`` workloads of one to six identical pods."""
    pods: list[Pod] = []
    for i in range(draw(st.integers(1, most))):
        shape = draw(pod_shapes())
        claims = maybe(draw, CLAIMS, [])
        pods += [a_pod(f"w{i}-{n}", claims=claims, **shape) for n in range(draw(st.integers(1, 6)))]
    return pods
