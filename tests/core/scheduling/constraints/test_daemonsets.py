"""DaemonSet overhead on new nodes."""

from typing import Any

import msgspec
import pytest

from dovetail.model import labels as label_keys
from dovetail.model.kube.pod import HostPort, NodeSelectorTerm
from dovetail.model.kube.pod_requests import Container, compute_pod_requests
from dovetail.model.kube.resources import Resources
from dovetail.model.plan import Constraint
from dovetail.model.settings import Packing, SchedulingSettings
from tests.support.scheduling.builders import (
    a_daemon_set,
    a_pod,
    a_pool,
    a_spec,
    cluster,
    node_term,
    prefer_node,
    requirement,
    taint,
    tolerate,
)
from tests.support.scheduling.instance_types import SIZE, Z1, incremental
from tests.support.scheduling.plans import new_node_of, reasons, type_names, unplaced
from tests.support.scheduling.solver import checked as solve

BOTH = pytest.mark.parametrize("packing", list(Packing))
POD = a_pod("p", cpu="1", memory="1Gi")
ALL = tolerate()
LARGE: dict[str, Any] = {"cpu": "2", "memory": "2Gi"}
"""Beside such a daemon the pod needs a ``default`` node; alone a ``small`` one."""


def type_with(daemon: Any, pool: Any = None, packing: Packing = Packing.CHEAPEST) -> list[str]:
    """Return the type that the pod gets in a cluster with this DaemonSet."""
    snapshot = cluster([POD], None if pool is None else [pool], daemon_sets=[daemon])
    return type_names(solve(snapshot, SchedulingSettings(packing=packing)))


# --- P58 to P61 -------------------------------------------------------------------------------


@BOTH
def test_p58_a_daemon_set_takes_its_share_of_the_node(packing: Packing) -> None:
    assert type_with(a_daemon_set("agent", **LARGE), packing=packing) == ["default"]


def test_p58_without_the_daemon_set_a_smaller_node_does() -> None:
    assert type_names(solve(cluster([POD]))) == ["small"]


def test_p59_a_startup_taint_does_not_keep_the_daemon_set_away() -> None:
    pool = a_pool(startup_taints=[taint("cilium", "starting")])

    assert type_with(a_daemon_set("agent", **LARGE), pool) == ["default"]


def test_p60_a_daemon_set_that_fits_nowhere_leaves_the_pod_pending() -> None:
    snapshot = cluster([POD], daemon_sets=[a_daemon_set("agent", cpu="10000", memory="10000Gi")])

    plan = solve(snapshot)

    assert reasons(plan) == {"p": [Constraint.RESOURCES]}


def test_p60_the_init_containers_of_a_daemon_set_count() -> None:
    small = Container(requests=Resources.parse({"cpu": "100m"}))
    large = Container(requests=Resources.parse({"cpu": "2", "memory": "2Gi"}))
    spec = a_spec(requests=compute_pod_requests([small], [large]))

    assert type_with(a_daemon_set("agent", spec=spec)) == ["default"]


def test_p61_what_the_newest_pod_of_a_daemon_set_requests_counts_more_than_the_template() -> None:
    template = a_daemon_set("agent", cpu="100m", memory="1Mi")
    grown = a_daemon_set("agent", **LARGE).pod

    assert type_with(msgspec.structs.replace(template, newest_pod=grown)) == ["default"]


def test_p61_a_pod_that_shrank_counts_too() -> None:
    template = a_daemon_set("agent", **LARGE)
    shrunk = a_daemon_set("agent", cpu="100m", memory="1Mi").pod

    assert type_with(msgspec.structs.replace(template, newest_pod=shrunk)) == ["small"]


# --- P62, P63, P66: which daemons come along --------------------------------------------------


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"node_selector": {"node": "other"}},
        {"node_selector": {label_keys.INSTANCE_TYPE: "enormous"}},
        {"node_selector": {label_keys.NODEPOOL: "other"}},
        {"node_terms": [node_term(("node", "Exists"))]},
    ],
)
def test_p62_a_daemon_set_that_runs_elsewhere_takes_nothing(elsewhere: dict[str, Any]) -> None:
    assert type_with(a_daemon_set("agent", **LARGE, **elsewhere)) == ["small"]


