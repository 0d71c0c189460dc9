"""Provisioner: triggers, batching, limits and the fields of NodeClaims.

P1, P5 to P9, P13, P52, P56, P57, S56 to S58; of P10 and C12 only the decision
time is measured.
"""

from datetime import timedelta

import pytest

from dovetail.codec.kube.conditions import encode_conditions
from dovetail.core.nodepool.hash import HASH_VERSION, compute_nodepool_hash
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import NodeTemplate
from dovetail.model.kube.pod import OwnerReference
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.resources import Resources
from dovetail.model.settings import BatchSettings
from dovetail.ports.api_resources import NODE_CLAIMS, NODE_POOLS, NODES, POD_DISRUPTION_BUDGETS, PODS
from dovetail.ports.kube_errors import InternalError
from dovetail.simulator.apiserver.options import PatchType
from dovetail.state.cluster.cache import ClusterCache
from tests.support.controllers.provisioning import ProvisioningEnvironment
from tests.support.kube import manifests

DECIDED = "karpenter_pods_scheduling_decision_duration_seconds"
EXCLUSIVE = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "labelSelector": {"matchLabels": {"app": "exclusive"}},
                    "topologyKey": "kubernetes.io/hostname",
                }
            ]
        }
    }
}


def add_exclusive_pod(env: ProvisioningEnvironment, name: str) -> None:
    """Add a pod with anti-affinity to pods of the same app."""
    env.add_pending_pod(name, labels={"app": "exclusive"}, **EXCLUSIVE)


def test_pod_gets_a_nodeclaim_after_an_idle_second() -> None:
    env = ProvisioningEnvironment().start()

    env.add_pending_pod()
    env.wait(0.9)
    early = env.live_claims()
    env.wait(0.2)

    assert early == []
    assert len(env.live_claims()) == 1
    assert env.metrics.values[DECIDED] == [(1.0, {})]


def test_hundred_pods_are_scheduled_together_and_each_is_measured_once() -> None:
    env = ProvisioningEnvironment().start()

    env.add_pending_pods(100)
    env.wait(60)

    assert env.executor.passes == 1
    assert len(env.metrics.values[DECIDED]) == 100
    assert len(env.assignments) == 100


@pytest.mark.parametrize("interval", [0.05, 0.3, 0.9, 1.1])
def test_pods_of_a_steady_stream_are_scheduled_within_three_seconds(interval: float) -> None:
    env = ProvisioningEnvironment().start()
    count = round(12 / interval)

    for number in range(count):
        env.add_pending_pod(f"pod-{number}")
        env.wait(interval)
    env.wait(5)

    durations = [duration for duration, _ in env.metrics.values[DECIDED]]
    assert len(durations) == count
    assert max(durations) <= 3


def test_window_lasts_for_an_explicit_maximum_duration() -> None:
    settings = BatchSettings(max_duration=timedelta(seconds=10))
    env = ProvisioningEnvironment().start(batch_settings=settings)

    for number in range(100):
        env.add_pending_pod(f"pod-{number}")
        env.wait(0.1)
    env.wait(1)

    assert env.executor.passes == 1
    assert max(env.metrics.values[DECIDED])[0] == 10


def test_pod_that_kube_scheduler_has_not_tried_gets_no_nodeclaim() -> None:
    env = ProvisioningEnvironment().start()

    node = env.add(NODES, manifests.node("n1", size={"cpu": "0"}))["metadata"]["uid"]
    agent = env.add_daemon_set("agent", {"cpu": "1"})
    env.add_pending_pod("unseen", seen=False)
    env.add_pending_pod("daemon", owner=manifests.owner("DaemonSet", "agent", uid=agent, controller=True))
    env.add_pending_pod("static", owner=manifests.owner("Node", "n1", uid=node, controller=True))
    env.wait(20)

    assert env.live_claims() == []


def test_deleting_pod_gets_no_nodeclaim() -> None:
    env = ProvisioningEnvironment().start()
    env.add(
        PODS,
        {
            **manifests.pod("deleting", node="", phase="Pending"),
            "metadata": {"name": "deleting", "namespace": "default", "finalizers": ["a.b/keep"]},
            "status": {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "reason": "Unschedulable"}],
            },
        },
    )

    env.delete(PODS, "deleting", "default").wait(20)

    assert env.get(PODS, "deleting", "default") is not None
    assert env.live_claims() == []


@pytest.mark.parametrize("ready", [False, None])
def test_unready_nodepool_is_not_used(ready: bool | None) -> None:
    env = ProvisioningEnvironment().start(pool=False)
    env.add_pool(ready=ready)

    env.add_pending_pod()
    env.wait(5)

    assert env.live_claims() == []
    assert env.events.reasons("pod") == []
    assert len(env.metrics.values[DECIDED]) == 1


