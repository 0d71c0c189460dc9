"""Leader elector: several replicas on one API server, at most one leader."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from dovetail.errors import DovetailError
from dovetail.host.event_loop import AsyncioEventLoop
from dovetail.kube.client import HttpKubeClient
from dovetail.kube.connection import Connection
from dovetail.kube.leaderelection.elector import LeaderElector, LeaseRef
from dovetail.kube.leaderelection.lease import LeaseLostError, LeaseTiming, NotLeaderError
from dovetail.kube.rate_limit import RateLimiter
from dovetail.ports.api_resources import CONFIG_MAPS, LEASES
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.environment import SeededRandomSource
from tests.kube.api_server import Served, connected, served, until
from tests.support.telemetry import RecordedLog

QUICK = LeaseTiming(lease_duration=2.0, renew_deadline=1.2, retry_period=0.2)
PLACE = LeaseRef("leader", "kube-system")


class Watch:
    """A clock that can be made to jump, as it does for a process that was stopped."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return asyncio.get_running_loop().time() + self.ahead


class Replica:
    """An elector, and a connection for everything else that it stands guard before."""

    def __init__(self, name: str, server: Served, connection: Connection) -> None:
        self.clock, self.log = Watch(), RecordedLog()
        self.elector = LeaderElector(
            HttpKubeClient(connection),
            PLACE,
            identity=name,
            clock=self.clock,
            loop=AsyncioEventLoop(),
            random=SeededRandomSource(len(name)),
            log=self.log,
            timing=QUICK,
        )
        self.guarded = Connection(
            server.access,
            rate_limiter=RateLimiter(clock=asyncio.get_running_loop().time),
            user_agent=name,
            fence=self.elector.fence,
        )

    async def write(self, name: str) -> None:
        await HttpKubeClient(self.guarded).create(CONFIG_MAPS, {"metadata": {"name": name}}, "default")


@asynccontextmanager
async def a_replica(name: str, server: Served) -> AsyncIterator[Replica]:
    async with connected(server.access) as connection:
        replica = Replica(name, server, connection)
        try:
            yield replica
        finally:
            await replica.guarded.close()


def with_two(work: Callable[[Served, Replica, Replica], Awaitable[None]]) -> None:
    async def run() -> None:
        async with (
            served() as server,
            a_replica("first", server) as first,
            a_replica("second", server) as second,
        ):
            await work(server, first, second)

    asyncio.run(run())


def test_a_second_replica_leads_as_soon_as_the_first_releases() -> None:
    async def work(server: Served, first: Replica, second: Replica) -> None:
        await first.elector.acquire()
        keeping = asyncio.ensure_future(first.elector.renew())
        waiting = asyncio.ensure_future(second.elector.acquire())
        await asyncio.sleep(2.5 * QUICK.lease_duration)
        stood_by = not waiting.done() and first.elector.is_leader()
        keeping.cancel()
        await first.elector.release()
        began = asyncio.get_running_loop().time()
        await waiting

        assert stood_by
        assert not first.elector.is_leader()
        assert asyncio.get_running_loop().time() - began < QUICK.lease_duration / 2
        assert second.log.entries("another replica is the leader; standing by")
        lease = server.api.get(LEASES, PLACE.name, PLACE.namespace)
        assert lease["spec"]["holderIdentity"] == "second"
        assert lease["spec"]["leaseTransitions"] == 1

    with_two(work)


def test_a_disconnected_leader_stops_writing_before_another_starts() -> None:
    async def work(server: Served, first: Replica, second: Replica) -> None:
        await first.elector.acquire()
        keeping = asyncio.ensure_future(first.elector.renew())
        waiting = asyncio.ensure_future(second.elector.acquire())
        await asyncio.sleep(0.5)
        both = False

        async def look() -> None:
            nonlocal both
            while True:
                both = both or (first.elector.is_leader() and second.elector.is_leader())
                await asyncio.sleep(0.002)

        looking = asyncio.ensure_future(look())
        await server.stop()
        lost = await asyncio.wait_for(keeping, 3 * QUICK.lease_duration)
        with pytest.raises(NotLeaderError):
            await first.write("too-late")
        await server.start()
        await asyncio.wait_for(waiting, 4 * QUICK.lease_duration)
        looking.cancel()

        assert isinstance(lost, LeaseLostError)
        assert "lost the lease kube-system/leader: it could not be renewed" in str(lost)
        assert not both

    with_two(work)


