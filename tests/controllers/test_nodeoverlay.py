"""NodeOverlays change prices and capacity of instance types, or are rejected."""

from typing import Any

from dovetail.model.settings import FeatureGates
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_OVERLAYS, NODES
from dovetail.simulator.apiserver.storage.frozen_object import thaw
from dovetail.simulator.cluster import SimulatedCluster
from tests.support.simulator.clusters import a_node_class, a_pool, an_app, build_cluster, build_scenario, wait

ON = FeatureGates(NodeOverlay=True)
FUSE = "example.com/fuse"


def an_overlay(name: str, *, labels: dict[str, str] | None = None, **spec: Any) -> dict[str, Any]:
    requirements = [
        {"key": key, "operator": "In", "values": [value]} for key, value in (labels or {}).items()
    ]
    return {
        "apiVersion": "karpenter.sh/v1alpha1",
        "kind": "NodeOverlay",
        "metadata": {"name": name},
        "spec": {"requirements": requirements, **spec},
    }


def a_cluster(
    *more: dict[str, Any], app: dict[str, Any] | None = None, gates: FeatureGates = ON
) -> SimulatedCluster:
    """Return a cluster with a NodePool of two instance types and one pending pod."""
    pool = a_pool(capacity_type="on-demand")
    types = pool["spec"]["template"]["spec"]["requirements"][1]
    types["values"] = ["m5.large", "t3.small"]
    web = app or an_app(replicas=1)
    cluster = build_cluster(
        build_scenario(objects=(a_node_class(), pool, *more, web), node_group=0), gates=gates
    )
    wait(cluster, 60)
    return cluster


def get_validation(cluster: SimulatedCluster, name: str) -> tuple[str, str]:
    (condition,) = [
        condition
        for condition in cluster.api.get(NODE_OVERLAYS, name)["status"]["conditions"]
        if condition["type"] == "ValidationSucceeded"
    ]
    return condition["status"], condition.get("reason", "")


def get_instance_types(cluster: SimulatedCluster) -> list[str]:
    return sorted(
        node["metadata"]["labels"]["node.kubernetes.io/instance-type"]
        for node in cluster.api.list(NODES).items
        if "karpenter.sh/nodepool" in node["metadata"]["labels"]
    )


def small_app() -> dict[str, Any]:
    app = an_app(replicas=1)
    (container,) = app["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    return app


def test_price_of_an_overlay_decides_which_instance_type_is_launched() -> None:
    default = a_cluster(app=small_app())
    expensive = an_overlay("expensive", labels={"node.kubernetes.io/instance-type": "t3.small"}, price="9.5")

    adjusted = a_cluster(expensive, app=small_app())

    assert get_instance_types(default) == ["t3.small"]
    assert get_instance_types(adjusted) == ["m5.large"]
    assert get_validation(adjusted, "expensive") == ("True", "ValidationSucceeded")
    (claim,) = adjusted.api.list(NODE_CLAIMS).items
    assert claim["metadata"]["annotations"]["karpenter.sh/price-overlay-applied"] == "true"
    assert adjusted.invariants.violations == []


def test_pod_can_request_an_extended_resource_of_an_overlay() -> None:
    fuse = an_overlay("fuse", capacity={FUSE: "4"})
    app = small_app()
    (container,) = app["spec"]["template"]["spec"]["containers"]
    container["resources"]["requests"][FUSE] = "1"
    container["resources"]["limits"] = {FUSE: "1"}

    cluster = a_cluster(fuse, app=app)

    (claim,) = cluster.api.list(NODE_CLAIMS).items
    assert thaw(claim["spec"]["resources"]["requests"])[FUSE] == "1"
    assert claim["metadata"]["annotations"]["karpenter.sh/capacity-overlay-applied"] == "true"
    assert len(get_instance_types(cluster)) == 1


def test_one_of_two_conflicting_overlays_is_rejected() -> None:
    cluster = a_cluster(an_overlay("a", price="1"), an_overlay("b", price="2"))

    assert get_validation(cluster, "a") == ("False", "Conflict")
    assert get_validation(cluster, "b")[0] == "True"


def test_deleted_overlay_has_no_effect_and_its_conflicting_one_is_valid() -> None:
    cluster = a_cluster(an_overlay("a", price="1"), an_overlay("b", price="2"))

    cluster.api.delete(NODE_OVERLAYS, "b")
    wait(cluster, 1)

    assert get_validation(cluster, "a")[0] == "True"


def test_second_reconcile_changes_nothing() -> None:
    cluster = a_cluster(an_overlay("a", price="1"))
    before = cluster.api.get(NODE_OVERLAYS, "a")["metadata"]["resourceVersion"]

    wait(cluster, 13 * 3600)

    assert cluster.api.get(NODE_OVERLAYS, "a")["metadata"]["resourceVersion"] == before


def test_controller_is_off_without_its_feature_gate() -> None:
    expensive = an_overlay("expensive", labels={"node.kubernetes.io/instance-type": "t3.small"}, price="9.5")

    cluster = a_cluster(expensive, app=small_app(), gates=FeatureGates())

    assert get_instance_types(cluster) == ["t3.small"]
    assert "status" not in cluster.api.get(NODE_OVERLAYS, "expensive")
