"""Pods of one spread are named to kube-scheduler one after the other, all others at once."""

from dovetail.core.pod.nomination import nominable
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Pod, PodSpec, Spread
from dovetail.model.kube.selectors import LabelSelector

WEB = FrozenDict({"app": "web"})
OVER_ZONES = Spread("topology.kubernetes.io/zone", selector=LabelSelector(WEB))
WISH = Spread("topology.kubernetes.io/zone", selector=LabelSelector(WEB), required=False)


def a_pod(name: str, *spreads: Spread, namespace: str = "default", app: str = "web") -> Pod:
    labels = FrozenDict({"app": app})
    return Pod(name=name, namespace=namespace, labels=labels, spec=PodSpec(spreads=spreads))


def names(*pods: Pod) -> str:
    return " ".join(pod.name for pod in nominable(pods))


def test_pods_without_spreads_are_named_together() -> None:
    assert names(a_pod("a"), a_pod("b"), a_pod("c")) == "a b c"


def test_of_pods_of_one_spread_the_first_is_named() -> None:
    assert names(a_pod("a", OVER_ZONES), a_pod("b", OVER_ZONES)) == "a"


def test_a_pod_that_another_one_s_spread_counts_waits_for_it() -> None:
    assert names(a_pod("a", OVER_ZONES), a_pod("b")) == "a"
    assert names(a_pod("b"), a_pod("a", OVER_ZONES)) == "b"


def test_pods_that_a_spread_does_not_count_are_named_beside_it() -> None:
    others = a_pod("b", app="other"), a_pod("c", namespace="elsewhere")

    assert names(a_pod("a", OVER_ZONES), *others) == "a b c"


def test_a_spread_that_is_only_a_wish_holds_nobody_back() -> None:
    assert names(a_pod("a", WISH), a_pod("b", WISH)) == "a b"
