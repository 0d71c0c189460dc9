"""The compiled kernel of the solver: equal to the one in NumPy to the last bit."""

import importlib.util
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.mixes import limits, rules, upstream
from dovetail.core.scheduling.fleet import kernel
from dovetail.core.scheduling.fleet import problem as fleet_problem
from dovetail.core.scheduling.fleet.native import select_kernel
from dovetail.core.scheduling.fleet.patterns import resource_weightings
from dovetail.core.scheduling.fleet.problem import Demand, FleetProblem, compile_demand
from dovetail.core.scheduling.placement import new_claims, nodes, packer, price_index, upsize
from dovetail.core.scheduling.placement.price_index import JoinedPriceIndex, PriceIndex
from dovetail.core.scheduling.solver import solve
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.scheduling.strategies import clusters

ROOT = Path(__file__).parents[4]
USERS = (kernel, fleet_problem, new_claims, nodes, packer, price_index, upsize)
"""Modules that use the compiled kernel if there is one."""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    """Build the kernel from its source: the one in the tree may be older, or missing."""
    headers = Path(sysconfig.get_paths()["include"], "Python.h")
    if not shutil.which("cc") or not headers.exists():
        pytest.skip("needs a C compiler and Python's headers")
    folder = tmp_path_factory.mktemp("kernel")
    command = [
        sys.executable,
        "setup.py",
        "--quiet",
        "build_ext",
        "--build-lib",
        folder,
        "--build-temp",
        folder,
    ]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (library,) = folder.rglob("_kernel*.so")
    spec = importlib.util.spec_from_file_location("dovetail.core.scheduling.fleet._kernel", library)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@st.composite
def problems(draw: st.DrawFn) -> FleetProblem:
    class_count, type_count = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    sizes = draw(_matrix(class_count, [st.integers(1, 40), st.integers(0, 60), st.just(1)]))
    # The last type holds a pod of every class.
    alloc = draw(_matrix(type_count, [st.integers(1, 100), st.integers(1, 150), st.integers(1, 30)]))
    alloc[-1] = np.maximum(alloc[-1], sizes.max(axis=0))
    counts = draw(st.lists(st.integers(1, 50), min_size=class_count, max_size=class_count))
    caps = draw(st.lists(st.integers(1, 50), min_size=class_count, max_size=class_count))
    price = draw(st.lists(st.integers(1, 20), min_size=type_count, max_size=type_count))
    demand = Demand(
        sizes, np.array(counts), alloc, np.array(price, dtype=np.float64), max_per_node=np.array(caps)
    )
    return compile_demand(demand)[0]


def _matrix(rows: int, columns: list[st.SearchStrategy[int]]) -> st.SearchStrategy[np.ndarray]:
    as_lists = st.lists(st.tuples(*columns), min_size=rows, max_size=rows)
    return as_lists.map(lambda rows: np.array(rows, dtype=np.float64))


@given(problem=problems(), data=st.data())
def test_both_kernels_fill_and_swap_the_same_pods(
    compiled: ModuleType, problem: FleetProblem, data: st.DataObject
) -> None:
    resources = problem.sizes.shape[1]
    number = st.sampled_from([0.1, 0.2, 0.35, 0.5, 1.0, 1 / 3])
    # Few distinct values: ties must be broken alike.
    values = np.array(data.draw(st.lists(number, min_size=len(problem.counts), max_size=len(problem.counts))))
    types = np.arange(len(problem.price))
    weights = np.array(
        [data.draw(st.lists(number, min_size=resources, max_size=resources)) for _ in types.tolist()]
    )
    results = []
    for module in (compiled, None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernel, "_kernel", module)
            free = problem.alloc[types].copy()
            counts = kernel.fill(problem, values, free, problem.max_pods, weights)
            assert (free == problem.alloc - counts @ problem.sizes).all()
            filled = counts.copy()
            kernel.swap_pods(problem, values, problem.max_pods, counts, free, 3)
            assert (free == problem.alloc - counts @ problem.sizes).all()
        results.append((filled, counts))

    for filled, counts in results:
        assert (filled <= problem.max_pods).all()
        assert (counts <= problem.max_pods).all()
        assert (counts @ values >= filled @ values - 1e-9).all()
    np.testing.assert_array_equal(results[0][0], results[1][0])
    np.testing.assert_array_equal(results[0][1], results[1][1])


@given(problem=problems(), data=st.data())
def test_both_kernels_bound_the_value_of_a_node_alike(
    compiled: ModuleType, problem: FleetProblem, data: st.DataObject
) -> None:
    # Few distinct values: classes with equal value per load must be taken in the same order.
    number = st.sampled_from([0.1, 0.2, 0.35, 0.5, 1.0, 1 / 3])
    class_count, resources = problem.sizes.shape
    values = np.array(data.draw(st.lists(number, min_size=class_count, max_size=class_count)))
    weightings = resource_weightings(resources)
    bounds = []
    for module in (compiled, None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernel, "_kernel", module)
            bounds.append(kernel.value_bound(values, problem.share, problem.max_pods, weightings))
            counts = kernel.fill(
                problem,
                values,
                problem.alloc.copy(),
                problem.max_pods,
                np.tile(weightings[0], (len(problem.price), 1)),
            )

    np.testing.assert_array_equal(bounds[0], bounds[1])
    assert (counts @ values <= bounds[0].min(axis=1) * (1 + 1e-9)).all()


