"""Truth of previews: a change that is really made has the previewed outcome."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import msgspec
import pytest

from dovetail.preview.change import Change, Event, parse_deletion
from dovetail.preview.observation import Observation
from dovetail.preview.report import Preview
from dovetail.simulator.scenario.model import Action, Interrupt, NewImages, Release, ZoneOutage
from tests.preview.truth import a_pdb, a_pool, a_shop, an_app, build_real_cluster, manifests, preview_and_make
from tests.support.simulator.clusters import a_node_class

_ON_DEMAND = {
    "karpenter.sh/capacity-type": ["on-demand"],
    "karpenter.k8s.aws/instance-family": ["m5", "m6i", "c5"],
    "karpenter.k8s.aws/instance-size": ["large", "xlarge"],
}
_LARGER = {
    "karpenter.sh/capacity-type": ["spot"],
    "karpenter.k8s.aws/instance-family": ["m6i"],
    "karpenter.k8s.aws/instance-size": ["2xlarge"],
}

_EVICTIONS_MARGIN = 1
"""Pods."""
_DURATION_MARGIN = 20.0
_RETRY_SECONDS = 30.0


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A cluster, a change, and how it is made really, if otherwise."""

    objects: tuple[dict[str, Any], ...]
    change: Callable[[], Change]
    really: Callable[[], Change] | None = None
    moves: bool = True
    """False: no node is launched or terminated."""
    retried: int = 0
    """NodeClaims that are really created twice: the node class is not ready yet when it has changed."""


def files(*objects: dict[str, Any]) -> Callable[[], Change]:
    return lambda: Change(manifests=manifests(*objects))


def event(action: Action, *objects: dict[str, Any]) -> Callable[[], Change]:
    return lambda: Change(
        manifests=manifests(*objects) if objects else None, events=(Event("event", action),)
    )


def deletion(text: str) -> Callable[[], Change]:
    return lambda: Change(deletions=(parse_deletion(text),))


def a_pool_that_consolidates_empty_nodes() -> dict[str, Any]:
    pool = a_pool()
    pool["spec"]["disruption"]["consolidationPolicy"] = "WhenEmpty"
    return pool


def a_tagged_node_class() -> dict[str, Any]:
    node_class = deepcopy(a_node_class())
    node_class["spec"]["tags"] = {"team": "shop"}
    return node_class


BLOCKED = a_pdb("web", maxUnavailable=0)
CASES = {
    "new image": Case(objects=a_shop(), change=event(NewImages()), really=event(Release("AL2023"))),
    "new image that a PodDisruptionBudget blocks": Case(
        objects=a_shop(),
        change=event(NewImages(), BLOCKED),
        really=event(Release("AL2023"), BLOCKED),
        moves=False,
    ),
    "on-demand instead of spot": Case(objects=a_shop(), change=files(a_pool(requirements=_ON_DEMAND))),
    "larger instance types": Case(objects=a_shop(), change=files(a_pool(requirements=_LARGER))),
    "tags of the node class": Case(objects=a_shop(), change=files(a_tagged_node_class()), retried=2),
    "deletion of a NodePool": Case(
        objects=a_shop(a_pool("other", requirements=_ON_DEMAND), pool=a_pool(weight=10)),
        change=deletion("nodepool/default"),
    ),
    "deletion of a Deployment": Case(objects=a_shop(), change=deletion("deployment/shop/db")),
    "more replicas": Case(objects=a_shop(), change=files(an_app("web", replicas=40))),
    "fewer replicas": Case(objects=a_shop(), change=files(an_app("web", replicas=3))),
    "more replicas than the limits allow": Case(
        objects=a_shop(), change=files(a_pool(limits={"cpu": "30"}), an_app("web", replicas=40))
    ),
    "larger requests": Case(objects=a_shop(), change=files(an_app("db", replicas=5, cpu="3", memory="6Gi"))),
    "another consolidation policy": Case(
        objects=a_shop(an_app("extra", replicas=4), pool=a_pool_that_consolidates_empty_nodes()),
        change=lambda: Change(
            manifests=manifests(a_pool()), deletions=(parse_deletion("deployment/shop/extra"),)
        ),
    ),
    "interruption of half of the spot instances": Case(objects=a_shop(), change=event(Interrupt(0.5))),
    "outage of a zone": Case(objects=a_shop(), change=event(ZoneOutage("us-east-1a"))),
}


def compare(previewed: Preview, happened: Observation, *, retried: int) -> None:
    """Check the margins that docs/guides/preview.md states; all that is not named there is equal."""
    assert previewed.course.at_rest == happened.course.at_rest
    assert previewed.after.nodes == happened.after.nodes
    assert previewed.after.price_per_hour == pytest.approx(happened.after.price_per_hour, rel=1e-6)
    assert previewed.after.pods == happened.after.pods
    assert previewed.after.pods_without_node == happened.after.pods_without_node
    assert sorted(node.node for node in previewed.kept_nodes) == sorted(
        node.node for node in happened.kept_nodes
    )
    assert previewed.course.peak_nodes == happened.course.peak_nodes
    assert happened.course.launched - previewed.course.launched == retried
    assert happened.course.terminated - previewed.course.terminated == retried
    ended = happened.course.evictions + happened.course.killed
    assert abs(previewed.course.evictions + previewed.course.killed - ended) <= _EVICTIONS_MARGIN
    seconds = _DURATION_MARGIN + retried * _RETRY_SECONDS
    assert previewed.course.duration == pytest.approx(happened.course.duration, rel=0, abs=seconds)


@pytest.mark.parametrize("case", CASES.values(), ids=[name.replace(" ", "-") for name in CASES])
def test_a_change_has_the_previewed_outcome(case: Case) -> None:
    cluster = build_real_cluster(case.objects)

    previewed, happened = preview_and_make(cluster, case.change, case.really)

    assert previewed.before.nodes == happened.before.nodes
    assert previewed.before.price_per_hour == pytest.approx(happened.before.price_per_hour)
    # Else equal outcomes would prove nothing.
    assert bool(happened.course.launched or happened.course.terminated) == case.moves
    compare(previewed, happened, retried=case.retried)


@pytest.mark.parametrize("seed", [3, 11])
def test_a_fork_of_a_cluster_at_rest_stays_at_rest(seed: int) -> None:
    cluster = build_real_cluster(a_shop(), seed=seed)

    previewed, _ = preview_and_make(cluster, Change)

    assert previewed.course.launched == previewed.course.terminated == previewed.course.evictions == 0
    assert previewed.difference.price_per_hour == 0
    assert previewed.notes == ("The change is empty: all objects equal those of the cluster.",)
