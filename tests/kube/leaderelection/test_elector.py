"""Replicas on one API server: one leads, and who may have lost the lease writes nothing."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from dovetail.errors import DovetailError
from dovetail.host.event_loop import AsyncioLoop
from dovetail.kube.client import HttpKube
from dovetail.kube.connection import Connection
from dovetail.kube.leaderelection.elector import Elector, Place
from dovetail.kube.leaderelection.lease import LeaseLost, NotLeading, Timing
from dovetail.kube.rate_limit import RateLimit
from dovetail.ports.api_resources import CONFIG_MAPS, LEASES
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.randomness import SeededChance
from tests.kube.serving import Served, connected, served, until
from tests.support.telling import KeptLog

QUICK = Timing(duration=2.0, renew_deadline=1.2, retry=0.2)
PLACE = Place("leader", "kube-system")


class Watch:
    """A clock that can be made to jump, as it does for a process that was stopped."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return asyncio.get_running_loop().time() + self.ahead


class Replica:
    """An elector, and a connection for everything else that it stands guard before."""

    def __init__(self, name: str, server: Served, connection: Connection) -> None:
        self.clock, self.log = Watch(), KeptLog()
        self.elector = Elector(
            HttpKube(connection),
            PLACE,
            me=name,
            clock=self.clock,
            loop=AsyncioLoop(),
            chance=SeededChance(len(name)),
            log=self.log,
            timing=QUICK,
        )
        self.guarded = Connection(
            server.access,
            limit=RateLimit(clock=asyncio.get_running_loop().time),
            agent=name,
            guard=self.elector.guard,
        )

    async def write(self, name: str) -> None:
        await HttpKube(self.guarded).create(CONFIG_MAPS, {"metadata": {"name": name}}, "default")


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
            a_replica("one", server) as one,
            a_replica("two-two", server) as two,
        ):
            await work(server, one, two)

    asyncio.run(run())


def test_a_second_replica_stands_by_until_the_first_gives_up_and_then_leads_at_once() -> None:
    async def work(server: Served, one: Replica, two: Replica) -> None:
        await one.elector.win()
        keeping = asyncio.ensure_future(one.elector.keep())
        waiting = asyncio.ensure_future(two.elector.win())
        await asyncio.sleep(2.5 * QUICK.duration)
        stood_by = not waiting.done() and one.elector.leads()
        keeping.cancel()
        await one.elector.give_up()
        began = asyncio.get_running_loop().time()
        await waiting

        assert stood_by
        assert not one.elector.leads()
        assert asyncio.get_running_loop().time() - began < QUICK.duration / 2
        assert two.log.said("another replica leads; standing by")
        lease = server.api.get(LEASES, PLACE.name, PLACE.namespace)
        assert lease["spec"]["holderIdentity"] == "two-two"
        assert lease["spec"]["leaseTransitions"] == 1

    with_two(work)


def test_a_leader_that_is_cut_off_stops_writing_before_another_begins() -> None:
    async def work(server: Served, one: Replica, two: Replica) -> None:
        await one.elector.win()
        keeping = asyncio.ensure_future(one.elector.keep())
        waiting = asyncio.ensure_future(two.elector.win())
        await asyncio.sleep(0.5)
        both = False

        async def look() -> None:
            nonlocal both
            while True:
                both = both or (one.elector.leads() and two.elector.leads())
                await asyncio.sleep(0.002)

        looking = asyncio.ensure_future(look())
        await server.stop()
        lost = await asyncio.wait_for(keeping, 3 * QUICK.duration)
        with pytest.raises(NotLeading):
            await one.write("too-late")
        await server.start()
        await asyncio.wait_for(waiting, 4 * QUICK.duration)
        looking.cancel()

        assert isinstance(lost, LeaseLost)
        assert "lost the lease kube-system/leader: it could not be renewed" in str(lost)
        assert not both

    with_two(work)


