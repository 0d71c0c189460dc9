"""Pods that wait get nodes: who asks, when it is decided, what a claim says.

P1, P5 to P9, P13, P52, P56, P57, S56 to S58; of P10 and C12 only the decision
time is kept, as nothing reads the others.
"""

import pytest

from dovetail.codec.kube.conditions import show_conditions
from dovetail.core.nodepool.hash import HASH_VERSION, pool_hash
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.nodepool import NodeTemplate
from dovetail.model.kube.pod import Owner
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.resources import Resources
from dovetail.ports.api_resources import (
    NODE_CLAIMS,
    NODE_POOLS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    PODS,
)
from dovetail.ports.kube_errors import InternalError
from dovetail.simulator.apiserver.options import PatchType
from dovetail.state.cluster.cache import Mirror
from tests.support import wire
from tests.support.shop import Shop

DECIDED = "karpenter_pods_scheduling_decision_duration_seconds"
ALONE = {
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "labelSelector": {"matchLabels": {"app": "alone"}},
                    "topologyKey": "kubernetes.io/hostname",
                }
            ]
        }
    }
}


def alone(shop: Shop, name: str) -> None:
    """A pod that shares its node with no other of its kind."""
    shop.pod_waits(name, labels={"app": "alone"}, **ALONE)


def test_a_pod_gets_one_node_when_nobody_else_has_come_for_a_second() -> None:
    shop = Shop().open()

    shop.pod_waits()
    shop.wait(0.9)
    early = shop.bought()
    shop.wait(0.2)

    assert early == []
    assert len(shop.bought()) == 1
    assert shop.metrics.values[DECIDED] == [(1.0, {})]


def test_a_hundred_pods_are_decided_together_and_each_is_measured_once() -> None:
    shop = Shop().open()

    shop.pods(100)
    shop.wait(60)

    assert shop.offload.passes == 1
    assert len(shop.metrics.values[DECIDED]) == 100
    assert len(shop.promises) == 100


def test_pods_that_keep_coming_are_served_after_ten_seconds_at_the_latest() -> None:
    shop = Shop().open()

    for number in range(20):
        shop.pod_waits(f"pod-{number}")
        shop.wait(0.5)

    assert shop.offload.passes == 1
    assert len(shop.promises) >= 19


def test_a_pod_that_nobody_tried_to_bind_is_not_bought_for() -> None:
    shop = Shop().open()

    node = shop.add(NODES, wire.node("n1", size={"cpu": "0"}))["metadata"]["uid"]
    agent = shop.daemon_set("agent", {"cpu": "1"})
    shop.pod_waits("unseen", seen=False)
    shop.pod_waits("daemon", owner=wire.owner("DaemonSet", "agent", uid=agent, controller=True))
    shop.pod_waits("static", owner=wire.owner("Node", "n1", uid=node, controller=True))
    shop.wait(20)

    assert shop.bought() == []


def test_a_pod_that_is_being_deleted_is_not_bought_for() -> None:
    shop = Shop().open()
    shop.add(
        PODS,
        {
            **wire.pod("going", node="", phase="Pending"),
            "metadata": {"name": "going", "namespace": "default", "finalizers": ["a.b/keep"]},
            "status": {
                "phase": "Pending",
                "conditions": [{"type": "PodScheduled", "reason": "Unschedulable"}],
            },
        },
    )

    shop.delete(PODS, "going", "default").wait(20)

    assert shop.get(PODS, "going", "default") is not None
    assert shop.bought() == []


@pytest.mark.parametrize("ready", [False, None])
def test_a_pool_that_is_not_known_to_be_ready_is_not_used(ready: bool | None) -> None:
    shop = Shop().open(pool=False)
    shop.add_pool(ready=ready)

    shop.pod_waits()
    shop.wait(5)

    assert shop.bought() == []
    assert shop.events.about("pod") == ["FailedScheduling"]
    assert len(shop.metrics.values[DECIDED]) == 1


def test_a_pool_that_is_being_deleted_or_static_or_somebody_elses_is_not_used() -> None:
    shop = Shop().open(pool=False)
    shop.add_pool("static", replicas=1)
    shop.add_pool("theirs", template=NodeTemplate(node_class=wire.SOMEBODY_ELSES))
    shop.add_pool("going")
    shop.patch(NODE_POOLS, "going", {"metadata": {"finalizers": ["example.com/keep"]}})
    shop.delete(NODE_POOLS, "going")

    shop.pod_waits()
    shop.wait(5)

    assert shop.bought() == []


def test_pods_are_bought_for_a_second_after_their_pool_has_become_ready() -> None:
    shop = Shop().open(pool=False)
    shop.add_pool(ready=False)
    shop.pod_waits()
    shop.wait(3)

    told = [{"type": "Ready", "status": "True", "reason": "Ready"}]
    shop.patch(NODE_POOLS, "default", {"status": {"conditions": told}}, subresource="status")
    shop.wait(1.1)

    assert len(shop.bought()) == 1