@given(data=st.data())
def test_both_kernels_find_the_same_cheapest_type(compiled: ModuleType, data: st.DataObject) -> None:
    part_count, loads = data.draw(st.integers(1, 3)), data.draw(st.integers(1, 12))
    parts = []
    for _ in range(part_count):
        types = data.draw(st.integers(1, 8))
        alloc = data.draw(_matrix(types, [st.integers(0, 9), st.integers(0, 9)])).T.copy()
        prices = np.sort(data.draw(_matrix(1, [st.integers(1, 5)] * types))[0])
        running_max = np.maximum.accumulate(alloc, axis=1)
        parts.append(PriceIndex(alloc, prices, np.arange(types), running_max))
    joined = JoinedPriceIndex(parts)
    part_of = np.array(data.draw(st.lists(st.integers(0, part_count - 1), min_size=loads, max_size=loads)))
    load = data.draw(_matrix(loads, [st.integers(0, 10), st.integers(0, 10)])).T
    max_prices = data.draw(_matrix(1, [st.integers(0, 6)] * loads))[0]
    results = []
    for module in (compiled, None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(price_index, "_kernel", module)
            results.append(joined.cheapest_fit(part_of, load, max_prices))

    np.testing.assert_array_equal(results[0], results[1])


def test_a_library_of_another_version_is_not_used(compiled: ModuleType) -> None:
    older = ModuleType("older")
    older.VERSION = compiled.VERSION - 1  # type: ignore[attr-defined]

    assert select_kernel(compiled) is compiled
    assert select_kernel(older) is None
    assert select_kernel(ModuleType("oldest")) is None
    assert select_kernel(None) is None


def _clusters() -> Iterator[ClusterSnapshot]:
    yield rules(250, 1)
    yield rules(250, 2)
    yield limits(250, 3)
    yield upstream(600, 4)


def test_both_kernels_lead_to_equal_plans(compiled: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for cluster in _clusters():
        plans = []
        for module in (compiled, None):
            for user in USERS:
                monkeypatch.setattr(user, "_kernel", module)
            plans.append(solve(cluster))

        assert plans[0] == plans[1]


@pytest.mark.slow
@given(cluster=clusters())
def test_both_kernels_lead_to_equal_plans_with_any_rules(
    compiled: ModuleType, cluster: ClusterSnapshot
) -> None:
    plans = []
    for module in (compiled, None):
        with pytest.MonkeyPatch.context() as patch:
            for user in USERS:
                patch.setattr(user, "_kernel", module)
            plans.append(solve(cluster))

    assert plans[0] == plans[1]


def test_the_compiled_kernel_rejects_arrays_of_another_size_or_type(compiled: ModuleType) -> None:
    array = np.ones((1, 1))

    with pytest.raises(ValueError, match="expected 1 x 1 numbers of type float64"):
        compiled.fill((1, 1, 1), array, array, array, array, array, 0.5, np.zeros((2, 1)))
    with pytest.raises(ValueError, match="expected 1 x 1 numbers of type float64"):
        compiled.fill((1, 1, 1), array, array, array, array, array, 0.5, np.zeros((1, 1), dtype=np.int64))
    with pytest.raises(ValueError, match="expected 1 x 1 numbers of type int64"):
        compiled.cheapest_fit(
            (1, 1, 1, 1), array, array, array, np.array([0, 1]), array, array, array, np.array([0])
        )


def test_the_compiled_kernel_rejects_claims_and_types_out_of_range(compiled: ModuleType) -> None:
    fitting, cost = np.ones(2), np.ones((2, 1))
    states, rows, targets = np.array([1, 1]), np.array([0, 0]), np.array([0, 1])
    results = np.zeros((3, 1), dtype=np.int64)

    def first_fit(end: int, rows: np.ndarray, targets: np.ndarray) -> int:
        scan = (0, end, 0, 1)
        result: int = compiled.first_fit(
            (2, 2, 2, 1), scan, 1.0, fitting, states, rows, targets, cost, (), *results
        )
        return result

    assert first_fit(2, rows, targets) == 1
    assert first_fit(2, rows, np.array([0, -1])) == -2  # The target of state 1 is not known.
    with pytest.raises(ValueError, match="claims out of range"):
        first_fit(3, rows, targets)
    with pytest.raises(ValueError, match="claim state or type out of range"):
        first_fit(2, np.array([1, 1]), targets)
    with pytest.raises(ValueError, match="claim state or type out of range"):
        first_fit(2, rows, np.array([0, 2]))
