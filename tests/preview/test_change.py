"""A change: applied to a simulated cluster, and described."""

import json
from copy import deepcopy
from typing import Any

import pytest

from dovetail.ports.api_resources import DEPLOYMENTS, NODE_POOLS
from dovetail.preview.change import (
    Change,
    ChangeError,
    Deletion,
    apply_change,
    find_removals,
    merge_file,
    parse_deletion,
)
from dovetail.preview.manifests import ChangedManifests
from dovetail.simulator.cluster import SimulatedCluster
from tests.support.simulator.api_server import names
from tests.support.simulator.clusters import a_pool, an_app, build_cluster


@pytest.fixture
def cluster() -> SimulatedCluster:
    return build_cluster()


def manifests(*objects: dict[str, Any]) -> ChangedManifests:
    return ChangedManifests([("changed.json", json.dumps({"kind": "List", "items": list(objects)}).encode())])


def apply(cluster: SimulatedCluster, *objects: dict[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    applied = apply_change(cluster, Change(manifests=manifests(*objects)))
    return applied.changes, applied.unchanged


def test_objects_that_equal_those_of_the_cluster_change_nothing(cluster: SimulatedCluster) -> None:
    assert apply(cluster, a_pool(), an_app()) == ((), ("NodePool default", "Deployment default/web"))


def test_changed_fields_are_named_with_both_values(cluster: SimulatedCluster) -> None:
    pool = deepcopy(a_pool())
    pool["spec"]["disruption"]["budgets"] = [{"nodes": "10%"}]
    pool["spec"]["limits"] = {"cpu": "100"}

    changes, _ = apply(cluster, pool, an_app(replicas=3))

    assert changes == (
        'NodePool default: spec.disruption.budgets[0].nodes 100% → 10%, spec.limits none → {"cpu":"100"}',
        "Deployment default/web: spec.replicas 0 → 3",
    )


def test_new_objects_are_created_with_their_namespace(cluster: SimulatedCluster) -> None:
    changes, _ = apply(cluster, an_app("other", namespace="shop"))

    assert changes == ("Deployment shop/other: created",)
    assert "other" in names(cluster.api.list(DEPLOYMENTS).items)


def test_a_field_that_the_file_does_not_have_any_more_is_removed(cluster: SimulatedCluster) -> None:
    pool = a_pool(limits={"cpu": "100"})
    apply(cluster, pool)

    changes, _ = apply(cluster, a_pool())

    assert changes == ('NodePool default: spec.limits {"cpu":"100"} → none',)
    assert "limits" not in cluster.api.get(NODE_POOLS, "default")["spec"]


def recorded_app(**template: Any) -> dict[str, Any]:
    """A Deployment as a dump has it: with all defaults, without a record of who wrote what."""
    app = an_app(replicas=3)
    app["spec"] |= {"progressDeadlineSeconds": 600, "strategy": {"type": "RollingUpdate"}}
    pod = app["spec"]["template"]["spec"]
    pod["containers"][0] |= {
        "imagePullPolicy": "Always",
        "terminationMessagePath": "/dev/termination-log",
        "ports": [{"containerPort": 80, "protocol": "TCP"}],
        "readinessProbe": {"httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, "periodSeconds": 10},
    }
    pod |= {"dnsPolicy": "ClusterFirst", "securityContext": {}, **template}
    return app


def a_file(**more: Any) -> dict[str, Any]:
    """The file that the Deployment was created from."""
    app = an_app(replicas=3)
    probe = {"httpGet": {"path": "/", "port": 80}}
    app["spec"]["template"]["spec"]["containers"][0] |= {
        "ports": [{"containerPort": 80}],
        "readinessProbe": probe,
        **more,
    }
    return app


def test_a_file_of_a_recorded_deployment_changes_none_of_its_defaults() -> None:
    assert merge_file(DEPLOYMENTS, recorded_app(), a_file()) == recorded_app()


def test_what_a_file_lacks_is_removed_even_if_nothing_records_who_wrote_it() -> None:
    recorded = recorded_app(nodeSelector={"disk": "ssd"}, volumes=[{"name": "tmp", "emptyDir": {}}])

    assert merge_file(DEPLOYMENTS, recorded, a_file()) == recorded_app()


def test_a_probe_and_a_request_that_a_file_lacks_are_removed() -> None:
    file = a_file(resources={"requests": {"cpu": "1"}})
    del file["spec"]["template"]["spec"]["containers"][0]["readinessProbe"]

    (container,) = merge_file(DEPLOYMENTS, recorded_app(), file)["spec"]["template"]["spec"]["containers"]

    assert "readinessProbe" not in container
    assert container["resources"] == {"requests": {"cpu": "1"}}
    assert container["imagePullPolicy"] == "Always"


def test_replicas_that_a_file_does_not_name_stay() -> None:
    file = an_app()
    del file["spec"]["replicas"]

    assert merge_file(DEPLOYMENTS, recorded_app(), file)["spec"]["replicas"] == 3


def test_a_container_that_a_file_lacks_is_removed_and_others_keep_their_defaults() -> None:
    containers = recorded_app()["spec"]["template"]["spec"]["containers"]
    current = recorded_app(containers=[*containers, {"name": "extra", "image": "extra:1"}])

    merged = merge_file(DEPLOYMENTS, current, a_file())

    assert merged["spec"]["template"]["spec"]["containers"] == containers


def test_labels_and_annotations_of_others_stay() -> None:
    current = recorded_app()
    current["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": "3"}

    assert merge_file(DEPLOYMENTS, current, a_file())["metadata"]["annotations"] == {
        "deployment.kubernetes.io/revision": "3"
    }


def test_an_object_is_deleted(cluster: SimulatedCluster) -> None:
    applied = apply_change(cluster, Change(deletions=(parse_deletion("deploy/default/web"),)))

    assert applied.changes == ("Deployment default/web: deleted",)
    assert names(cluster.api.list(DEPLOYMENTS).items) == []


def test_deletion_of_an_unknown_object_names_the_nearest(cluster: SimulatedCluster) -> None:
    with pytest.raises(
        ChangeError, match="NodePool defualt does not exist in the cluster; did you mean 'default'"
    ):
        apply_change(cluster, Change(deletions=(parse_deletion("nodepool/defualt"),)))


def test_objects_removed_from_files_are_deleted_unless_another_file_has_them(
    cluster: SimulatedCluster,
) -> None:
    old = manifests(a_pool(), an_app(), an_app("unknown"))
    new = manifests(a_pool())

    applied = apply_change(cluster, Change(manifests=new, removals=find_removals(old, new)))

    assert applied.changes == ("Deployment default/web: deleted",)
    assert applied.unchanged == ("NodePool default", "Deployment default/unknown (not in the cluster)")


@pytest.mark.parametrize(
    ("text", "deletion"),
    [
        ("nodepool/spot", Deletion(NODE_POOLS, "", "spot")),
        ("NodePool/spot", Deletion(NODE_POOLS, "", "spot")),
        ("nodepools/spot", Deletion(NODE_POOLS, "", "spot")),
        ("deploy/shop/web", Deletion(DEPLOYMENTS, "shop", "web")),
        ("deployment/web", Deletion(DEPLOYMENTS, "default", "web")),
    ],
)
def test_deletions_are_written_as_kind_and_name(text: str, deletion: Deletion) -> None:
    assert parse_deletion(text) == deletion


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nodepol/spot", "'nodepol' is not a kind; did you mean 'nodepool'?"),
        ("spot", "'spot' is not a kind; examples"),
        ("nodepool/a/b", "is not nodepool/NAME"),
        ("nodepool/", "is not nodepool/NAME"),
        ("deployment/a/b/c", "is not deployment/NAMESPACE/NAME"),
    ],
)
def test_a_deletion_that_cannot_be_read_is_refused(text: str, message: str) -> None:
    with pytest.raises(ChangeError) as error:
        parse_deletion(text)

    assert message in str(error.value)
