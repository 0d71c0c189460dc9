"""Savings ledger in a whole cluster: after crashes, without its ConfigMap, against the bill."""

from datetime import timedelta

import pytest

from dovetail.codec.savings_ledger import decode_ledger
from dovetail.core.disruption.savings import is_failed, realized_amount, realized_rate, sum_by_reason
from dovetail.data.bundled import bundled_prices
from dovetail.model.savings import LEDGER_CONFIG_MAP, LEDGER_KEY, SavingsLedger, SavingsRecord
from dovetail.ports.api_resources import CONFIG_MAPS
from dovetail.simulator.apiserver.options import PatchType
from dovetail.simulator.apiserver.storage.frozen_object import thaw
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.scenario_actions import perform
from tests.support.simulator.clusters import scaled, wait
from tests.support.simulator.crashes import CrashPoint, build_mortal_cluster, crash_at_every_step
from tests.support.simulator.disruption import (
    a_catalog,
    a_small_app,
    claims,
    consolidating_pool,
    disruption_scenario,
    list_instance_types,
)

NAMESPACE = "kube-system"
SCENARIO = disruption_scenario(consolidating_pool(), a_small_app("web"), a_small_app("api"))


def a_cluster() -> SimulatedCluster:
    cluster = SimulatedCluster(SCENARIO, catalog=a_catalog(), prices=bundled_prices())
    wait(cluster, 3)
    return cluster


def one_large_node(cluster: SimulatedCluster) -> None:
    perform(scaled(13, "web"), cluster)
    perform(scaled(1, "api"), cluster)
    wait(cluster, 30)
    perform(scaled(1, "web"), cluster)
    wait(cluster, 45)


def saved_ledger(cluster: SimulatedCluster) -> SavingsLedger:
    return decode_ledger(thaw(cluster.api.get(CONFIG_MAPS, LEDGER_CONFIG_MAP, NAMESPACE)))


def completed(ledger: SavingsLedger) -> list[SavingsRecord]:
    return [record for record in ledger.records if not is_failed(record)]


def test_replacement_by_a_smaller_node_is_recorded_with_what_it_saves() -> None:
    cluster = a_cluster()
    one_large_node(cluster)
    price = cluster.ec2.billing.price_per_hour()

    wait(cluster, 300)

    assert list_instance_types(cluster) == ["m5.large"]
    (record,) = completed(saved_ledger(cluster))
    saved = price - cluster.ec2.billing.price_per_hour()
    assert realized_rate(record, cluster.clock.now()) == pytest.approx(saved)
    assert record.expected == pytest.approx(saved)


def test_realized_amount_is_the_difference_of_the_bill() -> None:
    cluster = a_cluster()
    one_large_node(cluster)
    began = cluster.clock.now()
    price = cluster.ec2.billing.price_per_hour()
    spent = cluster.ec2.billing.cost(began)

    wait(cluster, 7200)

    now = cluster.clock.now()
    (record,) = completed(cluster.operator.context.savings.ledger)
    without = spent + price * ((now - began) / timedelta(hours=1))
    difference = without - cluster.ec2.billing.cost(now)
    assert realized_amount(record, now) == pytest.approx(difference, rel=0.03)


def test_metrics_have_both_amounts_by_reason() -> None:
    cluster = a_cluster()
    one_large_node(cluster)

    wait(cluster, 3600)

    totals = sum_by_reason(cluster.operator.context.savings.ledger, cluster.clock.now())
    assert set(totals) == {"Underutilized"}
    for name in ("dovetail_disruption_expected_savings", "dovetail_disruption_realized_savings"):
        assert cluster.metrics.total(name, reason="underutilized") > 0


def test_ledger_is_written_at_most_once_a_minute_and_once_per_decision() -> None:
    cluster = a_cluster()
    one_large_node(cluster)
    before = int(cluster.api.get(CONFIG_MAPS, LEDGER_CONFIG_MAP, NAMESPACE)["metadata"]["resourceVersion"])
    versions = set()
    for _ in range(600):
        wait(cluster, 1)
        config_map = cluster.api.get(CONFIG_MAPS, LEDGER_CONFIG_MAP, NAMESPACE)
        versions.add(int(config_map["metadata"]["resourceVersion"]))

    decisions = len(cluster.operator.context.savings.ledger.records)
    assert decisions
    assert len(versions - {before}) <= decisions + 10


def test_restart_continues_the_ledger() -> None:
    cluster = a_cluster()
    one_large_node(cluster)
    wait(cluster, 300)
    before = saved_ledger(cluster)

    cluster.restart()
    wait(cluster, 120)

    assert cluster.operator.context.savings.ledger == before


def test_disruption_goes_on_without_the_configmap_and_the_log_says_it_once() -> None:
    cluster = a_cluster()
    cluster.api.delete(CONFIG_MAPS, LEDGER_CONFIG_MAP, NAMESPACE)
    cluster.restart()
    one_large_node(cluster)

    wait(cluster, 600)

    assert list_instance_types(cluster) == ["m5.large"]
    lines = [line for line in cluster.log.lines if line.message == "the savings ledger is not saved"]
    assert len(lines) == 1
    assert lines[0].fields["configmap"] == f"{NAMESPACE}/{LEDGER_CONFIG_MAP}"
    assert len(completed(cluster.operator.context.savings.ledger)) == 1


def test_broken_ledger_is_left_alone_and_reported() -> None:
    cluster = a_cluster()
    cluster.operator.kill()
    broken = {"data": {LEDGER_KEY: "{"}}
    cluster.api.patch(CONFIG_MAPS, LEDGER_CONFIG_MAP, broken, PatchType.MERGE, NAMESPACE)
    cluster.restart()
    one_large_node(cluster)

    wait(cluster, 300)

    assert list_instance_types(cluster) == ["m5.large"]
    assert cluster.api.get(CONFIG_MAPS, LEDGER_CONFIG_MAP, NAMESPACE)["data"] == broken["data"]
    (line,) = [line for line in cluster.log.lines if line.message == "the savings ledger is not saved"]
    assert "remove the key" in line.fields["error"]


@pytest.mark.slow
def test_a_replacement_is_counted_once_after_a_crash_at_any_step() -> None:
    def build(crash_point: CrashPoint) -> SimulatedCluster:
        return build_mortal_cluster(SCENARIO, a_catalog(), crash_point)

    def check(cluster: SimulatedCluster, when: str) -> None:
        (old,) = [claim["metadata"]["name"] for claim in claims(cluster)]
        wait(cluster, 420)
        ledger = saved_ledger(cluster)
        (record,) = completed(ledger)
        assert [node.claim for node in record.removed] == [old], when
        assert [node.claim for node in record.added] == [
            claim["metadata"]["name"] for claim in claims(cluster)
        ], when
        totals = sum_by_reason(ledger, cluster.clock.now())["Underutilized"]
        assert (totals.decisions, totals.nodes) == (1, 1), when

    steps = crash_at_every_step(build, one_large_node, check)

    assert steps > 15
