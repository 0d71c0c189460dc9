"""Deletion of a cluster in dependency order, and verification that nothing is left."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from dovetail.eks.apply.executor import ExecutionResult, ProgressListener, execute_plan
from dovetail.eks.apply.ownership import filter_owned, is_owned
from dovetail.eks.destroy.leftovers import Leftover, LeftoverCleaner
from dovetail.eks.destroy.preflight import check_blockers
from dovetail.eks.plan.planner import Plan, Step, plan_deletion
from dovetail.eks.plan.resource import OWNERSHIP_TAG, ObservedState
from dovetail.eks.plan.resource_kinds import KINDS
from dovetail.eks.session import ClusterSession
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NAMESPACES, NODE_CLAIMS, NODE_POOLS

_IN_CLUSTER: Final = ("kubernetes-object", "helm-release")
_NODE_KINDS: Final = ("eks-node-group", "eks-fargate-profile")
_WITH_FINALIZERS: Final = (NODE_CLAIMS, NODE_POOLS, EC2_NODE_CLASSES)


async def plan_destroy(session: ClusterSession) -> tuple[Plan, ObservedState]:
    """Observe, and plan the deletion of owned resources; external ones are kept.

    Raises ``DestroyBlockedError`` for resources of others that would block it.
    """
    observed = filter_owned(session.desired, await session.observe(), session.config.name)
    await check_blockers(session, observed)
    return plan_deletion(session.desired, observed), observed


async def destroy_cluster(
    session: ClusterSession,
    plan: Plan,
    observed: ObservedState,
    *,
    stop: asyncio.Event | None = None,
    listener: ProgressListener | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> ExecutionResult:
    """Delete every owned resource; a second run continues where a first one stopped.

    1. Resources in the cluster, while its controllers still run: a NodePool waits
       for its NodeClaims, and those for their instances.
    2. Leftovers of the controllers.
    3. AWS resources, dependents first.
    """
    cleaner = _leftover_cleaner(session)
    executor = session.executor(observed)
    in_cluster = [step for step in plan.steps if step.kind in _IN_CLUSTER]
    in_aws = [step for step in plan.steps if step.kind not in _IN_CLUSTER]
    first = await execute_plan(_subplan(plan, in_cluster), executor, stop=stop, listener=listener)
    if first.remaining:
        return ExecutionResult(first.done, (*first.remaining, *in_aws))
    report("looking for leftovers of nodes")
    await cleaner.delete_node_resources()
    # Interfaces of node groups are detached only once the groups are gone.
    node_steps, other_steps = _split_node_steps(in_aws)
    second = await execute_plan(_subplan(plan, node_steps), executor, stop=stop, listener=listener)
    await cleaner.delete_unused_interfaces()
    third = await execute_plan(_subplan(plan, other_steps), executor, stop=stop, listener=listener)
    return ExecutionResult((*first.done, *second.done, *third.done), (*second.remaining, *third.remaining))


async def find_leftovers(session: ClusterSession) -> list[Leftover]:
    """Observe again, and return the resources that are left; empty on success."""
    # The connection may lead to a cluster that is gone.
    await session.api_access.close()
    observed = filter_owned(session.desired, await session.observe(), session.config.name)
    leftovers = [
        Leftover(KINDS[resource.kind].display_name, resource.name)
        for resource in observed.resources.values()
        if is_owned(resource, session.config.name, session.config.region)
    ]
    leftovers += [leftover async for leftover in _leftover_cleaner(session).find()]
    leftovers += await _find_stuck_objects(session)
    return sorted(set(leftovers))


def _leftover_cleaner(session: ClusterSession) -> LeftoverCleaner:
    return LeftoverCleaner(session.aws, uses_existing_cluster=session.uses_existing_cluster)


async def _find_stuck_objects(session: ClusterSession) -> list[Leftover]:
    """Return objects kept by finalizers, and namespaces kept by their content."""
    api = await session.api_access.connect() if session.uses_existing_cluster else None
    if api is None:
        return []
    leftovers: list[Leftover] = []
    for resource in _WITH_FINALIZERS:
        for item in await api.list_objects(resource):
            metadata = item["metadata"]
            if metadata.get("deletionTimestamp") and metadata.get("finalizers"):
                reason = f"kept by {', '.join(metadata['finalizers'])}"
                leftovers.append(Leftover(resource.kind, metadata["name"], reason))
    selector = f"{OWNERSHIP_TAG}={session.config.name}"
    for namespace in await api.list_objects(NAMESPACES, labels=selector):
        reason = "it was created for a chart, and contains objects of others"
        leftovers.append(Leftover("namespace", namespace["metadata"]["name"], reason))
    return leftovers


def _split_node_steps(steps: Sequence[Step]) -> tuple[list[Step], list[Step]]:
    """Split off the steps that delete nodes, with their dependencies."""
    by_id = {step.id: step for step in steps}
    pending = [step.id for step in steps if step.kind in _NODE_KINDS]
    node_ids: set[str] = set()
    while pending:
        step_id = pending.pop()
        if step_id in by_id and step_id not in node_ids:
            node_ids.add(step_id)
            pending.extend(by_id[step_id].depends_on)
    return (
        [step for step in steps if step.id in node_ids],
        [step for step in steps if step.id not in node_ids],
    )


def _subplan(plan: Plan, steps: Sequence[Step]) -> Plan:
    """Return a plan of some steps; dependencies outside of them are done."""
    ids = {step.id for step in steps}
    independent = tuple(
        msgspec.structs.replace(
            step, depends_on=tuple(step_id for step_id in step.depends_on if step_id in ids)
        )
        for step in steps
    )
    return msgspec.structs.replace(plan, steps=independent)
