"""What is known of the cluster, and how an upgrade of it is noticed."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

from dovetail.aws.cluster_info import ClusterFacts
from dovetail.aws.session import Aws
from dovetail.aws.userdata.bootstrap import Cluster
from dovetail.errors import DovetailError
from dovetail.simulator.clock import Engine
from dovetail.simulator.event_loop import VirtualLoop
from tests.support.telling import KeptLog

NOBODY = cast(Aws, None)
"""AWS is not asked here."""


class Upgrades:
    """An API server that answers with one version after the other."""

    def __init__(self, *answers: str | Exception) -> None:
        self._answers = list(answers)

    async def version(self) -> str:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def followed(*answers: Any, after: timedelta) -> tuple[str, KeptLog]:
    engine = Engine(start=datetime(2026, 1, 1, tzinfo=UTC))
    loop, log = VirtualLoop(engine), KeptLog()
    facts = ClusterFacts(NOBODY, Cluster(name="demo", version="1.33"))
    loop.spawn(facts.follow_version(Upgrades(*answers).version, loop=loop, log=log))
    engine.run(until=engine.now() + after)
    return facts.cluster.version, log


def test_an_upgrade_of_the_cluster_is_noticed_within_five_minutes() -> None:
    version, log = followed("1.34", after=timedelta(minutes=5, seconds=1))

    assert version == "1.34"
    assert log.said("discovered kubernetes version") == [{"version": "1.34"}]


def test_a_cluster_that_stays_as_it_is_is_not_told_of() -> None:
    version, log = followed("1.33", after=timedelta(hours=1))

    assert version == "1.33"
    assert log.lines == []


def test_an_api_server_that_does_not_answer_is_asked_again() -> None:
    version, log = followed(DovetailError("no answer"), "1.34", after=timedelta(minutes=11))

    assert version == "1.34"
    assert len(log.said("cannot look up the kubernetes version now")) == 1
