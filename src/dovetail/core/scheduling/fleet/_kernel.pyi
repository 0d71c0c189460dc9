from dovetail.core.scheduling.arrays.types import Floats, Ints

Shape = tuple[int, int, int]

VERSION: int

def fill(
    shape: Shape,
    sizes: Floats,
    per_value: Floats,
    free: Floats,
    limits: Floats,
    weights: Floats,
    bulk_share: float,
    counts: Floats,
    /,
) -> None: ...
def swap(
    shape: Shape,
    sizes: Floats,
    values: Floats,
    min_gain: float,
    limits: Floats,
    counts: Floats,
    free: Floats,
    rounds: int,
    /,
) -> None: ...
def value_bound(
    shape: tuple[int, int, int, int],
    values: Floats,
    share: Floats,
    max_pods: Floats,
    weightings: Floats,
    bound: Floats,
    /,
) -> None: ...
def cheapest_fit(
    shape: tuple[int, int, int, int],
    alloc: Floats,
    running_max: Floats,
    prices: Floats,
    starts: Ints,
    part_of: Ints,
    loads: Floats,
    max_prices: Floats,
    found: Ints,
    /,
) -> None: ...
def first_fit(
    shape: tuple[int, int, int, int],
    scan: tuple[int, int, int, int],
    max_ratio: float,
    fitting: Floats,
    states: Ints,
    rows: Ints,
    targets: Ints,
    cost: Floats,
    rules: tuple[tuple[int, bool, int, Ints, Ints | None], ...],
    claims: Ints,
    pods: Ints,
    after: Ints,
    /,
) -> int: ...
def count_fitting(
    shape: Shape, requests: Floats, available: Floats, used: Floats, fitting: Floats, /
) -> None: ...
def best_steps(
    shape: tuple[int, int, int, int, int, int],
    limit: float,
    alloc: Floats,
    running_max: Floats,
    prices: Floats,
    starts: Ints,
    requests: Floats,
    used: Floats,
    claims: Ints,
    part_of: Ints,
    max_pods: Floats,
    old_prices: Floats,
    steps: Floats,
    pods: Floats,
    positions: Ints,
    extra: Floats,
    /,
) -> None: ...
def pareto_front(shape: Shape, room: Floats, admission: Ints, includes: Ints, front: Ints, /) -> int: ...
def single_nodes(
    shape: tuple[int, int, int, int, int],
    counts: Floats,
    caps: Floats,
    sizes: Floats,
    alloc: Floats,
    prices: Floats,
    order: Ints,
    admission: Ints,
    admits: Ints,
    types: Ints,
    cost: Floats,
    /,
) -> None: ...
def best_type(
    shape: tuple[int, int], requests: Floats, alloc: Floats, cost: Floats, max_pods: float, /
) -> tuple[int, float]: ...
