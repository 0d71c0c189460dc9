"""A live object, seen through what was applied last."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dovetail.infra.planning import plan
from dovetail.infra.pruning import pruned
from dovetail.infra.resources import Existing, Observed, Resource
from tests.support.clusters import ACCOUNT

APPLIED: dict[str, Any] = {
    "kind": "Deployment",
    "spec": {"replicas": 2, "containers": [{"name": "a", "image": "x:1"}]},
}
LIVE: dict[str, Any] = {
    "kind": "Deployment",
    "metadata": {"uid": "1"},
    "spec": {
        "replicas": 2,
        "strategy": {"type": "RollingUpdate"},
        "containers": [{"name": "a", "image": "x:1", "imagePullPolicy": "Always"}],
    },
    "status": {"ready": True},
}


def changes(wanted: dict[str, Any], live: dict[str, Any]) -> list[str]:
    there = Existing(kind="kubernetes-object", name="d", properties=pruned(live, APPLIED))
    one = Resource(kind="kubernetes-object", name="d", properties=wanted)
    steps = plan([one], Observed(account=ACCOUNT, resources={there.address: there})).steps
    return [str(change) for step in steps for change in step.changes]


def test_what_the_cluster_filled_in_is_no_difference() -> None:
    assert changes(APPLIED, LIVE) == []


def test_what_somebody_changed_is_changed_back() -> None:
    live = {**LIVE, "spec": {**LIVE["spec"], "replicas": 5}}

    assert changes(APPLIED, live) == ["spec.replicas: 5 → 2"]


def test_what_is_no_longer_wanted_goes() -> None:
    wanted = {"kind": "Deployment", "spec": {"containers": APPLIED["spec"]["containers"]}}

    assert changes(wanted, LIVE) == ["spec.replicas: 2 → (not set)"]


def test_what_somebody_took_away_comes_back() -> None:
    live = {**LIVE, "spec": {"containers": LIVE["spec"]["containers"]}}

    assert changes(APPLIED, live) == ["spec.replicas: (not set) → 2"]


def test_a_whole_part_that_is_no_longer_wanted_goes() -> None:
    assert changes({"kind": "Deployment"}, LIVE)[0].startswith("spec: ")


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
)


@given(JSON)
def test_an_object_seen_through_itself_is_itself(value: Any) -> None:
    assert pruned(value, value) == value


@given(JSON, JSON)
def test_looking_twice_shows_the_same(live: Any, applied: Any) -> None:
    once = pruned(live, applied)

    assert pruned(once, applied) == once
