"""Storage controllers: volumes are provisioned and attached where pods run."""

from typing import Any

import pytest

from dovetail.ports.api_resources import (
    CSI_NODES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
)
from dovetail.ports.kube_errors import NotFound
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field
from dovetail.simulator.storage.attach_detach import AttachDetachController
from dovetail.simulator.storage.pv_binder import PersistentVolumeBinder
from tests.support.simulator.scheduler import SchedulerCluster, a_node, pod

DRIVER = "ebs.csi.aws.com"


class Stored(SchedulerCluster):
    """A cluster with scheduler, storage controllers and a node in each of two zones."""

    def __init__(self, *nodes: dict[str, Any]) -> None:
        super().__init__()
        PersistentVolumeBinder(self, self.clock)
        AttachDetachController(self, self.clock)
        for node in nodes or (a_node("n-a", zone="a"), a_node("n-b", zone="b")):
            self.create(NODES, node)

    def claim(self, name: str) -> Object:
        return self.get(PERSISTENT_VOLUME_CLAIMS, name, "default")

    def volume_of(self, name: str) -> Object:
        return self.get(PERSISTENT_VOLUMES, self.claim(name)["spec"]["volumeName"])

    def attachments(self) -> list[tuple[str, bool]]:
        return [
            (attachment["spec"]["nodeName"], bool(get_field(attachment, "status", "attached")))
            for attachment in self.list(VOLUME_ATTACHMENTS).items
        ]


def a_class(name: str = "gp3", *, mode: str = "WaitForFirstConsumer", **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "provisioner": DRIVER, "volumeBindingMode": mode, **more}


def a_claim(name: str, storage_class: str | None = "gp3", **spec: Any) -> dict[str, Any]:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "8Gi"}}}
    if storage_class is not None:
        wanted["storageClassName"] = storage_class  # type: ignore[assignment]
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {**wanted, **spec}}


def a_volume(name: str, *, size: str, zone: str = "b", storage_class: str = "") -> dict[str, Any]:
    here = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            "csi": {"driver": DRIVER, "volumeHandle": name},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }


def using(name: str, *claims: str, **spec: Any) -> dict[str, Any]:
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    return pod(name, volumes=volumes, **spec)


def zone_of(volume: Object) -> str:
    terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    return str(terms[0]["matchExpressions"][0]["values"][0])


def test_wait_for_first_consumer_provisions_in_the_zone_of_the_pod() -> None:
    cluster = Stored()
    cluster.create(STORAGE_CLASSES, a_class())
    cluster.create(PERSISTENT_VOLUME_CLAIMS, a_claim("data"))
    cluster.wait(60)
    unbound = cluster.claim("data")["status"]["phase"]

    cluster.add(using("db", "data", nodeSelector={"topology.kubernetes.io/zone": "b"}))
    cluster.wait(2)

    assert unbound == "Pending"
    assert cluster.node_of("db") == "n-b"
    assert cluster.claim("data")["status"]["phase"] == "Bound"
    assert zone_of(cluster.volume_of("data")) == "b"
    assert cluster.volume_of("data")["spec"]["csi"]["driver"] == DRIVER


def test_a_pod_is_bound_only_when_its_volume_is_provisioned() -> None:
    cluster = Stored()
    cluster.create(STORAGE_CLASSES, a_class())
    cluster.create(PERSISTENT_VOLUME_CLAIMS, a_claim("data"))
    cluster.add(using("db", "data"))

    cluster.wait(0.5)
    early = cluster.node_of("db")
    cluster.wait(1)

    assert early is None
    assert cluster.node_of("db") is not None


def test_a_pod_is_scheduled_to_the_zone_of_its_volume() -> None:
    cluster = Stored()
    cluster.create(STORAGE_CLASSES, a_class())
    cluster.create(PERSISTENT_VOLUME_CLAIMS, a_claim("data"))
    cluster.add(using("first", "data", nodeSelector={"topology.kubernetes.io/zone": "b"}))
    cluster.wait(5)
    cluster.remove("first")

    cluster.change_node("n-b", unschedulable=True)
    cluster.add(using("second", "data"))
    cluster.wait(5)
    rejected = cluster.unschedulable_message("second")
    cluster.create(NODES, a_node("n-b2", zone="b"))
    cluster.wait(5)

    assert "1 node(s) had volume node affinity conflict" in rejected
    assert cluster.node_of("second") == "n-b2"


