"""Writes of the savings ledger that meet other writers, or fail."""

import pytest

from dovetail.codec.savings_ledger import decode_ledger
from dovetail.controllers.disruption.savings import SavingsRecorder
from dovetail.model.savings import LEDGER_CONFIG_MAP, LEDGER_KEY, SavingsLedger, SavingsRecord
from dovetail.ports.api_resources import CONFIG_MAPS
from dovetail.ports.kube_errors import Conflict, Timeout
from tests.support.controllers.environment import ControllerEnvironment
from tests.support.simulator.api_server import START

NAMESPACE = "kube-system"
NOT_SAVED = "the savings ledger is not saved"


class Recorder:
    """A recorder that has read an empty ledger, and has a record to write."""

    def __init__(self) -> None:
        self.env = ControllerEnvironment()
        self.env.add(CONFIG_MAPS, {"metadata": {"name": LEDGER_CONFIG_MAP}}, NAMESPACE)
        context = self.env.context()
        self.book = context.savings
        self._recorder = SavingsRecorder(context)
        self.env.loop.spawn(self._recorder.load())
        self.book.update(
            SavingsLedger(records=(SavingsRecord(id="first", at=START, reason="Empty", removed=()),))
        )

    def save(self) -> None:
        self.env.loop.spawn(self._recorder.save())
        self.env.wait(0)

    def saved(self) -> list[str]:
        """Return the records in the ConfigMap."""
        config_map = self.env.get(CONFIG_MAPS, LEDGER_CONFIG_MAP, NAMESPACE)
        return [record.id for record in decode_ledger(config_map).records]


@pytest.fixture
def recorder() -> Recorder:
    return Recorder()


def test_ledger_is_written_over_the_edit_of_a_user(recorder: Recorder) -> None:
    edit = {"metadata": {"annotations": {"note": "mine"}}, "data": {LEDGER_KEY: "{}"}}
    recorder.env.patch(CONFIG_MAPS, LEDGER_CONFIG_MAP, edit, NAMESPACE)

    recorder.save()

    assert recorder.saved() == ["first"]
    config_map = recorder.env.get(CONFIG_MAPS, LEDGER_CONFIG_MAP, NAMESPACE)
    assert config_map["metadata"]["annotations"] == {"note": "mine"}
    assert not recorder.book.is_dirty


def test_ledger_that_meets_conflicts_again_and_again_stays_to_be_saved(recorder: Recorder) -> None:
    recorder.env.failing_client.fail("patch", CONFIG_MAPS, *[Conflict("changed")] * 3)

    recorder.save()
    assert recorder.saved() == []
    assert recorder.book.is_dirty

    recorder.save()
    assert recorder.saved() == ["first"]


def test_failed_write_is_reported_once_and_the_next_one_saves_all(recorder: Recorder) -> None:
    recorder.env.failing_client.fail("patch", CONFIG_MAPS, Timeout("no answer"), Timeout("no answer"))

    recorder.save()
    recorder.save()
    assert recorder.saved() == []
    assert [line["error"] for line in recorder.env.log.entries(NOT_SAVED)] == ["no answer"]

    recorder.save()
    assert recorder.saved() == ["first"]
    assert recorder.book.problem == ""
