"""Watched objects become events: what was asked for, and nothing else."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.karpenter.nodeclasses import decode_nodeclass
from dovetail.core.nodeclass.hash import compute_nodeclass_hash
from dovetail.model.labels import EC2_NODE_CLASS_HASH
from dovetail.ports import api_resources as kinds
from dovetail.ports.api_resources import Resource
from dovetail.record.anonymise import KeyedNames
from dovetail.record.demand import Demand
from dovetail.record.fields import TEMPLATE_HASH
from dovetail.record.resumption import read_resumption
from dovetail.trace.model import Delete, Finish, Gap, Header, Initial, Scale, Set, Tasks, Template
from dovetail.trace.writer import TraceWriter
from tests.record.objects import START, Clock, Recording, deployment, evicted, pod, ran

HEADER = Header(written_by="test", start=START)


def test_a_changed_scale_is_recorded_at_its_time() -> None:
    recording = Recording((kinds.DEPLOYMENTS, deployment(replicas=3))).begin()

    recording.clock.advance(90)
    recording.demand.apply(kinds.DEPLOYMENTS, deployment(replicas=8))

    assert recording.events == [Scale(t=90, kind="Deployment", namespace="shop", name="web", replicas=8)]


def test_what_only_controllers_change_is_not_recorded() -> None:
    recording = Recording((kinds.DEPLOYMENTS, deployment())).begin()
    rolled_out = deployment()
    rolled_out["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = "7"
    rolled_out["status"] = {"replicas": 3, "readyReplicas": 2}

    recording.demand.apply(kinds.DEPLOYMENTS, rolled_out)

    assert recording.events == []


def test_a_changed_template_is_recorded_with_its_scale() -> None:
    recording = Recording((kinds.DEPLOYMENTS, deployment())).begin()
    larger = deployment(replicas=5)
    larger["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"

    recording.demand.apply(kinds.DEPLOYMENTS, larger)

    (event,) = recording.events
    assert isinstance(event, Set)
    assert event.object["spec"]["replicas"] == 5
    (container,) = event.object["spec"]["template"]["spec"]["containers"]
    assert container == {"name": "main", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}


def template_hash(obj: dict[str, Any]) -> str:
    return str(obj["spec"]["template"]["metadata"]["annotations"][TEMPLATE_HASH])


@pytest.mark.parametrize("kind", [kinds.DEPLOYMENTS, kinds.STATEFUL_SETS, kinds.DAEMON_SETS])
def test_a_roll_out_of_another_image_is_recorded_and_so_is_its_rollback(kind: Resource) -> None:
    recording = Recording((kind, deployment())).begin()
    (before,) = [event.object for event in recording.initial if isinstance(event, Initial)]
    changed = deployment()
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "registry.example/secret-project:2"

    recording.demand.apply(kind, changed)
    recording.demand.apply(kind, deployment())

    updated, restored = [event.object for event in recording.events if isinstance(event, Set)]
    assert template_hash(updated) != template_hash(before)
    assert template_hash(restored) == template_hash(before)
    assert b"secret-project" not in msgspec.json.encode(recording.all)


def test_a_restart_is_recorded_as_another_template() -> None:
    recording = Recording((kinds.DEPLOYMENTS, deployment())).begin()
    restarted = deployment()
    restarted["spec"]["template"]["metadata"]["annotations"] = {
        "kubectl.kubernetes.io/restartedAt": "2026-03-02T08:00:00Z"
    }

    recording.demand.apply(kinds.DEPLOYMENTS, restarted)

    (event,) = recording.events
    assert isinstance(event, Set)
    assert list(event.object["spec"]["template"]["metadata"]["annotations"]) == [TEMPLATE_HASH]


def test_a_label_of_a_deployment_leaves_the_hash_of_its_template() -> None:
    recording = Recording((kinds.DEPLOYMENTS, deployment())).begin()
    (before,) = [event.object for event in recording.initial if isinstance(event, Initial)]
    labelled = deployment()
    labelled["metadata"]["labels"] = {"team": "shop"}

    recording.demand.apply(kinds.DEPLOYMENTS, labelled)

    (after,) = [event.object for event in recording.events if isinstance(event, Set)]
    assert template_hash(after) == template_hash(before)


def test_a_replica_set_has_the_template_of_its_deployment() -> None:
    replica_set = deployment("web-7d9f8")
    replica_set["spec"]["template"]["metadata"]["labels"] = {"app": "web", "pod-template-hash": "7d9f8"}

    recording = Recording((kinds.DEPLOYMENTS, deployment()), (kinds.REPLICA_SETS, replica_set)).begin()

    first, second = [event.object for event in recording.initial if isinstance(event, Initial)]
    assert template_hash(first) == template_hash(second)


def test_the_hash_of_a_template_is_keyed_where_names_are_replaced() -> None:
    hashes = set()
    for rename in (lambda obj: obj, KeyedNames(b"a" * 40).rename, KeyedNames(b"b" * 40).rename):
        events: list[Any] = []
        demand = Demand(events.append, now=lambda: START, rename=rename)
        demand.apply(kinds.DEPLOYMENTS, deployment())
        demand.begin(START)
        hashes.add(template_hash(events[0].object))

    assert len(hashes) == 3


def test_only_fields_that_scheduling_reads_are_kept() -> None:
    recording = Recording((kinds.DEPLOYMENTS, deployment()), (kinds.PODS, pod("bare"))).begin()

    text = msgspec.json.encode(recording.initial).decode()

    for absent in ("hunter2", "registry.example", "jane", "kube-api-access", "not-ready", "dnsPolicy"):
        assert absent not in text
    for present in ("500m", "nodeSelector", '"key":"gpu"'):
        assert present in text


def test_pods_of_workloads_are_part_of_the_initial_state_only() -> None:
    of_workload = pod("web-1", owner="web-7d9", kind="ReplicaSet")
    recording = Recording((kinds.PODS, of_workload)).begin()

    recording.demand.apply(kinds.PODS, pod("web-2", owner="web-7d9", kind="ReplicaSet"))
    recording.demand.delete(kinds.PODS, of_workload)

    assert len(recording.initial) == 1
    assert recording.events == []


def test_pods_of_one_template_share_it_and_end_with_their_run_time() -> None:
    recording = Recording().begin()

    for number, seconds in ((1, 60), (2, 75)):
        recording.demand.apply(kinds.PODS, pod(f"etl-{number}", owner=f"etl-2960000{number}"))
        recording.clock.advance(100)
        done = pod(f"etl-{number}", owner=f"etl-2960000{number}", **ran(seconds))
        recording.demand.apply(kinds.PODS, done)

    template, *rest = recording.events
    assert isinstance(template, Template)
    assert (template.owner, template.workload, template.namespace) == ("Job", "etl", "batch")
    assert template.template["metadata"]["labels"] == {"app": "etl"}
    assert rest == [
        Tasks(t=0, template=template.id, id="uid-etl-1"),
        Finish(t=100, id="uid-etl-1", seconds=60),
        Tasks(t=100, template=template.id, id="uid-etl-2"),
        Finish(t=200, id="uid-etl-2", seconds=75),
    ]


def test_the_pod_after_an_eviction_continues_the_same_task() -> None:
    recording = Recording().begin()
    recording.demand.apply(kinds.PODS, pod("etl-a", owner="etl"))

    recording.demand.apply(kinds.PODS, pod("etl-a", owner="etl", **evicted()))
    recording.demand.apply(kinds.PODS, pod("etl-b", owner="etl"))
    recording.demand.apply(kinds.PODS, pod("etl-b", owner="etl", **ran(40)))

    tasks = [event for event in recording.events if isinstance(event, Tasks)]
    assert [event.id for event in tasks] == ["uid-etl-a"]
    assert recording.events[-1] == Finish(t=0, id="uid-etl-a", seconds=40)


def test_an_evicted_task_that_no_pod_continues_has_ended() -> None:
    recording = Recording().begin()
    recording.demand.apply(kinds.PODS, pod("etl-a", owner="etl"))
    recording.clock.advance(30)
    recording.demand.apply(kinds.PODS, pod("etl-a", owner="etl", **evicted()))

    recording.clock.advance(601)
    recording.demand.apply(kinds.PODS, pod("other", owner="other"))

    assert Finish(t=631, id="uid-etl-a", seconds=30) in recording.events


def test_the_end_of_a_pod_that_ran_from_the_start_is_recorded() -> None:
    running = pod("bare", phase="Running", startTime="2026-03-02T08:00:00Z")
    recording = Recording((kinds.PODS, running)).begin()

    recording.clock.advance(50)
    recording.demand.delete(kinds.PODS, running)

    assert recording.events == [Finish(t=50, id="uid-bare", seconds=50)]


def test_volume_claims_and_volumes_that_controllers_make_are_not_recorded() -> None:
    recording = Recording((kinds.STATEFUL_SETS, deployment("db"))).begin()
    provisioned = {"pv.kubernetes.io/provisioned-by": "ebs.csi.aws.com"}

    for name in ("data-db-0", "cache"):
        claim = {"metadata": {"name": name, "namespace": "shop"}, "spec": {"volumeName": "pvc-1"}}
        recording.demand.apply(kinds.PERSISTENT_VOLUME_CLAIMS, claim)
    recording.demand.apply(
        kinds.PERSISTENT_VOLUMES, {"metadata": {"name": "pvc-1", "annotations": provisioned}, "spec": {}}
    )

    (event,) = recording.events
    assert isinstance(event, Set)
    assert (event.object["metadata"]["name"], event.object["spec"]) == ("cache", {})


def test_an_object_is_deleted_when_it_was_asked_to_go_and_only_once() -> None:
    pool: dict[str, Any] = {"metadata": {"name": "gpu"}, "spec": {}}
    recording = Recording((kinds.NODE_POOLS, pool)).begin()
    terminating = {**pool, "metadata": {"name": "gpu", "deletionTimestamp": "2026-03-02T08:00:01Z"}}

    recording.demand.apply(kinds.NODE_POOLS, terminating)
    recording.demand.delete(kinds.NODE_POOLS, terminating)

    assert recording.events == [Delete(t=0, kind="NodePool", name="gpu")]


def test_a_list_after_an_outage_deletes_what_it_does_not_have() -> None:
    listed = [(kinds.DEPLOYMENTS, deployment(name)) for name in ("web", "api")]
    recording = Recording(*listed).begin()

    relist = recording.demand.begin_relist(kinds.DEPLOYMENTS)
    relist.add([deployment("web", replicas=4)])
    relist.finish("9")

    assert recording.events == [
        Scale(t=0, kind="Deployment", namespace="shop", name="web", replicas=4),
        Delete(t=0, kind="Deployment", namespace="shop", name="api"),
    ]


def test_a_resumed_trace_has_a_gap_and_what_changed_in_it(tmp_path: Path) -> None:
    listed = [(kinds.DEPLOYMENTS, deployment("web")), (kinds.DEPLOYMENTS, deployment("api"))]
    first = Recording(*listed, (kinds.PODS, pod("old"))).begin()
    first.clock.advance(60)
    first.demand.apply(kinds.DEPLOYMENTS, deployment("web", replicas=6))
    with TraceWriter(tmp_path / "t.zst", HEADER) as writer:
        for event in first.all:
            writer.write(event)

    clock = Clock()
    clock.advance(100)
    second = Recording(
        (kinds.DEPLOYMENTS, deployment("web", replicas=2)),
        (kinds.DEPLOYMENTS, deployment("new")),
        (kinds.PODS, pod("late", owner="job")),
        clock=clock,
    )
    header, resumption, _ = read_resumption(tmp_path / "t.zst")
    second.demand.resume(header, resumption)

    assert [type(event).__name__ for event in second.all] == [
        *("Gap", "Set", "Scale", "Template", "Tasks", "Delete", "Finish")
    ]
    assert second.all[0] == Gap(t=100, seconds=40)
    assert second.all[2] == Scale(t=100, kind="Deployment", namespace="shop", name="web", replicas=2)
    assert second.all[5] == Delete(t=100, kind="Deployment", namespace="shop", name="api")
    assert second.all[6] == Finish(t=100, id="uid-old", seconds=60)


def test_anonymous_names_are_the_same_after_a_restart_and_keep_selectors_matching() -> None:
    recorded = []
    for _ in range(2):
        events: list[Any] = []
        demand = Demand(events.append, now=lambda: START, rename=KeyedNames(b"k" * 40).rename)
        demand.apply(kinds.DEPLOYMENTS, deployment("checkout"))
        demand.apply(kinds.PODS, {**pod("checkout-1"), "spec": {"nodeName": "ip-10-0-0-7", "containers": []}})
        demand.apply(kinds.NODES, {"metadata": {"name": "ip-10-0-0-7"}, "spec": {}, "status": {}})
        demand.begin(START)
        recorded.append([event.object for event in events])

    assert recorded[0] == recorded[1]
    text = msgspec.json.encode(recorded[0]).decode().replace("uid-checkout", "")
    assert "checkout" not in text
    assert "ip-10-0-0-7" not in text
    workload, node, of_node = recorded[0]
    assert workload["spec"]["selector"]["matchLabels"] == workload["spec"]["template"]["metadata"]["labels"]
    assert of_node["spec"]["nodeName"] == node["metadata"]["name"]


def test_descriptions_servers_and_names_of_ports_are_not_recorded() -> None:
    volume = {
        "metadata": {"name": "exports"},
        "spec": {
            "capacity": {"storage": "1Ti"},
            "nfs": {"server": "files.example.com", "path": "/home/jane"},
            "mountOptions": ["sec=jane"],
        },
    }
    priority = {"metadata": {"name": "high"}, "value": 10, "description": "ask Jane first"}
    port = {"name": "jane", "containerPort": 80, "hostPort": 80}
    recording = Recording(
        (kinds.PERSISTENT_VOLUMES, volume),
        (kinds.PRIORITY_CLASSES, priority),
        (kinds.PODS, {**pod("a"), "spec": {"containers": [{"name": "main", "ports": [port]}]}}),
    ).begin()

    text = msgspec.json.encode(recording.initial).decode().lower()

    assert "jane" not in text
    assert "example.com" not in text
    assert '"nfs":{}' in text
    assert '"hostport":80' in text


def test_tags_of_instances_are_not_recorded_and_cause_no_drift() -> None:
    selector = {"tags": {"karpenter.sh/discovery": "shop"}}
    spec = {"role": "node", "tags": {"Owner": "jane"}, "subnetSelectorTerms": [selector]}
    node_class: dict[str, Any] = {"metadata": {"name": "default"}, "spec": spec}
    stamped = {EC2_NODE_CLASS_HASH: compute_hash(node_class)}
    claim = {"metadata": {"name": "default-x7k2p", "annotations": stamped}, "spec": {}}

    recording = Recording(
        (kinds.EC2_NODE_CLASSES, {**node_class, "metadata": {"name": "default", "annotations": stamped}}),
        (kinds.NODE_CLAIMS, claim),
    ).begin()

    objects = {
        event.object["kind"]: event.object for event in recording.initial if isinstance(event, Initial)
    }
    recorded, of_claim = objects["EC2NodeClass"], objects["NodeClaim"]
    assert recorded["spec"] == {"role": "node", "subnetSelectorTerms": [selector]}
    hashes = [obj["metadata"]["annotations"][EC2_NODE_CLASS_HASH] for obj in (recorded, of_claim)]
    assert hashes == [compute_hash(recorded)] * 2
    assert hashes != [compute_hash(node_class)] * 2


def compute_hash(node_class: dict[str, Any]) -> str:
    return compute_nodeclass_hash(decode_nodeclass(Field(node_class, DecodeContext(strict=False))))