def test_immediate_binding_does_not_wait_for_a_pod() -> None:
    cluster = Stored()
    cluster.create(STORAGE_CLASSES, a_class(mode="Immediate"))
    cluster.create(PERSISTENT_VOLUME_CLAIMS, a_claim("data"))

    cluster.settle()
    cluster.add(using("hasty", "data"))
    cluster.settle()
    rejected = cluster.unschedulable_message("hasty")
    cluster.wait(5)

    assert "pod has unbound immediate PersistentVolumeClaims" in rejected
    assert cluster.claim("data")["status"]["phase"] == "Bound"
    assert cluster.node_of("hasty") == f"n-{zone_of(cluster.volume_of('data'))}"


@pytest.mark.parametrize("provisioner", [DRIVER, "kubernetes.io/aws-ebs"])
def test_a_provisioned_volume_names_the_provisioner_of_its_class(provisioner: str) -> None:
    cluster = Stored()
    cluster.create(STORAGE_CLASSES, a_class(mode="Immediate", provisioner=provisioner))
    cluster.create(PERSISTENT_VOLUME_CLAIMS, a_claim("data"))

    cluster.wait(60)

    volume = cluster.volume_of("data")
    assert volume["metadata"]["annotations"] == {"pv.kubernetes.io/provisioned-by": provisioner}
    assert volume["spec"]["csi"]["driver"] == DRIVER


def test_a_claim_without_a_storage_class_gets_the_default_one() -> None:
    cluster = Stored()
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    storage_class = a_class(mode="Immediate")
    storage_class["metadata"]["annotations"] = default
    cluster.create(STORAGE_CLASSES, storage_class)

    cluster.create(PERSISTENT_VOLUME_CLAIMS, a_claim("data", None))
    cluster.wait(5)

    assert cluster.volume_of("data")["spec"]["storageClassName"] == "gp3"


def test_a_claim_is_bound_to_the_smallest_available_volume_that_fits() -> None:
    cluster = Stored()
    for name, size in (("small", "4Gi"), ("right", "10Gi"), ("large", "100Gi")):
        cluster.create(PERSISTENT_VOLUMES, a_volume(name, size=size))

    cluster.create(PERSISTENT_VOLUME_CLAIMS, a_claim("data", ""))
    cluster.wait(1)
    cluster.add(using("db", "data"))
    cluster.wait(1)

    assert cluster.claim("data")["spec"]["volumeName"] == "right"
    assert cluster.node_of("db") == "n-b"
    phases = {volume["metadata"]["name"]: volume["status"]["phase"] for volume in _volumes(cluster)}
    assert phases == {"small": "Available", "right": "Bound", "large": "Available"}


def _volumes(cluster: Stored) -> list[Object]:
    return list(cluster.list(PERSISTENT_VOLUMES).items)


def test_allowed_topologies_restrict_pods_with_unbound_claims() -> None:
    cluster = Stored()
    only_b = [{"matchLabelExpressions": [{"key": "topology.kubernetes.io/zone", "values": ["b"]}]}]
    cluster.create(STORAGE_CLASSES, a_class(allowedTopologies=only_b))
    cluster.create(PERSISTENT_VOLUME_CLAIMS, a_claim("data"))

    cluster.add(using("db", "data"))
    cluster.wait(5)

    assert cluster.node_of("db") == "n-b"


def test_a_pod_is_pending_until_its_claim_exists() -> None:
    cluster = Stored()
    cluster.create(STORAGE_CLASSES, a_class())
    cluster.add(using("db", "data"))
    cluster.settle()
    rejected = cluster.unschedulable_message("db")

    cluster.create(PERSISTENT_VOLUME_CLAIMS, a_claim("data"))
    cluster.wait(5)

    assert 'persistentvolumeclaim "data" not found' in rejected
    assert cluster.node_of("db") is not None


def test_the_claim_of_an_ephemeral_volume_is_created_and_deleted_with_the_pod() -> None:
    cluster = Stored()
    cluster.create(STORAGE_CLASSES, a_class())
    template = {"spec": a_claim("x")["spec"]}
    volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]

    cluster.add(pod("job", volumes=volumes))
    cluster.wait(5)
    placed, claim = cluster.node_of("job"), cluster.claim("job-scratch")
    cluster.remove("job")
    cluster.wait(5)

    assert placed is not None
    assert claim["status"]["phase"] == "Bound"
    with pytest.raises(NotFound):
        cluster.claim("job-scratch")
    assert _volumes(cluster) == []
    assert cluster.attachments() == []


