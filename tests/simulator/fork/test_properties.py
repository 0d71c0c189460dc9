"""Property: the fork of a cluster at rest, without a change, stays at rest."""

import os
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_POOLS
from tests.support.simulator.clusters import a_node_class, a_pool, an_app, build_cluster, build_scenario, wait
from tests.support.simulator.recorded import (
    a_budget,
    a_database,
    an_agent,
    changed_objects,
    fork,
    identities,
    record,
)

BUDGETS: list[dict[str, Any]] = [{"maxUnavailable": 1}, {"minAvailable": "50%"}, {"minAvailable": 1}]
LONG = int(os.environ.get("DOVETAIL_ATTACK", "0"))


@st.composite
def apps(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Up to three Deployments of different sizes, some with budgets, spread or init containers."""
    objects: list[dict[str, Any]] = []
    for number in range(draw(st.integers(0, 3))):
        name = f"app-{number}"
        app = an_app(name, replicas=draw(st.integers(0, 4)))
        spec = app["spec"]["template"]["spec"]
        requests = {"cpu": draw(st.sampled_from(["100m", "700m", "1"])), "memory": "512Mi"}
        spec["containers"][0]["resources"] = {"requests": requests}
        if draw(st.booleans()):
            spec["initContainers"] = [{"name": "init", "image": "init:1"}]
        if draw(st.booleans()):
            spec["topologySpreadConstraints"] = [
                {
                    "maxSkew": 1,
                    "topologyKey": "topology.kubernetes.io/zone",
                    "whenUnsatisfiable": draw(st.sampled_from(["DoNotSchedule", "ScheduleAnyway"])),
                    "labelSelector": {"matchLabels": {"app": name}},
                }
            ]
        objects.append(app)
        if draw(st.booleans()):
            budget = draw(
                st.sampled_from([{"maxUnavailable": 1}, {"minAvailable": "50%"}, {"minAvailable": 1}])
            )
            objects.append(a_budget(name, **budget))
    if draw(st.booleans()):
        objects.append(an_agent())
    if draw(st.booleans()):
        objects += a_database(draw(st.integers(1, 3)))
    return objects


@pytest.mark.slow
@given(
    objects=apps(),
    node_group=st.integers(0, 2),
    capacity_type=st.sampled_from(["spot", "on-demand"]),
    policy=st.sampled_from(["WhenEmpty", "WhenEmptyOrUnderutilized"]),
)
@settings(
    max_examples=LONG or 15,
    deadline=None,
    derandomize=not LONG,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_fork_without_a_change_of_a_cluster_at_rest_stays_at_rest(
    objects: list[dict[str, Any]], node_group: int, capacity_type: str, policy: str
) -> None:
    pool = a_pool(capacity_type=capacity_type)
    pool["spec"]["disruption"]["consolidationPolicy"] = policy
    cluster = build_cluster(build_scenario(objects=[a_node_class(), pool, *objects], node_group=node_group))
    wait(cluster, 1800)
    assume(not changed_objects(cluster, timedelta(minutes=30)))
    forked = fork(record(cluster), cluster)
    before, launches = identities(forked), len(forked.ec2.billing.launches)

    forked.clock.run(until=forked.clock.now() + timedelta(hours=2))

    assert identities(forked) == before
    assert len(forked.ec2.billing.launches) == launches
    for resource in (NODE_POOLS, EC2_NODE_CLASSES):
        (then,), (now,) = cluster.api.list(resource).items, forked.api.list(resource).items
        assert now["status"] == then["status"]
