"""Cached instance type arrays do not influence later plans."""

import numpy as np
import pytest

from dovetail.core.scheduling.arrays.instance_types import compile_instance_types
from dovetail.core.scheduling.solver import solve
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.kube.resources import CPU, NODES
from tests.support.scheduling.builders import a_daemon_set, a_pool, cluster, pods
from tests.support.scheduling.instance_types import ON_DEMAND, Z1, a_type, offerings


def two_types(price: float = 1.0) -> tuple[InstanceType, ...]:
    """Return a tuple of its own at every call."""
    return tuple(
        a_type(name, cpu=cpu, offered=offerings(price * cpu, [(ON_DEMAND, Z1)]))
        for name, cpu in (("small", 2), ("large", 8))
    )


def test_the_same_tuple_is_compiled_once() -> None:
    types = two_types()

    assert compile_instance_types(types) is compile_instance_types(types)


def test_a_tuple_made_anew_is_compiled_anew() -> None:
    expensive = compile_instance_types(two_types(price=2.0))
    cheap = compile_instance_types(two_types(price=1.0))

    assert (expensive.price == 2 * cheap.price).all()


def test_compiled_types_stay_right_however_many_others_came_since() -> None:
    types = two_types()
    before = compile_instance_types(types).allocatable(CPU).tolist()

    for price in range(1, 100):
        compile_instance_types(two_types(price=float(price)))

    assert compile_instance_types(types).allocatable(CPU).tolist() == before


def test_cached_columns_do_not_depend_on_what_pods_request() -> None:
    table = compile_instance_types(two_types())
    names = [f"example.com/{number}" for number in range(1000)]

    for name in names:
        assert table.allocatable(name).tolist() == [0.0, 0.0]
        assert table.capacity(name).tolist() == [0.0, 0.0]
        assert table.label_codes(name).distinct == (None,)

    assert table.capacity(NODES).tolist() == [1.0, 1.0]
    assert table.capacity(CPU).tolist() == [8000.0, 2000.0]
    assert len(table.label_codes(label_keys.INSTANCE_TYPE).distinct) == 2


def test_shared_arrays_are_read_only() -> None:
    table = compile_instance_types(two_types())

    for shared in (table.price, table.allocatable(CPU), table.capacity(CPU)):
        with pytest.raises(ValueError, match="read-only"):
            shared += np.ones_like(shared)


def test_daemon_sets_of_one_pass_take_nothing_in_the_next() -> None:
    types = two_types()
    hungry = [a_daemon_set("agent", cpu="1500m")]
    waiting = pods(3, cpu="500m")

    alone = solve(cluster(waiting, types=types))
    beside = solve(cluster(waiting, types=types, daemon_sets=hungry))
    again = solve(cluster(waiting, types=types))

    assert beside.price > alone.price
    assert again == alone


def test_two_pools_with_the_same_types_have_each_their_own_daemon_sets_and_limits() -> None:
    types = two_types()
    pools = [a_pool("free"), a_pool("tight", limits={"cpu": "1"})]

    plan = solve(cluster(pods(2), pools, types=types))

    assert {node.nodepool for node in plan.nodes} == {"free"}
