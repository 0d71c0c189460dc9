"""Pods of one topology spread are nominated one after the other, all others at once."""

from dovetail.core.pod.nomination import select_nominable
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Pod, PodSpec, TopologySpreadConstraint
from dovetail.model.kube.selectors import LabelSelector

WEB = FrozenDict({"app": "web"})
OVER_ZONES = TopologySpreadConstraint("topology.kubernetes.io/zone", selector=LabelSelector(WEB))
PREFERRED = TopologySpreadConstraint(
    "topology.kubernetes.io/zone", selector=LabelSelector(WEB), required=False
)


def a_pod(name: str, *spreads: TopologySpreadConstraint, namespace: str = "default", app: str = "web") -> Pod:
    labels = FrozenDict({"app": app})
    return Pod(name=name, namespace=namespace, labels=labels, spec=PodSpec(spreads=spreads))


def names(*pods: Pod) -> str:
    return " ".join(pod.name for pod in select_nominable(pods))


def test_pods_without_spreads_are_nominated_together() -> None:
    assert names(a_pod("a"), a_pod("b"), a_pod("c")) == "a b c"


def test_of_pods_of_one_spread_only_the_first_is_nominated() -> None:
    assert names(a_pod("a", OVER_ZONES), a_pod("b", OVER_ZONES)) == "a"


def test_pod_counted_by_the_spread_of_another_is_not_nominated_with_it() -> None:
    assert names(a_pod("a", OVER_ZONES), a_pod("b")) == "a"
    assert names(a_pod("b"), a_pod("a", OVER_ZONES)) == "b"


def test_pods_that_a_spread_does_not_count_are_nominated_with_it() -> None:
    others = a_pod("b", app="other"), a_pod("c", namespace="elsewhere")

    assert names(a_pod("a", OVER_ZONES), *others) == "a b c"


def test_preferred_spread_does_not_delay_nominations() -> None:
    assert names(a_pod("a", PREFERRED), a_pod("b", PREFERRED)) == "a b"
