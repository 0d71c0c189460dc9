"""Policies are found by name; what cannot be loaded is named with the reason."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dovetail.core.disruption.policy import DEFAULT_POLICY, Search
from dovetail.policies import EvictedPod, Move, Offer, RemovedNode
from dovetail.policies.load import PolicyLoadError, find_clashes, find_policy, load_plugin
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
        ("payback:price=1:price=2", "policy 'payback': option 'price' is given twice"),
        ("payback:price=abc", "policy 'payback': price=abc: expected a number"),
        ("payback:price=-5", "policy 'payback': price=-5: expected a number >= 0.0"),
        ("payback:hours=nan", "policy 'payback': hours=nan: expected a number >= 0.0"),
        ("quiet-hours:saving=x", "policy 'quiet-hours': saving=x: expected a number"),
        ("quiet-hours:start=a", "policy 'quiet-hours': start=a: expected a whole number"),
        ("quiet-hours:start=8.5", "policy 'quiet-hours': start=8.5: expected a whole number"),
        ("quiet-hours:end=25", "policy 'quiet-hours': end=25: expected a whole number <= 24"),
    ],
)
def test_wrong_name_option_or_value_is_an_error_with_the_nearest_one(text: str, message: str) -> None:
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


def test_options_of_a_struct_have_the_types_of_its_fields(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = """
import msgspec

class Plugin(msgspec.Struct):
    team: str = ""
    share: float = 0.5

    def __call__(self, offer):
        return []
"""
    install_plugin(tmp_path, monkeypatch, "typed", source)

    plugin = load_plugin("typed:team=7:share=1")

    assert (getattr(plugin, "team", None), getattr(plugin, "share", None)) == ("7", 1.0)


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
        ("Plugin = dict", "no signature found"),
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


@pytest.mark.parametrize("name", ["payback", "dovetail"])
def test_plugin_with_a_name_of_dovetail_is_named_and_never_used(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = find_policy(name)

    install_plugin(tmp_path, monkeypatch, name, "class Plugin: pass")

    assert find_policy(name) == before
    assert find_policy("dovetail") is DEFAULT_POLICY
    assert find_clashes() == (
        f"policy {name!r} is that of Dovetail; rename plugin_{name}:Plugin in its package",
    )


def test_name_of_two_packages_is_an_error_for_that_name_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for attribute in ("First", "Second"):
        folder = tmp_path / attribute
        folder.mkdir()
        install_plugin(folder, monkeypatch, "saver", "class Plugin: pass", attribute=attribute)
        (folder / "plugin_saver-1.0.dist-info").rename(folder / f"{attribute}-1.0.dist-info")
        (folder / f"{attribute}-1.0.dist-info" / "METADATA").write_text(f"Name: {attribute}\nVersion: 1.0\n")

    assert find_policy("dovetail") is DEFAULT_POLICY
    with pytest.raises(PolicyLoadError) as caught:
        find_policy("saver")
    assert find_clashes() == (str(caught.value),)
    assert str(caught.value) == (
        "policy 'saver' is ambiguous: plugin_saver:First and plugin_saver:Second have this name; "
        "remove one of their packages"
    )


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
