"""Cluster info, and how an upgrade is noticed."""

from datetime import UTC, datetime, timedelta
from typing import Any, cast

from dovetail.aws.cluster_info import ClusterInfoResolver
from dovetail.aws.session import AwsSession
from dovetail.aws.userdata.bootstrap import ClusterInfo
from dovetail.errors import DovetailError
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.event_loop import VirtualEventLoop
from tests.support.telemetry import RecordedLog

NO_SESSION = cast(AwsSession, None)
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


def followed(*answers: Any, after: timedelta) -> tuple[str, RecordedLog]:
    clock = VirtualClock(start=datetime(2026, 1, 1, tzinfo=UTC))
    loop, log = VirtualEventLoop(clock), RecordedLog()
    facts = ClusterInfoResolver(NO_SESSION, ClusterInfo(name="demo", version="1.33"))
    loop.spawn(facts.watch_version(Upgrades(*answers).version, loop=loop, log=log))
    clock.run(until=clock.now() + after)
    return facts.info.version, log


def test_a_cluster_upgrade_is_noticed_within_five_minutes() -> None:
    version, log = followed("1.34", after=timedelta(minutes=5, seconds=1))

    assert version == "1.34"
    assert log.entries("discovered kubernetes version") == [{"version": "1.34"}]


def test_an_unchanged_version_is_not_logged() -> None:
    version, log = followed("1.33", after=timedelta(hours=1))

    assert version == "1.33"
    assert log.lines == []


def test_an_unavailable_api_server_is_retried() -> None:
    version, log = followed(DovetailError("no answer"), "1.34", after=timedelta(minutes=11))

    assert version == "1.34"
    assert len(log.entries("cannot read the kubernetes version")) == 1
