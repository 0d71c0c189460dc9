"""Execution of plans."""

import asyncio

from dovetail.eks.apply.executor import DryRunExecutor, execute_plan
from dovetail.eks.plan.planner import Action, Plan, Step, critical_path_seconds
from dovetail.eks.plan.resource import ObservedResource


def test_dry_run_reports_the_steps_in_dependency_order() -> None:
    reported: list[str] = []
    first = Step(action=Action.DELETE, address="vpc/a", observed=ObservedResource(kind="vpc", name="a"))
    second = Step(
        action=Action.DELETE,
        address="vpc/b",
        observed=ObservedResource(kind="vpc", name="b"),
        depends_on=(first.id,),
    )

    asyncio.run(execute_plan(Plan(steps=(second, first)), DryRunExecutor(reported.append)))

    assert reported == ["delete VPC a", "delete VPC b"]
    assert critical_path_seconds((first, second)) == 4