def test_a_process_that_was_stopped_for_long_writes_nothing_when_it_wakes_up() -> None:
    async def work(server: Served, one: Replica, _: Replica) -> None:
        await one.elector.win()
        await one.write("before")

        one.clock.ahead += QUICK.renew_deadline
        with pytest.raises(NotLeading):
            await one.write("after")
        lost = await asyncio.wait_for(one.elector.keep(), QUICK.duration)

        assert server.api.get(CONFIG_MAPS, "before", "default")
        with pytest.raises(NotFound):
            server.api.get(CONFIG_MAPS, "after", "default")
        assert isinstance(lost, LeaseLost)

    with_two(work)


def test_reading_is_allowed_to_everybody() -> None:
    async def work(_: Served, one: Replica, __: Replica) -> None:
        assert await HttpKube(one.guarded).list(CONFIG_MAPS) == []

    with_two(work)


def test_a_lease_that_somebody_else_has_taken_is_noticed_at_the_next_renewal() -> None:
    async def work(server: Served, one: Replica, _: Replica) -> None:
        await one.elector.win()
        lease = server.api.get(LEASES, PLACE.name, PLACE.namespace)
        spec = {**lease["spec"], "holderIdentity": "somebody"}
        server.api.update(LEASES, {**lease, "spec": spec})

        lost = await asyncio.wait_for(one.elector.keep(), QUICK.renew_deadline)

        assert "somebody else has taken it" in str(lost)

    with_two(work)


def test_many_replicas_that_come_and_go_are_never_two_leaders() -> None:
    async def run() -> None:
        async with served() as server:
            leaders: list[set[str]] = []
            electors: dict[str, Elector] = {}
            terms = 0

            async def live(name: str) -> None:
                nonlocal terms
                async with a_replica(name, server) as replica:
                    electors[name] = replica.elector
                    await replica.elector.win()
                    terms += 1
                    keeping = asyncio.ensure_future(replica.elector.keep())
                    await asyncio.sleep(0.4)
                    keeping.cancel()
                    await replica.elector.give_up()

            async def look() -> None:
                while True:
                    leaders.append({name for name, one in electors.items() if one.leads()})
                    await asyncio.sleep(0.002)

            looking = asyncio.ensure_future(look())
            await asyncio.gather(*(live("x" * number) for number in range(1, 6)))
            looking.cancel()

            assert terms == 5
            assert max(map(len, leaders)) == 1

    asyncio.run(run())


def test_a_failed_first_look_is_tried_again() -> None:
    async def work(server: Served, one: Replica, _: Replica) -> None:
        await server.stop()
        winning = asyncio.ensure_future(one.elector.win())
        await until(lambda: one.log.said("cannot reach the lease"))
        await server.start()

        await asyncio.wait_for(winning, 5)

        assert one.elector.leads()

    with_two(work)


def test_a_lease_that_is_deleted_by_hand_ends_its_leader_before_another_leads() -> None:
    async def work(server: Served, one: Replica, two: Replica) -> None:
        await one.elector.win()
        keeping = asyncio.ensure_future(one.elector.keep())
        waiting = asyncio.ensure_future(two.elector.win())
        await until(lambda: two.log.said("another replica leads; standing by"))
        server.api.delete(LEASES, PLACE.name, PLACE.namespace)

        led_together = False
        while not waiting.done():
            led_together |= one.elector.leads() and two.elector.leads()
            await asyncio.sleep(0.01)

        assert not led_together
        assert "somebody has deleted it" in str(await keeping)

    with_two(work)


@pytest.mark.parametrize(
    ("place", "told"),
    [
        (Place("leader", "nowhere"), "there is no namespace 'nowhere' for the lease leader"),
        (Place("No Name", "kube-system"), "No Name"),
    ],
)
def test_a_lease_that_there_cannot_be_is_said_and_not_waited_for(place: Place, told: str) -> None:
    async def run() -> None:
        async with served() as server, connected(server.access) as connection:
            elector = Elector(
                HttpKube(connection),
                place,
                me="me",
                clock=Watch(),
                loop=AsyncioLoop(),
                chance=SeededChance(1),
                log=KeptLog(),
                timing=QUICK,
            )
            with pytest.raises(DovetailError, match=told):
                await asyncio.wait_for(elector.win(), 10)

    asyncio.run(run())