def test_p62_a_daemon_set_that_does_not_tolerate_the_pools_taint_takes_nothing() -> None:
    pod = msgspec.structs.replace(POD, spec=a_spec(requests=POD.spec.requests, tolerations=[ALL]))
    daemon = a_daemon_set("agent", **LARGE)

    plan = solve(cluster([pod], [a_pool(taints=[taint("dedicated")])], daemon_sets=[daemon]))

    assert type_names(plan) == ["small"]


def test_p62_a_daemon_set_that_tolerates_the_pools_taint_takes_its_share() -> None:
    pod = msgspec.structs.replace(POD, spec=a_spec(requests=POD.spec.requests, tolerations=[ALL]))
    daemon = a_daemon_set("agent", **LARGE, tolerations=[ALL])

    plan = solve(cluster([pod], [a_pool(taints=[taint("dedicated")])], daemon_sets=[daemon]))

    assert type_names(plan) == ["default"]


@pytest.mark.parametrize(
    "here",
    [
        {"node_selector": {"team": "red"}},
        {"node_terms": [node_term(("team", "In", ["red", "blue"]))]},
        {"node_terms": [node_term(("undefined", "NotIn", ["x"]))]},
        {"node_terms": [node_term(("undefined", "DoesNotExist"))]},
        {"node_selector": {label_keys.OS: "linux"}},
    ],
)
def test_p63_a_daemon_set_whose_selector_the_pool_meets_takes_its_share(here: dict[str, Any]) -> None:
    daemon = a_daemon_set("agent", **LARGE, **here)

    assert type_with(daemon, a_pool(labels={"team": "red"})) == ["default"]


def test_p66_one_alternative_that_matches_is_enough() -> None:
    terms = [node_term(("node", "In", ["other"])), node_term((label_keys.ZONE, "In", [Z1]))]

    assert type_with(a_daemon_set("agent", **LARGE, node_terms=terms)) == ["default"]


def test_p66_the_same_rules_hold_for_several_nodepools_and_types() -> None:
    # Upstream drops alternatives from the shared daemon while it looks at one pool.
    terms = [node_term(("team", "In", ["red"])), node_term(("team", "In", ["blue"]))]
    pools = [a_pool("first", labels={"team": "blue"}), a_pool("second", labels={"team": "red"})]
    some = [
        a_pod(f"for-{name}", cpu="1", memory="1Gi", node_selector={label_keys.NODEPOOL: name})
        for name in ("first", "second")
    ]

    plan = solve(cluster(some, pools, daemon_sets=[a_daemon_set("d", **LARGE, node_terms=terms)]))

    assert type_names(plan) == ["default", "default"]


def test_p66_preferences_of_a_daemon_set_are_ignored() -> None:
    preference = prefer_node(1, ("node", "In", ["other"]))

    assert type_with(a_daemon_set("agent", **LARGE, preferred_node_terms=[preference])) == ["default"]


def test_p66_a_pool_with_a_soft_taint_still_gets_its_daemon_sets() -> None:
    pool = a_pool(taints=[taint("busy", effect="PreferNoSchedule")])

    assert type_with(a_daemon_set("agent", **LARGE), pool) == ["default"]


# --- P64, P65 ---------------------------------------------------------------------------------


def test_p64_a_daemon_set_for_large_types_does_not_burden_small_ones() -> None:
    pool = a_pool(requirements=[(SIZE, "Exists")])
    daemon = a_daemon_set("agent", cpu="4", node_selector={SIZE: "large"})

    plan = solve(cluster([a_pod("p")], [pool], incremental(5), daemon_sets=[daemon]))

    assert type_names(plan) == ["fake-it-0"]


