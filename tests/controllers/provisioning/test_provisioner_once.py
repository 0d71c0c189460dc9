"""No pod is bought for twice, and none waits for a node that will not come.

P11, P12, S44 to S49, S54, S57; a killed provisioner; claims that fail.
"""

import pytest

from dovetail.model import labels as label_keys
from dovetail.model.karpenter.nodepool import NodeTemplate
from dovetail.model.kube.taints import Effect, Taint
from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS, STATEFUL_SETS
from dovetail.simulator.apiserver.options import PatchType
from dovetail.state.nodes.initialization_stall import PATIENCE
from tests.support import wire
from tests.support.catalog import Z1, Z2, a_type, incremental
from tests.support.shop import Shop

STARTING = Taint("example.com/starting", Effect.NO_SCHEDULE)


def in_either_zone() -> dict[str, object]:
    """A node affinity that leaves a choice, so that a claim leaves it as well."""
    wanted = [{"key": label_keys.ZONE, "operator": "In", "values": [Z1, Z2]}]
    terms = [{"matchExpressions": wanted}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def test_a_second_pod_uses_what_is_on_its_way_before_it_is_even_launched() -> None:
    shop = Shop([a_type("larger", cpu=8), a_type("smaller", cpu=4)]).open()
    shop.pod_waits("first")
    shop.wait(2)

    shop.pod_waits("second", requests={"cpu": "2"})
    shop.wait(2)

    assert len(shop.bought()) == 1
    assert len(shop.promises) == 2


def test_what_is_on_its_way_takes_no_more_than_its_smallest_type_holds() -> None:
    shop = Shop(incremental(8)).open()
    shop.pod_waits("first", requests={"cpu": "1500m"})
    shop.wait(2)

    shop.pod_waits("second", requests={"cpu": "1"})
    shop.wait(2)

    assert len(shop.bought()) == 2


def test_a_pod_that_the_launched_zone_does_not_suit_gets_another_node() -> None:
    shop = Shop([a_type("only", cpu=4)]).open()
    shop.pod_waits("first")
    shop.wait(2)
    shop.launch(shop.bought()[0], zone=Z1)

    shop.pod_waits("there", nodeSelector={label_keys.ZONE: Z1})
    shop.wait(2)
    before = len(shop.bought())
    shop.pod_waits("elsewhere", nodeSelector={label_keys.ZONE: Z2})
    shop.wait(2)

    assert (before, len(shop.bought())) == (1, 2)


def test_a_zone_that_is_not_certain_yet_is_not_counted_on() -> None:
    shop = Shop([a_type("only", cpu=4)]).open()
    shop.pod_waits("first")
    shop.wait(2)

    shop.pod_waits("particular", nodeSelector={label_keys.ZONE: Z2})
    shop.wait(2)

    assert len(shop.bought()) == 2


def test_a_pod_that_is_reported_again_and_again_is_bought_for_once() -> None:
    shop = Shop().open()
    shop.pod_waits()

    for number in range(60):
        shop.patch(PODS, "pod", {"metadata": {"labels": {"seen": str(number)}}}, "default")
        shop.wait(1)

    assert len(shop.bought()) == 1


def test_pods_of_a_claim_that_found_no_capacity_are_planned_anew_at_once() -> None:
    shop = Shop().open()
    shop.pods(2)
    shop.wait(1.5)
    (failed,) = shop.bought()

    shop.delete(NODE_CLAIMS, failed)
    shop.wait(0.2)

    (after,) = shop.bought()
    assert after != failed
    assert len(shop.promises) == 2


def test_a_claim_that_fails_time_and_again_is_not_replaced_in_a_frenzy() -> None:
    shop = Shop().open()
    shop.pod_waits()
    shop.wait(1.5)

    for _ in range(100):
        for name in shop.bought():
            shop.delete(NODE_CLAIMS, name)
        shop.wait(0.1)

    assert shop.offload.passes < 25


def test_provisioning_goes_on_while_a_claim_cannot_be_launched() -> None:
    shop = Shop().open()
    shop.pod_waits("first", requests={"cpu": "3"})
    shop.wait(2)
    (stays,) = shop.bought()

    shop.pod_waits("second", requests={"cpu": "3"})
    shop.wait(2)

    assert shop.claim(stays).provider_id == ""
    assert len(shop.bought()) == 2


def test_a_restarted_provisioner_finds_its_pods_on_claims_that_are_not_launched() -> None:
    shop = Shop().open()
    shop.pods(7, **in_either_zone())
    shop.pods(2, prefix="arm", nodeSelector={label_keys.ARCH: "arm64"}, requests={"cpu": "9"})
    shop.wait(2)
    before = shop.bought()

    shop.restart()
    shop.wait(30)

    assert shop.bought() == before
    assert len(shop.promises) == 9


@pytest.mark.parametrize("writes", [1, 2, 3])
def test_a_provisioner_that_dies_amid_its_claims_buys_only_the_rest(writes: int) -> None:
    shop = Shop().open()
    shop.die_after(writes)
    shop.pods(3, requests={"cpu": "3"})
    shop.wait(3)
    assert len(shop.bought()) == writes

    shop.restart()
    shop.wait(30)

    assert len(shop.bought()) == 3
    assert len(shop.promises) == 3


@pytest.mark.parametrize("steps", range(4))
def test_a_restart_at_any_step_of_a_nodes_coming_up_buys_nothing(steps: int) -> None:
    shop = Shop().open()
    shop.pods(3)
    shop.wait(2)
    (name,) = shop.bought()
    for step in (shop.launch, shop.join, shop.initialize)[:steps]:
        step(name)

    shop.restart()
    shop.wait(30)

    assert shop.bought() == [name]


def test_daemons_that_come_along_do_not_crowd_out_the_pods_after_a_restart() -> None:
    shop = Shop().open()
    shop.daemon_set("agent", {"cpu": "1"}, nodeSelector={label_keys.OS: "linux"})
    shop.pod_waits(requests={"cpu": "2500m"})
    shop.wait(2)
    before = shop.bought()

    shop.restart()
    shop.wait(30)

    assert len(before) == 1
    assert shop.bought() == before


def test_a_daemon_set_that_comes_later_is_counted_against_what_is_on_its_way() -> None:
    shop = Shop([a_type("only", cpu=4)]).open()
    shop.pod_waits("first", requests={"cpu": "2"})
    shop.wait(2)

    shop.daemon_set("agent", {"cpu": "1"})
    shop.pod_waits("second", requests={"cpu": "1"})
    shop.wait(2)

    assert len(shop.bought()) == 2


def test_a_pod_that_was_bound_while_it_was_decided_is_promised_nothing() -> None:
    shop = Shop().open()
    shop.add(NODES, wire.node("other", taints=()))
    shop.patch(NODES, "other", {"spec": {"unschedulable": True, "taints": [_full()]}})
    shop.pod_waits()
    shop.offload.meanwhile = lambda: _bind_quietly(shop)

    shop.wait(2)

    assert len(shop.bought()) == 1
    assert len(shop.promises) == 0


def _full() -> dict[str, str]:
    return {"key": "example.com/full", "effect": "NoSchedule"}


def _bind_quietly(shop: Shop) -> None:
    bound = shop.api.bind("pod", "default", {"target": {"name": "other"}})
    shop.mirror.put(PODS, bound)


def test_a_node_that_vanishes_while_it_is_decided_does_not_hold_its_pods() -> None:
    shop = Shop([a_type("only", cpu=4)]).open()
    shop.pod_waits("first")
    shop.wait(2)
    (name,) = shop.bought()
    shop.launch(name)

    def vanish() -> None:
        shop.offload.meanwhile = lambda: None
        shop.mirror.bury(NODE_CLAIMS, name, uid=shop.claim(name).uid)
        shop.api.delete(NODE_CLAIMS, name)

    shop.offload.meanwhile = vanish
    shop.pod_waits("second")
    shop.wait(4)

    assert shop.log.said("reconciler error") == []
    assert len(shop.bought()) == 1
    assert len(shop.promises) == 2


def test_an_evicted_pod_gives_its_promised_room_to_the_pod_that_replaces_it() -> None:
    shop = Shop([a_type("only", cpu=4)]).open()
    shop.pods(3)
    shop.wait(2)
    (old,) = shop.bought()
    shop.bring_up(old)
    shop.bind_all()
    shop.retire(old)
    shop.wait(2)
    (new,) = shop.bought()

    for number in range(3):
        shop.delete(PODS, f"pod-{number}", "default")  # Goes on for its grace period.
        shop.pod_waits(f"successor-{number}")
        shop.wait(5)

    assert shop.mirror.pods_on(f"n-{old}")[0].deleting
    assert shop.bought() == [new]


def test_the_place_of_a_stateful_pod_is_kept_until_it_has_gone() -> None:
    shop = Shop([a_type("only", cpu=4)]).open()
    owner = wire.owner("StatefulSet", "db", uid=_a_stateful_set(shop, "db"), controller=True)
    shop.pod_waits("db-0", owner=owner, requests={"cpu": "3"})
    shop.wait(2)
    (old,) = shop.bought()
    shop.bring_up(old)
    shop.bind_all()
    shop.retire(old)
    shop.wait(2)

    shop.delete(PODS, "db-0", "default")
    shop.pod_waits("other", requests={"cpu": "3"})
    shop.wait(2)

    assert len(shop.bought()) == 2


def _a_stateful_set(shop: Shop, name: str) -> str:
    labels = {"app": name}
    spec = {"containers": [{"name": "main", "image": "app:1"}]}
    made = shop.add(
        STATEFUL_SETS,
        {
            "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": spec},
            },
        },
    )
    return str(made["metadata"]["uid"])


