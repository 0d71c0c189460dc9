"""Commands of `dovetail cluster` in a test account."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.destroy.destroy import destroy_cluster, find_leftovers, plan_destroy
from dovetail.eks.destroy.leftovers import Leftover
from dovetail.eks.plan.planner import Plan
from dovetail.eks.session import ClusterSession

T = TypeVar("T")


class ClusterCommands(ABC):
    """Plan and delete a cluster as a user does; each command has a session of its own."""

    @abstractmethod
    def open_session(
        self, config: ClusterConfig, *, may_write: bool = True
    ) -> AbstractAsyncContextManager[ClusterSession]:
        """Open a session in the account."""

    def run(
        self, config: ClusterConfig, work: Callable[[ClusterSession], Awaitable[T]], *, may_write: bool = True
    ) -> T:
        """Open a session, run work in it, and close it."""

        async def run_work() -> T:
            async with self.open_session(config, may_write=may_write) as session:
                return await work(session)

        return asyncio.run(run_work())

    def plan(self, config: ClusterConfig) -> Plan:
        async def work(session: ClusterSession) -> Plan:
            plan, _ = await session.plan()
            return plan

        return self.run(config, work, may_write=False)

    def destroy(self, config: ClusterConfig) -> list[Leftover]:
        """Delete the cluster, and return the leftovers."""

        async def work(session: ClusterSession) -> list[Leftover]:
            await destroy_cluster(session, *await plan_destroy(session))
            return await find_leftovers(session)

        return self.run(config, work)