def test_pods_get_no_event_while_no_nodepool_is_ready() -> None:
    env = ProvisioningEnvironment().start(pool=False)
    env.add_pool(ready=False)
    env.add_pool("static", replicas=1)

    env.add_pending_pod()
    env.wait(600)

    assert env.events.reasons("pod") == []
    assert len(env.log.entries("no dynamic nodepools found")) == 1


def test_pods_that_no_nodepool_could_serve_get_an_event_while_none_is_ready() -> None:
    env = ProvisioningEnvironment().start(pool=False)
    env.add_pool(ready=False)

    env.add_pending_pod("named", nodeSelector={"kubernetes.io/hostname": "node-1"})
    env.wait(5)

    assert env.events.reasons("named") == ["FailedScheduling"]


def test_pods_get_an_event_if_the_ready_nodepool_has_no_instance_types() -> None:
    env = ProvisioningEnvironment().start()
    env.cloud.types = ()

    env.add_pending_pod()
    env.wait(5)

    assert env.events.reasons("pod") == ["FailedScheduling"]


def test_pods_that_exclude_all_nodepools_get_no_event() -> None:
    env = ProvisioningEnvironment().start()
    term = {"matchExpressions": [{"key": label_keys.NODEPOOL, "operator": "DoesNotExist"}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}

    env.add_pending_pod(affinity={"nodeAffinity": required})
    env.wait(60)

    assert env.live_claims() == []
    assert env.events.reasons("pod") == []


def test_deleting_static_or_unsupported_nodepool_is_not_used() -> None:
    env = ProvisioningEnvironment().start(pool=False)
    env.add_pool("static", replicas=1)
    env.add_pool("unsupported", template=NodeTemplate(node_class=manifests.FOREIGN_NODE_CLASS))
    env.add_pool("deleting")
    env.patch(NODE_POOLS, "deleting", {"metadata": {"finalizers": ["example.com/keep"]}})
    env.delete(NODE_POOLS, "deleting")

    env.add_pending_pod()
    env.wait(5)

    assert env.live_claims() == []


def test_pods_are_scheduled_a_second_after_their_nodepool_becomes_ready() -> None:
    env = ProvisioningEnvironment().start(pool=False)
    env.add_pool(ready=False)
    env.add_pending_pod()
    env.wait(3)

    conditions = [{"type": "Ready", "status": "True", "reason": "Ready"}]
    env.patch(NODE_POOLS, "default", {"status": {"conditions": conditions}}, subresource="status")
    env.wait(1.1)

    assert len(env.live_claims()) == 1


def test_changed_nodepool_without_pending_pods_triggers_no_simulation() -> None:
    env = ProvisioningEnvironment().start()

    env.patch(NODE_POOLS, "default", {"spec": {"weight": 3}})
    env.wait(30)

    assert env.executor.passes == 0


def test_unschedulable_pod_gets_an_event_and_is_retried_after_ten_seconds() -> None:
    env = ProvisioningEnvironment().start()

    env.add_pending_pod("huge", requests={"cpu": "900"})
    env.wait(2)
    events = [event for event in env.events.published if event.name == "huge"]
    passes = env.executor.passes
    env.wait(11)

    assert [(event.reason, event.warning) for event in events] == [("FailedScheduling", True)]
    assert events[0].message.startswith("nodepool default: ")
    assert (passes, env.executor.passes) == (1, 2)
    assert env.metrics.total("karpenter_scheduler_unschedulable_pods_count") == 1


def test_nodepool_whose_min_values_exclude_every_type_gets_an_event() -> None:
    env = ProvisioningEnvironment().start(pool=False)
    key = "node.kubernetes.io/instance-type"
    many = RequirementSpec(key, Operator.EXISTS, min_values=50)
    env.add_pool(template=NodeTemplate(requirements=(many,)))

    env.add_pending_pod()
    env.wait(3)

    [event] = [event for event in env.events.published if event.name == "default"]
    assert (event.reason, event.warning) == ("NoCompatibleInstanceTypes", True)
    assert "minValues exclude all available instance types" in event.message
    assert f"{key}: " in event.message


def test_pods_with_the_same_reason_share_a_log_line_and_each_get_an_event() -> None:
    env = ProvisioningEnvironment().start()

    names = env.add_pending_pods(7, requests={"cpu": "900"})
    env.wait(2)

    (line,) = env.log.entries("could not schedule pod")
    assert line["pod"].endswith("default/pod-4 and 2 other(s)")
    assert all(env.events.reasons(name) == ["FailedScheduling"] for name in names)


def test_unschedulable_pods_are_logged_once_in_five_minutes() -> None:
    env = ProvisioningEnvironment().start()
    env.add_pending_pod("huge", requests={"cpu": "900"})
    env.wait(120)
    assert len(env.log.entries("could not schedule pod")) == 1

    env.add_pending_pod("huge-too", requests={"cpu": "900"})
    env.wait(2)
    assert len(env.log.entries("could not schedule pod")) == 2

    env.wait(320)
    assert len(env.log.entries("could not schedule pod")) == 3


def test_nodeclaim_has_labels_and_hash_of_its_nodepool_at_scheduling_time() -> None:
    env = ProvisioningEnvironment()
    template = NodeTemplate(
        labels=FrozenDict({"team": "a"}),
        annotations=FrozenDict({"note": "b"}),
        requirements=(RequirementSpec("size", Operator.IN, ("small",)),),
    )
    env.add_pool(template=template)
    env.start(pool=False)

    def relabel(team: str) -> None:
        labels = {"spec": {"template": {"metadata": {"labels": {"team": team}}}}}
        env.api.patch(NODE_POOLS, "default", labels, PatchType.MERGE)

    decided_on = compute_nodepool_hash(env.pool())
    env.executor.meanwhile = lambda: relabel("b")

    env.add_pending_pod()
    env.wait(2)

    (name,) = env.live_claims()
    claim = env.claim(name)
    pool = env.pool()
    assert name.startswith("default-")
    assert claim.owner_references == (
        OwnerReference("karpenter.sh/v1", "NodePool", "default", pool.uid, False),
    )
    assert claim.labels["team"] == "a"
    assert claim.labels[label_keys.NODEPOOL] == "default"
    assert claim.labels[label_keys.EC2_NODE_CLASS] == "default"
    assert claim.annotations["note"] == "b"
    assert claim.annotations[label_keys.NODEPOOL_HASH] == decided_on
    assert claim.annotations[label_keys.NODEPOOL_HASH_VERSION] == HASH_VERSION
    assert claim.requests == Resources.parse({"cpu": 1, "pods": 1})
    assert env.events.reasons("pod") == ["Nominated"]


def test_limits_count_unlaunched_nodeclaims_of_earlier_simulations() -> None:
    env = ProvisioningEnvironment()
    env.add_pool(limits=Resources.parse({"cpu": 20}))
    env.start(pool=False)

    add_exclusive_pod(env, "first")
    env.wait(2)
    add_exclusive_pod(env, "second")
    env.wait(2)

    # The first may become a node of 16 CPU, which leaves 4 CPU for the second.
    assert len(env.live_claims()) == 2
    requirements = env.claim(env.claims_for("second")[0]).requirements
    assert next(spec.values for spec in requirements if spec.key == label_keys.INSTANCE_TYPE) == (
        "default",
        "gpu-a",
        "gpu-b",
        "single-pod",
        "small",
    )


def test_node_limit_counts_unlaunched_nodeclaims() -> None:
    env = ProvisioningEnvironment()
    env.add_pool(limits=Resources({"nodes": 2}))
    env.start(pool=False)

    for name in ("first", "second", "third"):
        add_exclusive_pod(env, name)
        env.wait(2)

    assert len(env.live_claims()) == 2
    assert "FailedScheduling" in env.events.reasons("third")


def test_deleting_nodeclaims_free_limit_headroom() -> None:
    env = ProvisioningEnvironment()
    env.add_pool(limits=Resources({"nodes": 1}))
    env.start(pool=False)
    add_exclusive_pod(env, "first")
    env.wait(2)
    add_exclusive_pod(env, "second")
    env.wait(2)

    env.delete(PODS, "first", "default")
    env.delete(NODE_CLAIMS, env.live_claims()[0])
    env.wait(2)

    assert len(env.claims_for("second")) == 1


def test_a_deleted_node_counts_in_the_limits_until_its_nodeclaim_is_deleted() -> None:
    env = ProvisioningEnvironment()
    env.add_pool(limits=Resources({"nodes": 1}))
    env.start(pool=False)
    env.add_pending_pod()
    env.wait(2)
    (old,) = env.live_claims()
    node = env.make_ready(old)
    env.bind_all()

    env.patch(NODES, node, {"metadata": {"finalizers": ["karpenter.sh/termination"]}})
    env.delete(NODES, node)
    env.wait(20)
    before = env.live_claims()
    env.delete_claim(old)
    env.wait(20)

    assert before == [old]
    assert len(env.live_claims()) == 1
    assert env.live_claims() != [old]


def test_pods_of_a_deleting_node_get_a_nodeclaim_once_before_their_eviction() -> None:
    env = ProvisioningEnvironment().start()
    names = env.add_pending_pods(3)
    env.wait(2)
    (old,) = env.live_claims()
    env.make_ready(old)
    env.bind_all()

    env.delete_claim(old)
    env.wait(2)
    after = env.live_claims()
    env.wait(60)

    assert len(after) == 1
    assert env.live_claims() == after
    assert all(env.claims_for(name)[1:] == after for name in names)


def test_replacement_of_a_deleting_node_is_created_within_a_second() -> None:
    env = ProvisioningEnvironment().start()
    env.add_pending_pods(3)
    env.wait(2)
    (old,) = env.live_claims()
    env.make_ready(old)
    env.bind_all()

    env.delete_claim(old)
    env.wait(0.2)

    assert len(env.live_claims()) == 1


@pytest.mark.parametrize(
    "protected", [{"annotations": {label_keys.DO_NOT_DISRUPT: "true"}}, {"labels": {"app": "protected"}}]
)
def test_pods_that_cannot_be_evicted_get_no_nodeclaim_beforehand(
    protected: dict[str, dict[str, str]],
) -> None:
    env = ProvisioningEnvironment().start()
    budget = {"selector": {"matchLabels": {"app": "protected"}}, "maxUnavailable": 0}
    meta = {"name": "none", "namespace": "default"}
    env.add(POD_DISRUPTION_BUDGETS, {"metadata": meta, "spec": budget})
    env.add_pending_pod()
    env.wait(2)
    (old,) = env.live_claims()
    env.make_ready(old)
    env.bind_all()
    env.patch(PODS, "pod", {"metadata": protected}, "default")

    env.delete_claim(old)
    env.wait(30)

    assert env.live_claims() == []


def test_deleting_node_with_daemonset_pods_only_triggers_no_simulation() -> None:
    env = ProvisioningEnvironment().start()
    env.add_pending_pod()
    env.wait(2)
    (old,) = env.live_claims()
    node = env.make_ready(old)
    env.bind_all()
    agent = env.add_daemon_set("agent", {"cpu": "100m"})
    daemon = manifests.owner("DaemonSet", "agent", uid=agent, controller=True)
    env.add(PODS, manifests.pod("agent", node=node, owner=daemon))
    env.delete(PODS, "pod", "default")
    env.wait(15)
    passes = env.executor.passes

    env.delete_claim(old)
    env.wait(120)

    assert env.executor.passes <= passes + 1


def test_second_reconcile_changes_nothing() -> None:
    env = ProvisioningEnvironment().start()
    env.add_pending_pods(5)
    env.add_pending_pod("huge", requests={"cpu": "900"})
    env.wait(2)
    before = env.versions()

    env.manager.enqueue("provisioner", "")
    env.wait(120)

    assert env.versions() == before


def test_nothing_is_scheduled_before_the_cache_has_synced() -> None:
    env = ProvisioningEnvironment()
    env.cache = ClusterCache()
    env.assignments = type(env.assignments)(env.cache)
    env.add_pool()
    env.start(pool=False)
    env.add_pending_pod()
    env.cache.apply_event(PODS, env.api.get(PODS, "pod", "default"))

    env.wait(30)
    unsynced = env.executor.passes
    for kind in env.cache.stores:
        env.cache.replace(kind, env.api.list(kind).items)
    env.wait(3)

    assert unsynced == 0
    assert env.executor.passes == 1


def test_failed_creation_is_retried_and_other_nodeclaims_are_kept() -> None:
    env = ProvisioningEnvironment().start()
    env.failing_client.fail("create", NODE_CLAIMS, InternalError("etcd is down"))
    add_exclusive_pod(env, "first")
    add_exclusive_pod(env, "second")

    env.wait(5)

    assert len(env.live_claims()) == 2
    assert len(env.assignments) == 2
    assert len(env.log.entries("reconciler error")) == 1


def test_conditions_of_a_pending_nodeclaim_trigger_no_simulation() -> None:
    env = ProvisioningEnvironment().start()
    env.add_pending_pod()
    env.wait(2)
    (name,) = env.live_claims()

    env.launch(name)
    conditions = encode_conditions(env.claim(name).conditions)
    env.patch(NODE_CLAIMS, name, {"status": {"conditions": conditions}}, subresource="status")
    env.wait(120)

    assert env.executor.passes == 1