def test_a_node_takes_no_more_volumes_than_its_attachment_limit() -> None:
    cluster = Stored(a_node("n1"))
    cluster.create(STORAGE_CLASSES, a_class())
    limit = {"name": DRIVER, "nodeID": "n1", "allocatable": {"count": 2}}
    cluster.create(CSI_NODES, {"metadata": {"name": "n1"}, "spec": {"drivers": [limit]}})
    for name in ("a", "b", "c"):
        cluster.create(PERSISTENT_VOLUME_CLAIMS, a_claim(name))

    cluster.add(using("both", "a", "b"), using("third", "c"), using("shares", "b"))
    cluster.wait(5)

    assert cluster.placements() == {"both": "n1", "shares": "n1", "third": None}
    assert "1 node(s) exceed max volume count" in cluster.unschedulable_message("third")


def test_a_volume_is_attached_while_a_pod_uses_it_and_detached_afterwards() -> None:
    cluster = Stored(a_node("n1"))
    cluster.create(STORAGE_CLASSES, a_class())
    cluster.create(PERSISTENT_VOLUME_CLAIMS, a_claim("data"))
    cluster.add(using("db", "data"), using("reader", "data"))
    cluster.wait(1.5)
    attaching = cluster.attachments()
    cluster.wait(2)
    attached = cluster.attachments()

    cluster.remove("db")
    cluster.wait(60)
    still_used = cluster.attachments()
    cluster.remove("reader")
    cluster.wait(1)
    lingering = cluster.attachments()
    cluster.wait(2)

    assert attaching == [("n1", False)]
    assert attached == still_used == lingering == [("n1", True)]
    assert cluster.attachments() == []


def test_a_volume_that_is_used_again_before_it_is_detached_stays_attached() -> None:
    cluster = Stored(a_node("n1"))
    cluster.create(STORAGE_CLASSES, a_class())
    cluster.create(PERSISTENT_VOLUME_CLAIMS, a_claim("data"))
    cluster.add(using("db", "data"))
    cluster.wait(5)

    cluster.remove("db")
    cluster.wait(1)
    cluster.add(using("next", "data"))
    cluster.wait(60)

    assert cluster.attachments() == [("n1", True)]


@pytest.mark.parametrize(("policy", "left"), [("Delete", []), ("Retain", ["Released"])])
def test_the_reclaim_policy_deletes_or_releases_a_volume(policy: str, left: list[str]) -> None:
    cluster = Stored()
    cluster.create(STORAGE_CLASSES, a_class(mode="Immediate", reclaimPolicy=policy))
    cluster.create(PERSISTENT_VOLUME_CLAIMS, a_claim("data"))
    cluster.wait(5)

    cluster.delete(PERSISTENT_VOLUME_CLAIMS, "data", "default")
    cluster.wait(5)

    assert [volume["status"]["phase"] for volume in _volumes(cluster)] == left


def test_a_claim_whose_selected_node_was_deleted_gets_another() -> None:
    cluster = Stored(a_node("n1", zone="a"))
    cluster.create(STORAGE_CLASSES, a_class())
    cluster.create(PERSISTENT_VOLUME_CLAIMS, a_claim("data"))
    cluster.add(using("db", "data"))
    cluster.clock.step()
    while not cluster.claim("data")["metadata"].get("annotations"):
        cluster.clock.step()

    cluster.delete(NODES, "n1")
    cluster.create(NODES, a_node("n2", zone="b"))
    cluster.wait(30)

    assert cluster.node_of("db") == "n2"
    assert cluster.get(PODS, "db", "default")


def test_a_pod_bound_elsewhere_while_its_volume_is_provisioned_counts_where_it_runs() -> None:
    cluster = Stored(a_node("n1", cpu="2"), a_node("n2", cpu="2"))
    cluster.create(STORAGE_CLASSES, a_class())
    cluster.create(PERSISTENT_VOLUME_CLAIMS, a_claim("data"))
    cluster.add(using("db", "data", requests={"cpu": "2"}))
    cluster.wait(0.5)

    cluster.bind("db", "default", {"target": {"name": "n2"}})
    cluster.wait(5)
    cluster.add(pod("web", requests={"cpu": "2"}))
    cluster.wait(1)

    assert cluster.placements() == {"db": "n2", "web": "n1"}
