"""Kubelets, scheduler and storage controllers in one cluster."""

from dovetail.model.kube.taints import UNREGISTERED_TAINT
from dovetail.ports.api_resources import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    RESOURCES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
)
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.scheduler.scheduler import KubeScheduler
from dovetail.simulator.storage.attach_detach import AttachDetachController
from dovetail.simulator.storage.pv_binder import PersistentVolumeBinder
from tests.support.simulator.kubelets import KubeletCluster, booted_instance
from tests.support.simulator.scheduler import pod


class World(KubeletCluster):
    """A cluster with everything that pods need to run."""

    def __init__(self) -> None:
        super().__init__()
        self.scheduler = KubeScheduler(self, self.clock)
        PersistentVolumeBinder(self, self.clock)
        AttachDetachController(self, self.clock)

    def phase(self, name: str) -> str:
        return str(self.pod(name)["status"]["phase"])


def register(cluster: World, name: str) -> None:
    """Remove the unregistered taint of a node."""
    node = cluster.get(NODES, name)
    left = [taint for taint in node["spec"]["taints"] if taint["key"] != UNREGISTERED_TAINT.key]
    cluster.update(NODES, {**node, "spec": {**node["spec"], "taints": left}})


def test_a_pending_pod_runs_as_soon_as_a_new_node_is_ready() -> None:
    cluster = World()
    instance = booted_instance(taints=(UNREGISTERED_TAINT,))
    cluster.create(PODS, pod("web", requests={"cpu": "2"}))
    cluster.wait(40)

    cluster.boot(instance)
    cluster.wait(1)
    register(cluster, instance.name)
    cluster.wait(3.9)
    early = cluster.phase("web")
    cluster.wait(2.7)

    assert early == "Pending"
    assert cluster.phase("web") == "Running"
    assert cluster.pod("web")["spec"]["nodeName"] == instance.name


def test_a_pod_is_rescheduled_within_the_zone_of_its_volume() -> None:
    cluster = World()
    cluster.create(
        STORAGE_CLASSES,
        {
            "metadata": {"name": "gp3"},
            "provisioner": "ebs.csi.aws.com",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
    )
    claim = {"storageClassName": "gp3", "accessModes": ["ReadWriteOnce"]}
    meta = {"name": "data", "namespace": "default"}
    size = {"resources": {"requests": {"storage": "1Gi"}}}
    cluster.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": meta, "spec": {**claim, **size}})
    cluster.boot(booted_instance(1, zone="us-east-1a"))
    cluster.wait(10)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    cluster.create(PODS, pod("db", volumes=volumes))
    cluster.wait(10)
    cluster.boot(booted_instance(2, zone="us-east-1b"), booted_instance(3, zone="us-east-1a"))
    cluster.wait(10)

    first = cluster.pod("db")["spec"]["nodeName"]
    node = cluster.get(NODES, first)
    cluster.update(NODES, {**node, "spec": {**node["spec"], "unschedulable": True}})
    cluster.evict("db", "default")
    cluster.wait(10)
    cluster.create(PODS, pod("db", volumes=volumes))
    cluster.wait(10)

    assert first == booted_instance(1).name
    assert cluster.pod("db")["spec"]["nodeName"] == booted_instance(3).name
    attached = [attachment["spec"]["nodeName"] for attachment in cluster.list(VOLUME_ATTACHMENTS).items]
    assert attached == [booted_instance(3).name]


def a_busy_minute() -> list[Object]:
    cluster = World()
    cluster.boot(*(booted_instance(n, zone=f"us-east-1{'abc'[n % 3]}") for n in range(1, 6)))
    for number in range(40):
        cluster.create(PODS, pod(f"p{number}", requests={"cpu": "600m"}))
    cluster.wait(30)
    cluster.kubelets.stop(booted_instance(2).provider_id)
    for number in range(0, 40, 3):
        cluster.delete_pod(f"p{number}")
    cluster.wait(30)
    return [obj for resource in RESOURCES for obj in cluster.list(resource).items]


def test_equal_runs_are_equal() -> None:
    assert a_busy_minute() == a_busy_minute()
