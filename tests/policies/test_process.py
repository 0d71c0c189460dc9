"""A plug-in runs in a process of its own: it can neither block nor end the controller."""

import os
from contextlib import suppress
from pathlib import Path
from time import monotonic

import pytest
from msgspec.structs import replace

from dovetail.core.disruption.policy import Choose, Offer, Policy, PolicyError
from dovetail.policies.load import PolicyLoadError
from dovetail.policies.process import open_policy
from tests.policies.test_load import a_move, an_offer
from tests.support.plugins import install_plugin

PLUGIN = """
import os, sys

class Plugin:
    def __call__(self, offer):
        name = offer.moves[0].nodes[0].nodepool
        if name == "hang":
            while True:
                pass
        if name == "exit":
            os._exit(3)
        if name == "sys.exit":
            sys.exit("no licence")
        if name == "raise":
            raise RuntimeError("no idea")
        if name == "endless":
            return iter(int, 1)
        if name == "allocate":
            self.taken = bytearray(900_000_000)
        if name == "print":
            print("chatty", flush=True)
            os.write(1, b"more")
        if name == "pid":
            print(os.getpid(), file=open(os.environ["PLUGIN_PID_FILE"], "w"))
        return reversed(offer.moves)
"""


def choose_of(policy: Policy) -> Choose:
    assert policy.choose is not None
    return policy.choose


def offer_for(behaviour: str) -> Offer:
    first, second = a_move(0, saving=0.1), a_move(1, saving=0.2)
    return an_offer(replace(first, nodes=(replace(first.nodes[0], nodepool=behaviour),)), second)


def test_plugin_that_hangs_exits_or_raises_is_an_error_and_works_again_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_plugin(tmp_path, monkeypatch, "moody", PLUGIN)
    errors = {}

    with open_policy("moody", answer_timeout=5.0) as policy:
        choose = choose_of(policy)
        before = choose(offer_for("print"))
        for behaviour in ("raise", "endless", "exit", "sys.exit", "allocate"):
            with pytest.raises(PolicyError) as caught:
                choose(offer_for(behaviour))
            errors[behaviour] = str(caught.value)
        after = choose(offer_for("fine"))

    assert before == after == (1, 0)
    assert errors == {
        "raise": "it raised RuntimeError: no idea",
        "endless": "it returned 0, which is not an offered move",
        "exit": "its process ended with exit code 3",
        "sys.exit": "it called sys.exit('no licence')",
        "allocate": "it raised MemoryError",
    }


def test_plugin_that_hangs_is_killed_after_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_plugin(tmp_path, monkeypatch, "hanging", PLUGIN)
    pid_file = tmp_path / "pid"
    monkeypatch.setenv("PLUGIN_PID_FILE", str(pid_file))

    with open_policy("hanging", answer_timeout=1.0) as policy:
        choose_of(policy)(offer_for("pid"))
        pid = int(pid_file.read_text())
        with pytest.raises(PolicyError, match="it did not answer in time"):
            choose_of(policy)(offer_for("hang"))

        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_plugin_that_loads_slowly_after_a_failure_delays_no_offer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker, gate = tmp_path / "marker", tmp_path / "gate"
    source = f"""
import os, threading
from pathlib import Path

class Plugin:
    def __init__(self):
        while Path({str(marker)!r}).exists() and not Path({str(gate)!r}).exists():
            threading.Event().wait(0.01)
        Path({str(marker)!r}).touch()

    def __call__(self, offer):
        if offer.moves[0].nodes[0].nodepool == "exit":
            os._exit(3)
        return offer.moves
"""
    install_plugin(tmp_path, monkeypatch, "flaky", source)

    with open_policy("flaky", answer_timeout=1.0) as policy:
        choose = choose_of(policy)
        with pytest.raises(PolicyError, match="exit code 3"):
            choose(offer_for("exit"))
        before = monotonic()
        with pytest.raises(PolicyError, match="started again and is still loading"):
            choose(offer_for("fine"))
        waited = monotonic() - before
        gate.touch()
        answer = choose_when_loaded(choose)

    assert waited < 2.0
    assert answer == (0, 1)


def choose_when_loaded(choose: Choose) -> tuple[int, ...]:
    for _ in range(30):
        with suppress(PolicyError):
            return choose(offer_for("fine"))
    raise AssertionError("the plug-in was not loaded again")


def test_plugin_that_exits_while_it_is_imported_is_an_error_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_plugin(tmp_path, monkeypatch, "quitter", "raise SystemExit(4)")

    with (
        pytest.raises(PolicyLoadError, match=r"policy 'quitter': it called sys\.exit\(4\)"),
        open_policy("quitter"),
    ):
        pass


def test_plugin_that_cannot_be_imported_is_an_error_at_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_plugin(tmp_path, monkeypatch, "unimportable", "import no_such_module")

    with (
        pytest.raises(PolicyLoadError, match="No module named 'no_such_module'"),
        open_policy("unimportable"),
    ):
        pass
