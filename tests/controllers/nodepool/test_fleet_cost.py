"""The metric of the bill over its lower bound."""

from math import isnan

import pytest

from dovetail.controllers.nodepool import fleet_cost
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType, Offering
from dovetail.model.kube.requirements import Requirements
from dovetail.ports.api_resources import NODE_POOLS, NODES, PODS
from dovetail.ports.metrics import FLEET_COST_OVER_BOUND
from tests.support.controllers.cloud_provider import SHAPE, TYPE, ZONE
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.kube import manifests

LABELS = {
    label_keys.NODEPOOL: "default",
    label_keys.INSTANCE_TYPE: TYPE,
    label_keys.ZONE: ZONE,
    label_keys.CAPACITY_TYPE: label_keys.ON_DEMAND,
    label_keys.INITIALIZED: "true",
    label_keys.REGISTERED: "true",
}
METRIC = FLEET_COST_OVER_BOUND.name


def an_environment() -> ControllerEnvironment:
    env = ControllerEnvironment()
    offering = Offering(zone=ZONE, capacity_type=label_keys.ON_DEMAND, price=0.2)
    requirements = Requirements.from_labels({label_keys.INSTANCE_TYPE: TYPE})
    env.cloud.types = (
        InstanceType(name=TYPE, requirements=requirements, capacity=SHAPE, offerings=(offering,)),
    )
    env.run(fleet_cost.controller)
    ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    env.add(NODE_POOLS, {**manifests.pool(), **ready})
    return env


def add_node(env: ControllerEnvironment, name: str, *, cpu: str) -> None:
    env.add(NODES, manifests.node(name, provider_id=f"aws:///{ZONE}/i-{name}", labels=LABELS, taints=()))
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
    env.add(PODS, manifests.pod(f"pod-{name}", node=name, containers=[container]))


def test_bill_over_bound_is_two_if_half_of_the_nodes_would_do() -> None:
    env = an_environment()
    for name in ("one", "two", "three", "four"):
        add_node(env, name, cpu="2")

    env.wait(16 * 60)

    assert env.metrics.total(METRIC, bound="fluid") == pytest.approx(2.0)


def test_without_nodes_there_is_no_ratio() -> None:
    env = an_environment()

    env.wait(16 * 60)

    assert isnan(env.metrics.total(METRIC, bound="fluid"))


def test_second_reconcile_of_an_unchanged_cluster_computes_nothing() -> None:
    env = an_environment()
    add_node(env, "one", cpu="2")
    env.wait(16 * 60)
    passes = env.executor.passes

    env.wait(60 * 60)

    assert env.executor.passes == passes
    assert env.writes == []
