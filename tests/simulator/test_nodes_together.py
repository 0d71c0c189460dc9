"""Kubelets, binder and volumes in one cluster."""

from dovetail.model.kube.taints import UNREGISTERED
from dovetail.ports.api_resources import (
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    RESOURCES,
    STORAGE_CLASSES,
    VOLUME_ATTACHMENTS,
)
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.scheduler.scheduler import Binder
from dovetail.simulator.storage.controllers import Volumes
from tests.support.machines import Hosted, a_machine
from tests.support.scheduled import pod


class World(Hosted):
    """Everything that makes pods run."""

    def __init__(self) -> None:
        super().__init__()
        self.binder = Binder(self, self.engine)
        self.volumes = Volumes(self, self.engine)

    def phase(self, name: str) -> str:
        return str(self.pod(name)["status"]["phase"])


def register(cluster: World, name: str) -> None:
    """Take away the taint with which nodes of NodeClaims begin."""
    node = cluster.get(NODES, name)
    left = [one for one in node["spec"]["taints"] if one["key"] != UNREGISTERED.key]
    cluster.update(NODES, {**node, "spec": {**node["spec"], "taints": left}})


def test_a_waiting_pod_runs_as_soon_as_a_new_node_is_ready_for_it() -> None:
    cluster = World()
    machine = a_machine(taints=(UNREGISTERED,))
    cluster.create(PODS, pod("web", requests={"cpu": "2"}))
    cluster.wait(40)

    cluster.boot(machine)
    cluster.wait(1)
    register(cluster, machine.name)
    cluster.wait(3.9)
    early = cluster.phase("web")
    cluster.wait(2.7)

    assert early == "Pending"
    assert cluster.phase("web") == "Running"
    assert cluster.pod("web")["spec"]["nodeName"] == machine.name


def test_a_pod_moves_with_its_volume_within_its_zone() -> None:
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
    cluster.boot(a_machine(1, zone="us-east-1a"))
    cluster.wait(10)
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    cluster.create(PODS, pod("db", volumes=volumes))
    cluster.wait(10)
    cluster.boot(a_machine(2, zone="us-east-1b"), a_machine(3, zone="us-east-1a"))
    cluster.wait(10)

    first = cluster.pod("db")["spec"]["nodeName"]
    node = cluster.get(NODES, first)
    cluster.update(NODES, {**node, "spec": {**node["spec"], "unschedulable": True}})
    cluster.evict("db", "default")
    cluster.wait(10)
    cluster.create(PODS, pod("db", volumes=volumes))
    cluster.wait(10)

    assert first == a_machine(1).name
    assert cluster.pod("db")["spec"]["nodeName"] == a_machine(3).name
    attached = [one["spec"]["nodeName"] for one in cluster.list(VOLUME_ATTACHMENTS).items]
    assert attached == [a_machine(3).name]


def a_busy_minute() -> list[Object]:
    cluster = World()
    cluster.boot(*(a_machine(n, zone=f"us-east-1{'abc'[n % 3]}") for n in range(1, 6)))
    for number in range(40):
        cluster.create(PODS, pod(f"p{number}", requests={"cpu": "600m"}))
    cluster.wait(30)
    cluster.kubelets.halt(a_machine(2).provider_id)
    for number in range(0, 40, 3):
        cluster.delete_pod(f"p{number}")
    cluster.wait(30)
    return [one for resource in RESOURCES for one in cluster.list(resource).items]


def test_the_same_minute_happens_the_same_way_twice() -> None:
    assert a_busy_minute() == a_busy_minute()