def test_a_pool_that_changes_while_nobody_waits_costs_no_decision() -> None:
    shop = Shop().open()

    shop.patch(NODE_POOLS, "default", {"spec": {"weight": 3}})
    shop.wait(30)

    assert shop.offload.passes == 0


def test_a_pod_that_fits_nowhere_is_told_why_and_tried_again_after_ten_seconds() -> None:
    shop = Shop().open()

    shop.pod_waits("huge", requests={"cpu": "900"})
    shop.wait(2)
    told = [one for one in shop.events.told if one.name == "huge"]
    passes = shop.offload.passes
    shop.wait(11)

    assert [(one.reason, one.warning) for one in told] == [("FailedScheduling", True)]
    assert told[0].message.startswith("nodepool default: ")
    assert (passes, shop.offload.passes) == (1, 2)
    assert shop.metrics.total("karpenter_scheduler_unschedulable_pods_count") == 1


def test_pods_that_fail_alike_share_a_line_in_the_log_and_each_have_an_event() -> None:
    shop = Shop().open()

    names = shop.pods(7, requests={"cpu": "900"})
    shop.wait(2)

    (line,) = shop.log.said("could not schedule pod")
    assert line["pod"].endswith("default/pod-4 and 2 other(s)")
    assert all(shop.events.about(name) == ["FailedScheduling"] for name in names)


def test_the_log_says_once_in_five_minutes_why_the_same_pods_wait() -> None:
    shop = Shop().open()
    shop.pod_waits("huge", requests={"cpu": "900"})
    shop.wait(120)
    assert len(shop.log.said("could not schedule pod")) == 1

    shop.pod_waits("huge-too", requests={"cpu": "900"})
    shop.wait(2)
    assert len(shop.log.said("could not schedule pod")) == 2

    shop.wait(320)
    assert len(shop.log.said("could not schedule pod")) == 3


def test_a_claim_says_what_its_pool_was_like_when_it_was_decided() -> None:
    shop = Shop()
    template = NodeTemplate(
        labels=FrozenDict({"team": "a"}),
        annotations=FrozenDict({"note": "b"}),
        requirements=(RequirementSpec("size", Operator.IN, ("small",)),),
    )
    shop.add_pool(template=template)
    shop.open(pool=False)

    def relabel(team: str) -> None:
        labels = {"spec": {"template": {"metadata": {"labels": {"team": team}}}}}
        shop.api.patch(NODE_POOLS, "default", labels, PatchType.MERGE)

    decided_on = pool_hash(shop.pool())
    shop.offload.meanwhile = lambda: relabel("b")

    shop.pod_waits()
    shop.wait(2)

    (name,) = shop.bought()
    claim = shop.claim(name)
    pool = shop.pool()
    assert name.startswith("default-")
    assert claim.owners == (Owner("karpenter.sh/v1", "NodePool", "default", pool.uid, False),)
    assert claim.labels["team"] == "a"
    assert claim.labels[label_keys.NODEPOOL] == "default"
    assert claim.labels[label_keys.EC2_NODE_CLASS] == "default"
    assert claim.annotations["note"] == "b"
    assert claim.annotations[label_keys.NODEPOOL_HASH] == decided_on
    assert claim.annotations[label_keys.NODEPOOL_HASH_VERSION] == HASH_VERSION
    assert claim.requests == Resources.parse({"cpu": 1, "pods": 1})
    assert shop.events.about("pod") == ["Nominated"]


def test_limits_hold_over_passes_while_nothing_is_launched_yet() -> None:
    shop = Shop()
    shop.add_pool(limits=Resources.parse({"cpu": 20}))
    shop.open(pool=False)

    alone(shop, "first")
    shop.wait(2)
    alone(shop, "second")
    shop.wait(2)

    # The first may still become the 16-CPU type, which leaves room for one of 4.
    assert len(shop.bought()) == 2
    kinds = shop.claim(shop.bought_for("second")[0]).requirements
    assert next(one.values for one in kinds if one.key == label_keys.INSTANCE_TYPE) == (
        "default",
        "gpu-a",
        "gpu-b",
        "single-pod",
        "small",
    )


def test_a_limit_on_nodes_counts_claims_that_are_not_launched() -> None:
    shop = Shop()
    shop.add_pool(limits=Resources({"nodes": 2}))
    shop.open(pool=False)

    for name in ("first", "second", "third"):
        alone(shop, name)
        shop.wait(2)

    assert len(shop.bought()) == 2
    assert "FailedScheduling" in shop.events.about("third")