def test_nodes_that_start_up_are_counted_on_whatever_taints_they_begin_with() -> None:
    shop = Shop([a_type("only", cpu=4)])
    shop.add_pool(template=NodeTemplate(startup_taints=(STARTING,)))
    shop.open(pool=False)
    shop.pod_waits("first")
    shop.wait(2)
    (name,) = shop.bought()
    shop.launch(name)
    not_ready = Taint("node.kubernetes.io/not-ready", Effect.NO_EXECUTE)
    shop.join(name, taints=(STARTING, not_ready))

    shop.pod_waits("second")
    shop.wait(2)

    assert shop.bought() == [name]


@pytest.mark.parametrize("taint", [STARTING, Taint("team", Effect.NO_SCHEDULE, "a")])
def test_a_taint_on_a_node_that_had_started_counts(taint: Taint) -> None:
    shop = Shop()
    shop.add_pool(template=NodeTemplate(startup_taints=(STARTING,)))
    shop.open(pool=False)
    shop.pod_waits("first")
    shop.wait(2)
    (name,) = shop.bought()
    shop.launch(name)
    shop.join(name, taints=(taint,))
    shop.initialize(name)

    shop.pod_waits("second")
    shop.wait(2)

    assert len(shop.bought()) == 2


def test_pods_that_are_not_bound_though_their_node_is_ready_are_looked_at_again() -> None:
    shop = Shop().open()
    shop.pod_waits()
    shop.wait(2)
    (name,) = shop.bought()
    node = shop.bring_up(name)
    shop.patch(NODES, node, {"spec": {"taints": [_full()]}})

    shop.wait(40)

    assert len(shop.bought()) == 2