def test_a_suspended_process_writes_nothing_when_it_resumes() -> None:
    async def work(server: Served, first: Replica, _: Replica) -> None:
        await first.elector.acquire()
        await first.write("before")

        first.clock.ahead += QUICK.renew_deadline
        with pytest.raises(NotLeaderError):
            await first.write("after")
        lost = await asyncio.wait_for(first.elector.renew(), QUICK.lease_duration)

        assert server.api.get(CONFIG_MAPS, "before", "default")
        with pytest.raises(NotFound):
            server.api.get(CONFIG_MAPS, "after", "default")
        assert isinstance(lost, LeaseLostError)

    with_two(work)


def test_reads_are_not_fenced() -> None:
    async def work(_: Served, first: Replica, __: Replica) -> None:
        assert await HttpKubeClient(first.guarded).list(CONFIG_MAPS) == []

    with_two(work)


def test_a_lease_acquired_by_another_is_noticed_at_the_next_renewal() -> None:
    async def work(server: Served, first: Replica, _: Replica) -> None:
        await first.elector.acquire()
        lease = server.api.get(LEASES, PLACE.name, PLACE.namespace)
        spec = {**lease["spec"], "holderIdentity": "another"}
        server.api.update(LEASES, {**lease, "spec": spec})

        lost = await asyncio.wait_for(first.elector.renew(), QUICK.renew_deadline)

        assert "another replica acquired it" in str(lost)

    with_two(work)


def test_many_replicas_never_have_two_leaders() -> None:
    async def run() -> None:
        async with served() as server:
            leaders: list[set[str]] = []
            electors: dict[str, LeaderElector] = {}
            terms = 0

            async def live(name: str) -> None:
                nonlocal terms
                async with a_replica(name, server) as replica:
                    electors[name] = replica.elector
                    await replica.elector.acquire()
                    terms += 1
                    keeping = asyncio.ensure_future(replica.elector.renew())
                    await asyncio.sleep(0.4)
                    keeping.cancel()
                    await replica.elector.release()

            async def look() -> None:
                while True:
                    leaders.append({name for name, entry in electors.items() if entry.is_leader()})
                    await asyncio.sleep(0.002)

            looking = asyncio.ensure_future(look())
            await asyncio.gather(*(live("x" * number) for number in range(1, 6)))
            looking.cancel()

            assert terms == 5
            assert max(map(len, leaders)) == 1

    asyncio.run(run())


def test_a_failed_first_read_is_retried() -> None:
    async def work(server: Served, first: Replica, _: Replica) -> None:
        await server.stop()
        winning = asyncio.ensure_future(first.elector.acquire())
        await until(lambda: first.log.entries("cannot reach the lease"))
        await server.start()

        await asyncio.wait_for(winning, 5)

        assert first.elector.is_leader()

    with_two(work)


def test_a_deleted_lease_stops_its_leader_before_another_starts() -> None:
    async def work(server: Served, first: Replica, second: Replica) -> None:
        await first.elector.acquire()
        keeping = asyncio.ensure_future(first.elector.renew())
        waiting = asyncio.ensure_future(second.elector.acquire())
        await until(lambda: second.log.entries("another replica is the leader; standing by"))
        server.api.delete(LEASES, PLACE.name, PLACE.namespace)

        led_together = False
        while not waiting.done():
            led_together |= first.elector.is_leader() and second.elector.is_leader()
            await asyncio.sleep(0.01)

        assert not led_together
        assert "it was deleted" in str(await keeping)

    with_two(work)


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (LeaseRef("leader", "nowhere"), "there is no namespace 'nowhere' for the lease leader"),
        (LeaseRef("No Name", "kube-system"), "No Name"),
    ],
)
def test_a_lease_in_a_missing_namespace_is_an_error(place: LeaseRef, text: str) -> None:
    async def run() -> None:
        async with served() as server, connected(server.access) as connection:
            elector = LeaderElector(
                HttpKubeClient(connection),
                place,
                identity="me",
                clock=Watch(),
                loop=AsyncioEventLoop(),
                random=SeededRandomSource(1),
                log=RecordedLog(),
                timing=QUICK,
            )
            with pytest.raises(DovetailError, match=text):
                await asyncio.wait_for(elector.acquire(), 10)

    asyncio.run(run())
