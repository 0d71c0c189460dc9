"""Policies are found by name; what cannot be loaded is named with the reason."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dovetail.core.disruption.policy import DEFAULT_POLICY, Search
from dovetail.policies import EvictedPod, Move, Offer, RemovedNode
from dovetail.policies.load import PolicyLoadError, find_policy, load_plugin
from tests.support.plugins import install_plugin

NOON = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)


def a_move(number: int, *, saving: float, pods: int = 2, age: timedelta | None = None) -> Move:
    evicted = tuple(EvictedPod(namespace="shop", name=f"web-{pod}") for pod in range(pods))
    node = RemovedNode(name=f"node-{number}", nodepool="default", age=age, pods=evicted)
    return Move(number=number, nodes=(node,), saving=saving, disruption_cost=1.0 + pods)


def an_offer(*moves: Move, now: datetime = NOON) -> Offer:
    return Offer(now=now, moves=moves)


def test_built_in_names_need_no_plugin() -> None:
    assert find_policy("dovetail") is DEFAULT_POLICY
    karpenter = find_policy("karpenter")
    assert getattr(karpenter, "search", None) is Search.KARPENTER


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "paybak",
            "policy 'paybak' is not installed; did you mean 'payback'? "
            "Installed: dovetail, karpenter, payback, quiet-hours",
        ),
        ("xyzzy", "policy 'xyzzy' is not installed. Installed: dovetail, karpenter, payback, quiet-hours"),
        ("karpenter:k=2", "policy 'karpenter' takes no options"),
        ("payback:prize=1", "policy 'payback' has no option 'prize'; did you mean 'price'?"),
        ("payback:price", "policy 'payback': 'price' is not OPTION=VALUE"),
        (
            "quiet-hours:start=25",
            "policy 'quiet-hours:start=25': ValueError: start and end are hours from 0 to 24",
        ),
    ],
)
def test_wrong_name_or_option_is_an_error_with_the_nearest_one(text: str, message: str) -> None:
    with pytest.raises(PolicyLoadError) as caught:
        load_plugin(text)

    assert str(caught.value) == message


def test_installed_plugin_is_found_with_its_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = """
class Plugin:
    def __init__(self, limit=3, zone=""):
        self.limit, self.zone = limit, zone

    def __call__(self, offer):
        return offer.moves[: self.limit]
"""
    install_plugin(tmp_path, monkeypatch, "first-n", source)

    plugin = load_plugin("first-n:limit=1:zone=us-east-1a")

    offer = an_offer(a_move(0, saving=1.0), a_move(1, saving=1.0))
    assert plugin(offer) == offer.moves[:1]
    assert vars(plugin) == {"limit": 1, "zone": "us-east-1a"}


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "import no_such_module",
            "cannot be imported: ModuleNotFoundError: No module named 'no_such_module'",
        ),
        ("x = 1", "cannot be imported: AttributeError"),
        ("def Plugin(offer): return []", "is not a class"),
        ("class Plugin: pass", "cannot be called"),
    ],
)
def test_plugin_that_cannot_be_used_is_an_error_with_its_place(
    source: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"broken-{abs(hash(source)) % 10_000}"
    install_plugin(tmp_path, monkeypatch, name, source)

    with pytest.raises(PolicyLoadError) as caught:
        load_plugin(name)

    assert f"policy {name!r}" in str(caught.value)
    assert message in str(caught.value)


def test_plugin_with_a_shipped_name_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_plugin(tmp_path, monkeypatch, "payback", "class Plugin: pass")

    with pytest.raises(PolicyLoadError, match="plugin_payback:Plugin has the name of dovetail"):
        find_policy("dovetail")


# --- Shipped examples --------------------------------------------------------------------------


def test_payback_takes_a_move_once_its_node_is_old_enough_for_the_price() -> None:
    payback = load_plugin("payback:price=0.05")
    young = a_move(0, saving=0.1, age=timedelta(minutes=30))
    old = a_move(1, saving=0.1, age=timedelta(hours=2))
    unknown = a_move(2, saving=0.1)

    assert list(payback(an_offer(young, old, unknown))) == [old, unknown]


def test_quiet_hours_stop_consolidation_also_across_midnight() -> None:
    by_day = load_plugin("quiet-hours:start=8:end=18")
    by_night = load_plugin("quiet-hours:start=22:end=6")
    move = a_move(0, saving=0.1)
    taken = {
        hour: (
            list(by_day(an_offer(move, now=NOON.replace(hour=hour)))),
            list(by_night(an_offer(move, now=NOON.replace(hour=hour)))),
        )
        for hour in (5, 8, 18, 22)
    }

    assert taken == {5: ([move], []), 8: ([], [move]), 18: ([move], [move]), 22: ([move], [])}


def test_quiet_hours_ask_for_a_minimum_saving_per_eviction() -> None:
    policy = load_plugin("quiet-hours:start=0:end=0:saving=0.01")
    enough, little = a_move(0, saving=0.02), a_move(1, saving=0.019)

    assert list(policy(an_offer(enough, little))) == [enough]