def test_p64_a_daemon_set_for_small_types_does_not_burden_large_ones() -> None:
    pool = a_pool(requirements=[(SIZE, "Exists")])
    daemon = a_daemon_set("agent", cpu="3.5", node_selector={SIZE: "small"})

    plan = solve(cluster([a_pod("p", cpu="1")], [pool], incremental(5), daemon_sets=[daemon]))

    assert type_names(plan) == ["fake-it-4"]


def test_p64_every_type_listed_holds_the_pods_and_its_own_daemon_sets() -> None:
    pool = a_pool(requirements=[(SIZE, "Exists")])
    daemon = a_daemon_set("agent", cpu="4", node_selector={SIZE: "large"})

    plan = solve(cluster([a_pod("p", cpu="2.5")], [pool], incremental(8), daemon_sets=[daemon]))

    assert type_names(plan) == ["fake-it-2"]
    # fake-it-4 and fake-it-5 are large: 4.9 and 5.9 CPU do not hold 2.5 and the daemon's 4.
    names = {kind.name for kind in plan.nodes[0].instance_types}
    assert names == {"fake-it-2", "fake-it-3", "fake-it-6", "fake-it-7"}


def test_p65_the_affinity_to_one_node_of_a_live_daemon_pod_is_ignored() -> None:
    bound_to_its_node = NodeSelectorTerm(fields=(requirement("metadata.name", "In", ["node-7"]),))
    template = a_daemon_set("agent", cpu="100m", node_terms=[node_term((label_keys.ZONE, "Exists"))])
    live = a_daemon_set("agent", **LARGE, node_terms=[bound_to_its_node]).pod

    assert type_with(msgspec.structs.replace(template, newest_pod=live)) == ["default"]


def test_p65_a_template_without_affinity_of_its_own_counts_as_well() -> None:
    bound_to_its_node = NodeSelectorTerm(fields=(requirement("metadata.name", "In", ["node-7"]),))
    template = a_daemon_set("agent", cpu="100m")
    live = a_daemon_set("agent", **LARGE, node_terms=[bound_to_its_node]).pod

    assert type_with(msgspec.structs.replace(template, newest_pod=live)) == ["default"]


def test_p65_the_templates_affinity_decides_where_the_daemon_set_runs() -> None:
    elsewhere = [node_term(("node", "In", ["other"]))]
    template = a_daemon_set("agent", cpu="100m", node_terms=elsewhere)
    live = a_daemon_set("agent", **LARGE).pod

    assert type_with(msgspec.structs.replace(template, newest_pod=live)) == ["small"]


# --- P67: ports -------------------------------------------------------------------------------


def test_p67_the_port_of_a_daemon_set_is_taken_on_every_new_node() -> None:
    daemon = a_daemon_set("agent", ports=[8080])

    plan = solve(cluster([a_pod("p", ports=[8080])], daemon_sets=[daemon]))

    assert reasons(plan) == {"p": [Constraint.HOST_PORT]}


def test_p67_another_protocol_is_another_port() -> None:
    daemon = a_daemon_set("agent", ports=[8080])

    plan = solve(cluster([a_pod("p", ports=[HostPort(8080, "UDP")])], daemon_sets=[daemon]))

    assert unplaced(plan) == []


def test_p67_types_that_the_daemon_set_does_not_run_on_still_have_the_port() -> None:
    pool = a_pool(requirements=[(SIZE, "Exists")])
    daemon = a_daemon_set("agent", ports=[8080], node_selector={SIZE: "small"})
    snapshot = cluster([a_pod("p", ports=[8080])], [pool], incremental(5), daemon_sets=[daemon])

    plan = solve(snapshot)

    assert new_node_of(plan, "p").instance_type.name == "fake-it-4"


# --- S30, S66 ---------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [label_keys.INITIALIZED, label_keys.REGISTERED])
def test_s30_a_daemon_set_that_waits_for_the_node_to_be_ready_takes_its_share(key: str) -> None:
    assert type_with(a_daemon_set("agent", **LARGE, node_selector={key: "true"})) == ["default"]


def test_s66_a_daemon_set_that_needs_devices_takes_nothing() -> None:
    assert type_with(a_daemon_set("agent", **LARGE, needs_devices=True)) == ["small"]
