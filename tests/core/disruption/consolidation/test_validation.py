"""Validation of commands on a new context before they start."""

from typing import Any

from msgspec.structs import replace

from dovetail.core.disruption.command import Command
from dovetail.core.disruption.consolidation.consolidate import consolidate
from dovetail.core.disruption.consolidation.validation import CommandValidator, ValidationFailure
from dovetail.core.disruption.context import DisruptionContext
from dovetail.model import labels as label_keys
from dovetail.model.snapshot import ClusterSnapshot
from tests.support.disruption.consolidation import a_pool_node, context_of
from tests.support.scheduling.builders import a_pod, a_pool, cluster, pods
from tests.support.scheduling.instance_types import ON_DEMAND, incremental

TYPES = incremental(8)
ALLOWED = {"default": 5}


def a_cluster(*nodes: Any, types: Any = TYPES) -> ClusterSnapshot:
    pool = a_pool(requirements=[(label_keys.CAPACITY_TYPE, "In", [ON_DEMAND])])
    return cluster([], [pool], types, nodes=nodes)


def two_nodes(more: Any = ()) -> DisruptionContext:
    return context_of(
        a_cluster(
            a_pool_node("full", TYPES[3], [*pods(2, "a", cpu=1), *more]),
            a_pool_node("half", TYPES[3], [a_pod("b", cpu=1)]),
        )
    )


def one_large(cpu: str = "1500m", types: Any = TYPES) -> DisruptionContext:
    return context_of(a_cluster(a_pool_node("large", TYPES[7], [a_pod("p", cpu=cpu)]), types=types))


def the_command(context: DisruptionContext) -> Command:
    (command,) = consolidate(context, ALLOWED).commands
    return command


def recheck(command: Command, context: DisruptionContext, room: dict[str, int]) -> ValidationFailure | None:
    return CommandValidator(context, room).validate(command)


def test_unchanged_command_is_valid() -> None:
    assert recheck(the_command(two_nodes()), two_nodes(), ALLOWED) is None
    assert recheck(the_command(one_large()), one_large(), ALLOWED) is None


def test_va4_command_with_a_node_that_is_no_candidate_fails_with_churn() -> None:
    context = two_nodes()
    kept = replace(context, candidates=context.candidates[:1])

    failure = recheck(the_command(context), kept, ALLOWED)

    assert failure is not None
    assert failure.code == "churn"


def test_va6_command_over_budget_fails() -> None:
    failure = recheck(the_command(two_nodes()), two_nodes(), {"default": 0})

    assert failure is not None
    assert failure.code == "budget"


def test_va3_command_fails_if_new_pods_took_the_room() -> None:
    failure = recheck(the_command(two_nodes()), two_nodes([a_pod("new", cpu=1)]), ALLOWED)

    assert failure is not None
    assert failure.code == "scheduling"


def test_va2_command_fails_if_its_instance_types_no_longer_suffice() -> None:
    failure = recheck(the_command(one_large()), one_large(cpu="2500m"), ALLOWED)

    assert failure is not None
    assert failure.code == "scheduling"


def test_commands_of_one_pass_are_validated_on_top_of_each_other() -> None:
    """Each alone fits on the only remaining node; together they do not."""
    nodes = [
        a_pool_node("left", TYPES[3], pods(2, "a", cpu=1)),
        a_pool_node("b", TYPES[3], [a_pod("b", cpu=1)]),
        a_pool_node("c", TYPES[3], [a_pod("c", cpu=1)]),
    ]
    context = context_of(a_cluster(*nodes))
    alone = {
        name: the_command(context_of(a_cluster(nodes[0], node)))
        for name, node in (("b", nodes[1]), ("c", nodes[2]))
    }
    narrow = replace(context, excluded_targets=frozenset({"b", "c"}))

    validator = CommandValidator(narrow, ALLOWED)

    assert validator.validate(alone["b"]) is None
    failure = validator.validate(alone["c"])
    assert failure is not None
    assert failure.code == "scheduling"