def test_nobody_may_take_away_a_node_that_promised_pods_wait_for() -> None:
    shop = Shop().open()
    shop.pod_waits()
    shop.wait(2)
    (name,) = shop.bought()
    provider_id = shop.launch(name).provider_id

    shop.wait(20)

    for _ in range(30):
        shop.wait(7)
        assert shop.nominations.nominated(provider_id, shop.now)


def test_a_node_that_got_stuck_while_others_came_up_is_given_up_on() -> None:
    shop = Shop()
    shop.add_pool(template=NodeTemplate(startup_taints=(STARTING,)))
    shop.open(pool=False)
    shop.pod_waits("waits", requests={"cpu": "3"})
    shop.wait(2)
    (stuck,) = shop.bought()
    shop.launch(stuck)
    shop.join(stuck, taints=(STARTING,))
    shop.wait(seconds=PATIENCE.total_seconds() + 60)
    patient = shop.bought()

    shop.pod_waits("other", requests={"cpu": "3"})
    shop.wait(2)
    (works,) = shop.bought_for("other")
    shop.bring_up(works)
    shop.bind("other", f"n-{works}")
    shop.wait(15)

    assert patient == [stuck]
    assert len(shop.bought_for("waits")) == 2


def test_a_pod_that_went_frees_its_room_on_what_is_on_its_way() -> None:
    shop = Shop([a_type("only", cpu=4)]).open()
    shop.pod_waits("first", requests={"cpu": "3"})
    shop.wait(2)

    shop.delete(PODS, "first", "default")
    shop.pod_waits("second", requests={"cpu": "3"})
    shop.wait(2)

    assert len(shop.bought()) == 1


def test_changing_pods_are_seen_on_their_promised_node_as_they_are_now() -> None:
    shop = Shop().open()
    shop.pod_waits(labels={"app": "a"})
    shop.wait(2)
    patch = {"metadata": {"labels": {"app": "b"}}}
    shop.api.patch(PODS, "pod", patch, PatchType.MERGE, "default")

    shop.wait(0)

    (kept,) = shop.promises.kept_by(shop.bought()[0])
    assert kept.labels["app"] == "b"
