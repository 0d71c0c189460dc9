"""kube-scheduler binds every pod that the solver has placed, and every node is used."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.cluster import wait_for
from tests.live.mixture import STORAGE_CLASS, Mixture, pools
from tests.live.plane import ControlPlane
from tests.live.replicas import Site, a_site

DEPLOYMENTS = 500
SEED = 5
LONG = 900.0
"""Seconds; an idle machine needs a quarter of it."""
BEYOND = 1.1
"""So many times what was planned may be bought: kube-scheduler comes before slow nodes."""


@pytest.fixture
def site(control_plane: ControlPlane, tmp_path: Path) -> Iterator[Site]:
    with a_site(control_plane, tmp_path) as made:
        yield made


def the_pods(site: Site) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = site.cluster.read("pods", "-n", "default")
    return found


def waiting(site: Site) -> list[str]:
    """Return the pods that no node has, with what kube-scheduler says of them."""
    return [
        f"{pod['metadata']['name']}: {condition.get('message', '')}"
        for pod in the_pods(site)
        if not pod["spec"].get("nodeName")
        for condition in pod["status"].get("conditions") or [{}]
    ]


def nodes(site: Site) -> set[str]:
    return {one["metadata"]["name"] for one in site.nodes()}


def used(site: Site) -> set[str]:
    return {one["spec"]["nodeName"] for one in the_pods(site) if one["spec"].get("nodeName")}


@pytest.mark.slow
def test_five_hundred_deployments_of_mixed_rules_are_bound_and_no_node_is_left_unused(
    site: Site,
) -> None:
    wanted = Mixture(SEED).draw(DEPLOYMENTS)
    count = sum(one["spec"].get("replicas", 0) for one in wanted)
    site.cluster.apply(STORAGE_CLASS, *pools())
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": wanted})
    site.cluster.kubectl("create", "--validate=false", "-f", "-", stdin=text)
    wait_for("all pods wait for nodes", lambda: len(waiting(site)) == count, seconds=LONG)

    # One replica, so that it need not be quick about a lease on a busy machine.
    replica = site.replica("--disable-leader-election")
    try:
        wait_for("all pods are bound", lambda: not waiting(site), seconds=LONG)
    except AssertionError as error:
        error.add_note("\n".join(waiting(site)[:20]))
        raise

    (planned, *_) = replica.fields("computed new nodeclaim(s) to fit pod(s)")
    assert planned["pods"] == count
    assert len(site.purchases()) <= BEYOND * planned["nodeclaims"]
    site.cluster.apply(*pools(settle="2s"))
    wait_for("every node is used", lambda: nodes(site) == used(site), seconds=LONG)

    assert not waiting(site)
    assert len(site.nodes()) == len(site.claims()) == len(site.held())
