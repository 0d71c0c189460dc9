"""A move is looked at again on a new picture before it is made."""

from typing import Any

from msgspec.structs import replace

from dovetail.core.disruption.command import Move
from dovetail.core.disruption.consolidation.consolidate import consolidate
from dovetail.core.disruption.consolidation.validation import Objection, Recheck
from dovetail.core.disruption.context import View
from dovetail.model import labels as label_keys
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.build import a_pod, a_pool, cluster, pods
from tests.support.catalog import ON_DEMAND, incremental
from tests.support.consolidating import a_bought_node, view_of

TYPES = incremental(8)
ROOM = {"default": 5}


def a_cluster(*nodes: Any, types: Any = TYPES) -> ClusterSnapshot:
    pool = a_pool(requirements=[(label_keys.CAPACITY_TYPE, "In", [ON_DEMAND])])
    return cluster([], [pool], types, nodes=nodes)


def two_nodes(more: Any = ()) -> View:
    return view_of(
        a_cluster(
            a_bought_node("full", TYPES[3], [*pods(2, "a", cpu=1), *more]),
            a_bought_node("half", TYPES[3], [a_pod("b", cpu=1)]),
        )
    )


def one_large(cpu: str = "1500m", types: Any = TYPES) -> View:
    return view_of(a_cluster(a_bought_node("large", TYPES[7], [a_pod("p", cpu=cpu)]), types=types))


def the_move(view: View) -> Move:
    (move,) = consolidate(view, ROOM).moves
    return move


def recheck(move: Move, view: View, room: dict[str, int]) -> Objection | None:
    return Recheck(view, room).objection(move)


def test_a_move_that_is_still_right_may_be_made() -> None:
    assert recheck(the_move(two_nodes()), two_nodes(), ROOM) is None
    assert recheck(the_move(one_large()), one_large(), ROOM) is None


def test_va4_a_node_that_is_no_candidate_any_more_stays() -> None:
    view = two_nodes()
    spared = replace(view, candidates=view.candidates[:1])

    objection = recheck(the_move(view), spared, ROOM)

    assert objection is not None
    assert objection.code == "churn"


def test_va6_so_does_one_for_which_the_budget_has_gone() -> None:
    objection = recheck(the_move(two_nodes()), two_nodes(), {"default": 0})

    assert objection is not None
    assert objection.code == "budget"


def test_va3_pods_that_came_meanwhile_may_have_taken_the_room() -> None:
    objection = recheck(the_move(two_nodes()), two_nodes([a_pod("new", cpu=1)]), ROOM)

    assert objection is not None
    assert objection.code == "scheduling"


def test_va2_types_that_would_not_do_any_more_are_an_objection() -> None:
    objection = recheck(the_move(one_large()), one_large(cpu="2500m"), ROOM)

    assert objection is not None
    assert objection.code == "scheduling"


def test_moves_of_one_pass_are_looked_at_on_top_of_each_other() -> None:
    """Each alone would find room on the one node that is left; together they do not."""
    nodes = [
        a_bought_node("left", TYPES[3], pods(2, "a", cpu=1)),
        a_bought_node("b", TYPES[3], [a_pod("b", cpu=1)]),
        a_bought_node("c", TYPES[3], [a_pod("c", cpu=1)]),
    ]
    view = view_of(a_cluster(*nodes))
    alone = {
        name: the_move(view_of(a_cluster(nodes[0], node)))
        for name, node in (("b", nodes[1]), ("c", nodes[2]))
    }
    narrow = replace(view, closed=frozenset({"b", "c"}))

    again = Recheck(narrow, ROOM)

    assert again.objection(alone["b"]) is None
    objection = again.objection(alone["c"])
    assert objection is not None
    assert objection.code == "scheduling"
