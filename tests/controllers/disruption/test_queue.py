"""Replacements under way are finished, or rolled back: QU1–QU13, DR16, DR19."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from dovetail.controllers.disruption.controller import Disruption
from dovetail.controllers.disruption.queue import NAME, Replacing
from dovetail.controllers.provisioning.provisioner import Provisioning
from dovetail.model import labels as label_keys
from dovetail.model.kube.taints import DISRUPTED
from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS
from dovetail.ports.kube_errors import Timeout
from tests.support.fleet import provider_id_of
from tests.support.replaced import Yard
from tests.support.world import condition


def a_yard(*nodes: str, pods: int = 1, cpu: str = "3") -> Yard:
    """Drifted nodes, each with pods that need a node of their own."""
    yard = Yard()
    yard.add_pool(after=None)
    for node in nodes or ("node",):
        yard.machine(node, drifted=yard.now - timedelta(minutes=5))
        for number in range(pods):
            yard.app_pod(f"web-{node}-{number}", node, cpu=cpu)
    return yard


def test_a_node_stays_marked_while_its_replacement_starts_and_nothing_fails() -> None:
    yard = a_yard().open()

    yard.wait(599)

    assert yard.marked() == ["node"]
    assert yard.leaving() == []
    assert yard.log.said("disruption failed, its node(s) live on") == []


def test_after_ten_minutes_the_node_is_freed_and_the_replacement_kept() -> None:
    yard = a_yard().open()
    (new,) = yard.replacements()
    yard.launched(new)

    yard.wait(600)

    assert yard.marked() == []
    assert condition(yard.claim().conditions, "DisruptionReason") == ("", "")
    assert not yard.claim(new).deleting
    failures = "karpenter_voluntary_disruption_queue_failures_total"
    assert yard.metrics.total(failures, reason="drifted", decision="replace") == 1


def test_the_steps_are_told_on_the_replacement_and_then_on_the_node() -> None:
    yard = a_yard().open()
    (new,) = yard.replacements()

    yard.launched(new)
    yard.starts(new)

    told = yard.events.about(new)
    assert told == ["DisruptionLaunching", "DisruptionWaitingReadiness"]
    assert yard.events.about("node")[-1] == "DisruptionTerminating"
    assert yard.events.about("claim")[-1] == "DisruptionTerminating"


def test_all_replacements_must_be_ready() -> None:
    yard = a_yard(pods=2, cpu="5").open()
    first, second = yard.replacements()

    yard.starts(first, cpu="8")
    before = yard.leaving()
    yard.starts(second, cpu="8")

    assert before == []
    assert yard.leaving() == ["claim"]


def test_replacements_do_not_wait_for_each_other() -> None:
    yard = a_yard("node-a", "node-b").open()
    first, second = yard.replacements()
    by_node = {
        yard.claim(one).annotations[label_keys.REPLACES].partition("/")[0]: one
        for one in (first, second)
    }

    yard.starts(by_node["claim-b"])

    assert yard.leaving() == ["claim-b"]
    assert yard.marked() == ["node-a", "node-b"]


def test_a_replacement_that_goes_away_frees_the_node_at_once() -> None:
    yard = a_yard().open()
    (new,) = yard.replacements()

    yard.delete(NODE_CLAIMS, new)

    assert yard.marked() == []
    assert condition(yard.claim().conditions, "DisruptionReason") == ("", "")


def test_one_of_two_replacements_that_goes_away_frees_the_node_and_the_other_stays() -> None:
    yard = a_yard(pods=2, cpu="5").open()
    first, second = yard.replacements()
    yard.wait(31)

    yard.delete(NODE_CLAIMS, first)

    assert yard.marked() == []
    assert not yard.claim(second).deleting
    assert label_keys.REPLACES not in yard.claim(second).annotations


def test_a_taint_that_somebody_takes_off_ends_it() -> None:
    yard = a_yard().open()

    yard.patch(NODES, "node", {"spec": {"taints": None}})

    assert yard.replacements() == []
    assert condition(yard.claim().conditions, "DisruptionReason") == ("", "")


def test_a_node_that_is_deleted_meanwhile_ends_it_without_a_failure() -> None:
    yard = a_yard().open()

    yard.delete(NODE_CLAIMS, "claim")
    yard.wait(700)

    assert yard.log.said("disruption failed, its node(s) live on") == []


def test_a_claim_that_cannot_be_deleted_is_tried_again() -> None:
    yard = a_yard().open()
    yard.faults.fail("delete", NODE_CLAIMS, Timeout("no answer"))

    yard.starts(yard.replacements()[0])
    yard.wait(1)

    assert yard.leaving() == ["claim"]


def test_a_replacement_that_could_not_be_written_frees_the_node() -> None:
    yard = a_yard(pods=2, cpu="5")
    yard.faults.fail("create", NODE_CLAIMS, Timeout("no answer"))

    yard.run(Replacing, Disruption).wait(0)
    half = len(yard.replacements())
    yard.wait(31)

    assert half == 1
    assert len(yard.log.said("disruption failed, its node(s) live on")) == 1


def test_provisioning_buys_nothing_for_pods_that_wait_for_a_replacement() -> None:
    yard = a_yard("node-a", "node-b")
    yard.run(Disruption, Replacing, Provisioning)

    yard.wait(120)

    assert len(yard.mirror.claims()) == 2 + 2


def test_nor_while_the_node_drains_slowly() -> None:
    yard = a_yard()
    yard.run(Disruption, Replacing, Provisioning)
    (new,) = yard.replacements()

    yard.starts(new)
    yard.wait(300)

    assert yard.leaving() == ["claim"]
    assert sorted(one.name for one in yard.mirror.claims()) == sorted(["claim", new])


def test_nobody_takes_away_a_node_that_pods_are_on_their_way_to() -> None:
    yard = Yard()
    yard.add_pool()
    yard.machine("node-old", drifted=yard.now - timedelta(minutes=5))
    yard.machine("node-free")
    yard.app_pod("web", "node-old")

    yard.run(Disruption, Replacing, Provisioning)
    yard.wait(300)

    assert yard.leaving() == ["claim-old"]


@pytest.mark.parametrize("when", ["begun", "launched", "ready"])
def test_a_new_life_goes_on_where_the_old_one_was(when: str) -> None:
    yard = a_yard()
    yard.run(Disruption, Replacing, Provisioning)
    (new,) = yard.replacements()
    steps: dict[str, Callable[[], object]] = {
        "begun": lambda: None,
        "launched": lambda: yard.launched(new),
        "ready": lambda: None,
    }

    steps[when]()
    yard.restart().wait(60)
    between = (yard.marked(), len(yard.mirror.claims()))
    yard.starts(new)
    yard.wait(60)

    assert between == (["node"], 2)
    assert yard.leaving() == ["claim"]
    assert sorted(one.name for one in yard.mirror.claims()) == sorted(["claim", new])


def test_a_new_life_counts_the_time_from_when_it_was_begun() -> None:
    yard = a_yard().open().wait(590)

    yard.restart().wait(11)

    assert yard.marked() == []


def test_one_replacement_after_the_other() -> None:
    yard = a_yard()
    yard.open()
    (first,) = yard.replacements()
    node = yard.starts(first)
    for resource, name in ((NODE_CLAIMS, "claim"), (NODES, "node")):
        yard.patch(resource, name, {"metadata": {"finalizers": None}})
    yard.delete(NODES, "node")
    yard.delete(PODS, "web-node-0", "default")

    yard.app_pod("again", node, cpu="3")
    conditions = yard.get(NODE_CLAIMS, first)["status"]["conditions"]
    conditions.append({"type": "Drifted", "status": "True", "reason": "NodePoolDrifted"})
    yard.patch(NODE_CLAIMS, first, {"status": {"conditions": conditions}}, subresource="status")
    yard.wait(40)

    assert yard.marked() == [node]
    assert len(yard.replacements()) == 2
    assert provider_id_of(node) == yard.claim(first).provider_id


def test_a_second_pass_changes_nothing() -> None:
    yard = a_yard().open()
    (new,) = yard.replacements()
    before = yard.versions()

    yard.runtime.ask(NAME, new)
    yard.wait(0)

    assert yard.versions() == before
    assert DISRUPTED in yard.node().taints