def test_claims_that_go_make_room_under_the_limit() -> None:
    shop = Shop()
    shop.add_pool(limits=Resources({"nodes": 1}))
    shop.open(pool=False)
    alone(shop, "first")
    shop.wait(2)
    alone(shop, "second")
    shop.wait(2)

    shop.delete(PODS, "first", "default")
    shop.delete(NODE_CLAIMS, shop.bought()[0])
    shop.wait(2)

    assert len(shop.bought_for("second")) == 1


def test_pods_on_a_node_that_goes_get_room_before_they_are_evicted_and_only_once() -> None:
    shop = Shop().open()
    names = shop.pods(3)
    shop.wait(2)
    (old,) = shop.bought()
    shop.bring_up(old)
    shop.bind_all()

    shop.retire(old)
    shop.wait(2)
    after = shop.bought()
    shop.wait(60)

    assert len(after) == 1
    assert shop.bought() == after
    assert all(shop.bought_for(name)[1:] == after for name in names)


def test_what_replaces_a_node_that_goes_is_asked_for_within_a_second() -> None:
    shop = Shop().open()
    shop.pods(3)
    shop.wait(2)
    (old,) = shop.bought()
    shop.bring_up(old)
    shop.bind_all()

    shop.retire(old)
    shop.wait(0.2)

    assert len(shop.bought()) == 1


@pytest.mark.parametrize(
    "protected",
    [
        {"annotations": {label_keys.DO_NOT_DISRUPT: "true"}},
        {"labels": {"app": "guarded"}},
    ],
)
def test_pods_that_may_not_be_moved_get_no_room_beforehand(
    protected: dict[str, dict[str, str]],
) -> None:
    shop = Shop().open()
    budget = {"selector": {"matchLabels": {"app": "guarded"}}, "maxUnavailable": 0}
    meta = {"name": "none", "namespace": "default"}
    shop.add(POD_DISRUPTION_BUDGETS, {"metadata": meta, "spec": budget})
    shop.pod_waits()
    shop.wait(2)
    (old,) = shop.bought()
    shop.bring_up(old)
    shop.bind_all()
    shop.patch(PODS, "pod", {"metadata": protected}, "default")

    shop.retire(old)
    shop.wait(30)

    assert shop.bought() == []


def test_a_node_that_goes_with_only_daemons_left_costs_no_decisions() -> None:
    shop = Shop().open()
    shop.pod_waits()
    shop.wait(2)
    (old,) = shop.bought()
    node = shop.bring_up(old)
    shop.bind_all()
    agent = shop.daemon_set("agent", {"cpu": "100m"})
    daemon = wire.owner("DaemonSet", "agent", uid=agent, controller=True)
    shop.add(PODS, wire.pod("agent", node=node, owner=daemon))
    shop.delete(PODS, "pod", "default")
    shop.wait(15)
    passes = shop.offload.passes

    shop.retire(old)
    shop.wait(120)

    assert shop.offload.passes <= passes + 1


def test_a_second_pass_changes_nothing() -> None:
    shop = Shop().open()
    shop.pods(5)
    shop.pod_waits("huge", requests={"cpu": "900"})
    shop.wait(2)
    before = shop.versions()

    shop.runtime.ask("provisioner", "")
    shop.wait(120)

    assert shop.versions() == before


def test_nothing_is_decided_on_half_a_picture() -> None:
    shop = Shop()
    shop.mirror = Mirror()
    shop.promises = type(shop.promises)(shop.mirror)
    shop.add_pool()
    shop.open(pool=False)
    shop.pod_waits()
    shop.mirror.put(PODS, shop.api.get(PODS, "pod", "default"))

    shop.wait(30)
    blind = shop.offload.passes
    for kind in shop.mirror.tables:
        shop.mirror.replace(kind, shop.api.list(kind).items)
    shop.wait(3)

    assert blind == 0
    assert shop.offload.passes == 1


def test_a_claim_that_cannot_be_written_is_planned_again_and_the_others_stand() -> None:
    shop = Shop().open()
    shop.faults.fail("create", NODE_CLAIMS, InternalError("etcd is down"))
    alone(shop, "first")
    alone(shop, "second")

    shop.wait(5)

    assert len(shop.bought()) == 2
    assert len(shop.promises) == 2
    assert len(shop.log.said("reconciler error")) == 1


def test_conditions_of_the_claim_that_is_waited_for_do_not_trigger_decisions() -> None:
    shop = Shop().open()
    shop.pod_waits()
    shop.wait(2)
    (name,) = shop.bought()

    shop.launch(name)
    told = show_conditions(shop.claim(name).conditions)
    shop.patch(NODE_CLAIMS, name, {"status": {"conditions": told}}, subresource="status")
    shop.wait(120)

    assert shop.offload.passes == 1
