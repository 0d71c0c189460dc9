"""Volume attachment limits of existing nodes."""

from typing import Any

import pytest

from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import PodVolume
from dovetail.model.kube.storage import BIND_COMPLETED, PersistentVolume, PersistentVolumeClaim, StorageClass
from dovetail.model.settings import Packing, SchedulingSettings
from tests.support.scheduling.builders import a_node, a_pod, cluster
from tests.support.scheduling.plans import node_of, placements
from tests.support.scheduling.solver import checked as solve

DRIVER = "ebs.csi.aws.com"
BOTH = pytest.mark.parametrize("packing", list(Packing))
CLASS = StorageClass(name="gp3", provisioner=DRIVER)


def claims(*names: str) -> list[PersistentVolumeClaim]:
    return [PersistentVolumeClaim(namespace="default", name=name, storage_class="gp3") for name in names]


def node_with_limit(**fields: Any) -> Any:
    return a_node("n", cpu=64, memory="64Gi", **fields)


@BOTH
def test_s37_a_node_takes_as_many_volumes_as_it_can_attach(packing: Packing) -> None:
    some = [a_pod(f"p{i}", claims=[f"{i}-a", f"{i}-b"]) for i in range(6)]
    names = [name for pod in some for name in (volume.claim for volume in pod.spec.volumes)]
    snapshot = cluster(
        some,
        nodes=[node_with_limit(volume_limits=FrozenDict({DRIVER: 10}))],
        volume_claims=claims(*names),
        storage_classes=[CLASS],
    )

    plan = solve(snapshot, SchedulingSettings(packing=packing))

    on_node = [pod for pod, node in placements(plan).items() if node == "n"]
    assert len(on_node) == 5
    assert len(plan.nodes) == 1


@BOTH
def test_s37_pods_that_share_a_volume_attach_it_once(packing: Packing) -> None:
    snapshot = cluster(
        [a_pod(f"p{i}", claims=["shared"]) for i in range(100)],
        nodes=[node_with_limit(volume_limits=FrozenDict({DRIVER: 1}))],
        volume_claims=claims("shared"),
        storage_classes=[CLASS],
    )

    plan = solve(snapshot, SchedulingSettings(packing=packing))

    assert set(placements(plan).values()) == {"n"}


def test_s37_volumes_of_pods_that_run_there_already_are_counted() -> None:
    running = a_pod("running", claims=["taken"])
    node = node_with_limit(volume_limits=FrozenDict({DRIVER: 1}), pods=[running])
    around: dict[str, Any] = {"volume_claims": claims("taken", "more"), "storage_classes": [CLASS]}

    another = solve(cluster([a_pod("p", claims=["more"])], nodes=[node], **around))
    the_same = solve(cluster([a_pod("p", claims=["taken"])], nodes=[node], **around))

    assert node_of(another, "p") != "n"
    assert node_of(the_same, "p") == "n"


def test_s37_a_node_that_states_no_limit_has_none() -> None:
    snapshot = cluster(
        [a_pod(f"p{i}", claims=[f"c{i}"]) for i in range(50)],
        nodes=[node_with_limit()],
        volume_claims=claims(*(f"c{i}" for i in range(50))),
        storage_classes=[CLASS],
    )

    assert set(placements(solve(snapshot)).values()) == {"n"}


def test_s38_volumes_without_a_driver_do_not_count() -> None:
    bound = FrozenDict({BIND_COMPLETED: "yes"})
    snapshot = cluster(
        [a_pod(f"p{i}", claims=[f"nfs{i}"]) for i in range(5)],
        nodes=[node_with_limit(volume_limits=FrozenDict({DRIVER: 1}))],
        volume_claims=[
            PersistentVolumeClaim(namespace="default", name=f"nfs{i}", volume=f"nfs{i}", annotations=bound)
            for i in range(5)
        ],
        volumes=[PersistentVolume(name=f"nfs{i}") for i in range(5)],
    )

    assert set(placements(solve(snapshot)).values()) == {"n"}


def test_s43_a_bound_volume_counts_against_its_own_driver() -> None:
    bound = FrozenDict({BIND_COMPLETED: "yes"})
    snapshot = cluster(
        [a_pod(f"p{i}", claims=[f"c{i}"]) for i in range(2)],
        nodes=[node_with_limit(volume_limits=FrozenDict({DRIVER: 1}))],
        volume_claims=[
            PersistentVolumeClaim(namespace="default", name=f"c{i}", volume=f"v{i}", annotations=bound)
            for i in range(2)
        ],
        volumes=[PersistentVolume(name=f"v{i}", driver=DRIVER) for i in range(2)],
    )

    plan = solve(snapshot)

    assert sorted(placements(plan).values()).count("n") == 1


@pytest.mark.parametrize("named", ["gp3", None], ids=["named", "default"])
def test_s39_ephemeral_volumes_count_by_the_class_of_their_template(named: str | None) -> None:
    some = [
        a_pod(f"p{i}", volumes=[PodVolume(f"p{i}-scratch", ephemeral=True, template_storage_class=named)])
        for i in range(2)
    ]
    snapshot = cluster(
        some,
        nodes=[node_with_limit(volume_limits=FrozenDict({DRIVER: 1}))],
        storage_classes=[
            StorageClass(name="gp3", provisioner=DRIVER, is_default=True),
            StorageClass(name="efs", provisioner="efs.csi.aws.com"),
        ],
    )

    plan = solve(snapshot)

    assert sorted(placements(plan).values()).count("n") == 1


@BOTH
def test_new_nodes_have_no_limit_on_volumes(packing: Packing) -> None:
    snapshot = cluster(
        [a_pod(f"p{i}", claims=[f"c{i}-{j}" for j in range(30)]) for i in range(3)],
        volume_claims=claims(*(f"c{i}-{j}" for i in range(3) for j in range(30))),
        storage_classes=[CLASS],
    )

    plan = solve(snapshot, SchedulingSettings(packing=packing))

    assert len(plan.nodes) == 1
