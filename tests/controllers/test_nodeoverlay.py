"""NodeOverlays as users write them, and what becomes of them."""

from typing import Any

from dovetail.model.settings import Gates
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_OVERLAYS, NODES
from dovetail.simulator.apiserver.storage.frozen_object import thaw
from dovetail.simulator.cluster import Box
from tests.support.boxes import a_box, a_node_class, a_pool, a_story, an_app, wait

ON = Gates(NodeOverlay=True)
FUSE = "example.com/fuse"


def an_overlay(name: str, *, wanted: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    requirements = [
        {"key": key, "operator": "In", "values": [value]} for key, value in (wanted or {}).items()
    ]
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": name},
        "spec": {"requirements": requirements, **spec},
    }


def a_cluster(*more: dict[str, Any], app: dict[str, Any] | None = None, gates: Gates = ON) -> Box:
    """A pool that may buy either of two types, and one pod that waits."""
    pool = a_pool(capacity_type="on-demand")
    types = pool["spec"]["template"]["spec"]["requirements"][1]
    types["values"] = ["m5.large", "t3.small"]
    web = app or an_app(replicas=1)
    box = a_box(a_story(objects=(a_node_class(), pool, *more, web), home=0), gates=gates)
    wait(box, 60)
    return box


def verdict(box: Box, name: str) -> tuple[str, str]:
    (found,) = [
        one
        for one in box.api.get(NODE_OVERLAYS, name)["status"]["conditions"]
        if one["type"] == "ValidationSucceeded"
    ]
    return found["status"], found.get("reason", "")


def bought(box: Box) -> list[str]:
    return sorted(
        one["metadata"]["labels"]["node.kubernetes.io/instance-type"]
        for one in box.api.list(NODES).items
        if "karpenter.sh/nodepool" in one["metadata"]["labels"]
    )


def small_app() -> dict[str, Any]:
    app = an_app(replicas=1)
    (container,) = app["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    return app


def test_what_a_user_says_a_type_costs_decides_what_is_bought() -> None:
    usual = a_cluster(app=small_app())
    dear = an_overlay("dear", wanted={"node.kubernetes.io/instance-type": "t3.small"}, price="9.5")

    told = a_cluster(dear, app=small_app())

    assert bought(usual) == ["t3.small"]
    assert bought(told) == ["m5.large"]
    assert verdict(told, "dear") == ("True", "ValidationSucceeded")
    (claim,) = told.api.list(NODE_CLAIMS).items
    assert claim["metadata"]["annotations"]["karpenter.sh/price-overlay-applied"] == "true"
    assert told.invariants.violations == []


def test_a_resource_that_only_the_user_knows_of_can_be_asked_for() -> None:
    fuse = an_overlay("fuse", capacity={FUSE: "4"})
    app = small_app()
    (container,) = app["spec"]["template"]["spec"]["containers"]
    container["resources"]["requests"][FUSE] = "1"
    container["resources"]["limits"] = {FUSE: "1"}

    box = a_cluster(fuse, app=app)

    (claim,) = box.api.list(NODE_CLAIMS).items
    assert thaw(claim["spec"]["resources"]["requests"])[FUSE] == "1"
    assert claim["metadata"]["annotations"]["karpenter.sh/capacity-overlay-applied"] == "true"
    assert len(bought(box)) == 1


def test_of_two_that_contradict_each_other_one_is_told_so() -> None:
    box = a_cluster(an_overlay("a", price="1"), an_overlay("b", price="2"))

    assert verdict(box, "a") == ("False", "Conflict")
    assert verdict(box, "b")[0] == "True"


def test_one_that_is_taken_away_no_longer_counts_and_its_rival_holds() -> None:
    box = a_cluster(an_overlay("a", price="1"), an_overlay("b", price="2"))

    box.api.delete(NODE_OVERLAYS, "b")
    wait(box, 1)

    assert verdict(box, "a")[0] == "True"


def test_nothing_is_written_when_nothing_changes() -> None:
    box = a_cluster(an_overlay("a", price="1"))
    before = box.api.get(NODE_OVERLAYS, "a")["metadata"]["resourceVersion"]

    wait(box, 13 * 3600)

    assert box.api.get(NODE_OVERLAYS, "a")["metadata"]["resourceVersion"] == before


def test_it_is_off_unless_switched_on() -> None:
    dear = an_overlay("dear", wanted={"node.kubernetes.io/instance-type": "t3.small"}, price="9.5")

    box = a_cluster(dear, app=small_app(), gates=Gates())

    assert bought(box) == ["t3.small"]
    assert "status" not in box.api.get(NODE_OVERLAYS, "dear")
