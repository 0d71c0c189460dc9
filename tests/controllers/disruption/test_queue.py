"""Replacements are completed or rolled back: QU1–QU13, DR16, DR19."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from dovetail.controllers.disruption import controller as disruption
from dovetail.controllers.disruption import queue
from dovetail.controllers.disruption.queue import NAME
from dovetail.controllers.provisioning import provisioner
from dovetail.model import labels as label_keys
from dovetail.model.kube.taints import DISRUPTED_TAINT
from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS
from dovetail.ports.kube_errors import Timeout
from dovetail.ports.metrics import NODECLAIMS_DISRUPTED
from tests.support.controllers.disruption import DisruptionEnvironment
from tests.support.controllers.environment import condition
from tests.support.controllers.running_nodes import provider_id_of


def an_environment(*nodes: str, pods: int = 1, cpu: str = "3") -> DisruptionEnvironment:
    """Return an environment of drifted nodes whose pods fit on no other node."""
    env = DisruptionEnvironment()
    env.add_pool(after=None)
    for node in nodes or ("node",):
        env.add_node(node, drifted=env.now - timedelta(minutes=5))
        for number in range(pods):
            env.add_app_pod(f"web-{node}-{number}", node, cpu=cpu)
    return env


def test_node_stays_tainted_while_its_replacement_starts() -> None:
    env = an_environment().start()

    env.wait(599)

    assert env.disrupted_nodes() == ["node"]
    assert env.deleting_claims() == []
    assert env.log.entries("disruption failed, its node(s) are kept") == []


def test_after_ten_minutes_the_taint_is_removed_and_the_replacement_kept() -> None:
    env = an_environment().start()
    (new,) = env.replacements()
    env.mark_launched(new)

    env.wait(600)

    assert env.disrupted_nodes() == []
    assert condition(env.claim().conditions, "DisruptionReason") == ("", "")
    assert not env.claim(new).deleting
    failures = "karpenter_voluntary_disruption_queue_failures_total"
    assert env.metrics.total(failures, reason="drifted", decision="replace") == 1


def test_failures_of_each_method_are_counted_from_zero() -> None:
    """Prometheus sees no increase in a series that begins at 1."""
    env = an_environment().start()

    series = env.metrics.values["karpenter_voluntary_disruption_queue_failures_total"]

    assert {value for value, _ in series} == {0}
    assert {(labels["reason"], labels["consolidation_type"]) for _, labels in series} >= {
        ("drifted", ""),
        ("underutilized", "single"),
        ("underutilized", "multi"),
    }


def test_deletion_by_the_queue_reports_the_labels_of_the_nodeclaim() -> None:
    env = an_environment().start()
    (new,) = env.replacements()

    env.mark_launched(new)
    env.make_ready(new)

    ((_, labels),) = env.metrics.values[NODECLAIMS_DISRUPTED.name]
    assert labels == {
        "reason": "drifted",
        "nodepool": "default",
        "capacity_type": "on-demand",
        "consolidation_policy": "",
        "termination_mode": "graceful",
    }


def test_events_are_published_on_the_replacement_and_then_on_the_node() -> None:
    env = an_environment().start()
    (new,) = env.replacements()

    env.mark_launched(new)
    env.make_ready(new)

    reasons = env.events.reasons(new)
    assert reasons == ["DisruptionLaunching", "DisruptionWaitingReadiness"]
    assert env.events.reasons("node")[-1] == "DisruptionTerminating"
    assert env.events.reasons("claim")[-1] == "DisruptionTerminating"


def test_all_replacements_must_be_initialized() -> None:
    env = an_environment(pods=2, cpu="5").start()
    first, second = env.replacements()

    env.make_ready(first, cpu="8")
    before = env.deleting_claims()
    env.make_ready(second, cpu="8")

    assert before == []
    assert env.deleting_claims() == ["claim"]


def test_replacements_do_not_wait_for_each_other() -> None:
    env = an_environment("node-a", "node-b").start()
    first, second = env.replacements()
    by_node = {
        env.claim(name).annotations[label_keys.REPLACES_ANNOTATION].partition("/")[0]: name
        for name in (first, second)
    }

    env.make_ready(by_node["claim-b"])

    assert env.deleting_claims() == ["claim-b"]
    assert env.disrupted_nodes() == ["node-a", "node-b"]


def test_deleted_replacement_rolls_back_at_once() -> None:
    env = an_environment().start()
    (new,) = env.replacements()

    env.delete(NODE_CLAIMS, new)

    assert env.disrupted_nodes() == []
    assert condition(env.claim().conditions, "DisruptionReason") == ("", "")


def test_deleting_one_of_two_replacements_rolls_back_and_keeps_the_other() -> None:
    env = an_environment(pods=2, cpu="5").start()
    first, second = env.replacements()
    env.wait(31)

    env.delete(NODE_CLAIMS, first)

    assert env.disrupted_nodes() == []
    assert not env.claim(second).deleting
    assert label_keys.REPLACES_ANNOTATION not in env.claim(second).annotations


def test_removed_taint_rolls_back() -> None:
    env = an_environment().start()

    env.patch(NODES, "node", {"spec": {"taints": None}})

    assert env.replacements() == []
    assert condition(env.claim().conditions, "DisruptionReason") == ("", "")


def test_deleting_the_replaced_node_is_no_failure() -> None:
    env = an_environment().start()

    env.delete(NODE_CLAIMS, "claim")
    env.wait(700)

    assert env.log.entries("disruption failed, its node(s) are kept") == []


def test_failed_deletion_is_retried() -> None:
    env = an_environment().start()
    env.failing_client.fail("delete", NODE_CLAIMS, Timeout("no answer"))

    env.make_ready(env.replacements()[0])
    env.wait(1)

    assert env.deleting_claims() == ["claim"]


def test_failed_creation_of_a_replacement_rolls_back() -> None:
    env = an_environment(pods=2, cpu="5")
    env.failing_client.fail("create", NODE_CLAIMS, Timeout("no answer"))

    env.run(queue.controller, disruption.controller).wait(0)
    created = len(env.replacements())
    env.wait(31)

    assert created == 1
    assert len(env.log.entries("disruption failed, its node(s) are kept")) == 1


def test_provisioner_creates_no_nodeclaim_for_pods_that_have_a_replacement() -> None:
    env = an_environment("node-a", "node-b")
    env.run(disruption.controller, queue.controller, provisioner.controller)

    env.wait(120)

    assert len(env.cache.claims()) == 2 + 2


def test_provisioner_creates_no_nodeclaim_while_the_replaced_node_drains() -> None:
    env = an_environment()
    env.run(disruption.controller, queue.controller, provisioner.controller)
    (new,) = env.replacements()

    env.make_ready(new)
    env.wait(300)

    assert env.deleting_claims() == ["claim"]
    assert sorted(claim.name for claim in env.cache.claims()) == sorted(["claim", new])


def test_target_of_moving_pods_is_not_disrupted() -> None:
    env = DisruptionEnvironment()
    env.add_pool()
    env.add_node("node-old", drifted=env.now - timedelta(minutes=5))
    env.add_node("node-free")
    env.add_app_pod("web", "node-old")

    env.run(disruption.controller, queue.controller, provisioner.controller)
    env.wait(300)

    assert env.deleting_claims() == ["claim-old"]


@pytest.mark.parametrize("when", ["started", "launched", "ready"])
def test_replacement_continues_after_a_restart(when: str) -> None:
    env = an_environment()
    env.run(disruption.controller, queue.controller, provisioner.controller)
    (new,) = env.replacements()
    steps: dict[str, Callable[[], object]] = {
        "started": lambda: None,
        "launched": lambda: env.mark_launched(new),
        "ready": lambda: None,
    }

    steps[when]()
    env.restart().wait(60)
    after_restart = (env.disrupted_nodes(), len(env.cache.claims()))
    env.make_ready(new)
    env.wait(60)

    assert after_restart == (["node"], 2)
    assert env.deleting_claims() == ["claim"]
    assert sorted(claim.name for claim in env.cache.claims()) == sorted(["claim", new])


def test_timeout_of_a_replacement_counts_across_a_restart() -> None:
    env = an_environment().start().wait(590)

    env.restart().wait(11)

    assert env.disrupted_nodes() == []


def test_replacements_can_follow_each_other() -> None:
    env = an_environment()
    env.start()
    (first,) = env.replacements()
    node = env.make_ready(first)
    for resource, name in ((NODE_CLAIMS, "claim"), (NODES, "node")):
        env.patch(resource, name, {"metadata": {"finalizers": None}})
    env.delete(NODES, "node")
    env.delete(PODS, "web-node-0", "default")

    env.add_app_pod("again", node, cpu="3")
    conditions = env.get(NODE_CLAIMS, first)["status"]["conditions"]
    conditions.append({"type": "Drifted", "status": "True", "reason": "NodePoolDrifted"})
    env.patch(NODE_CLAIMS, first, {"status": {"conditions": conditions}}, subresource="status")
    env.wait(40)

    assert env.disrupted_nodes() == [node]
    assert len(env.replacements()) == 2
    assert provider_id_of(node) == env.claim(first).provider_id


def test_second_reconcile_changes_nothing() -> None:
    env = an_environment().start()
    (new,) = env.replacements()
    before = env.versions()

    env.manager.enqueue(NAME, new)
    env.wait(0)

    assert env.versions() == before
    assert DISRUPTED_TAINT in env.node().taints
