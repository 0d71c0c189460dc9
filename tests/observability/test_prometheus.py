"""What was counted can be read in Prometheus' format, and telling never fails."""

import pytest
from prometheus_client.parser import text_string_to_metric_families

from dovetail.observability.metric_definitions import METRICS, Kind, Metric
from dovetail.observability.prometheus import PrometheusMetrics


def value(metrics: PrometheusMetrics, name: str, **labels: str) -> float | None:
    """Read one sample back; None where there is none."""
    for family in text_string_to_metric_families(metrics.text().decode()):
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return sample.value
    return None


def test_counts_add_up_by_label() -> None:
    metrics = PrometheusMetrics()

    metrics.count("karpenter_nodes_created_total", nodepool="a", zone="z1")
    metrics.count("karpenter_nodes_created_total", 2, nodepool="a", zone="z1")
    metrics.count("karpenter_nodes_created_total", nodepool="b", zone="z1")

    assert value(metrics, "karpenter_nodes_created_total", nodepool="a", zone="z1") == 3
    assert value(metrics, "karpenter_nodes_created_total", nodepool="b", zone="z1") == 1


def test_a_gauge_is_what_was_said_last() -> None:
    metrics = PrometheusMetrics()

    for amount in (4, 2):
        metrics.gauge("karpenter_nodepools_usage", amount, nodepool="a", resource_type="cpu")

    assert value(metrics, "karpenter_nodepools_usage", nodepool="a", resource_type="cpu") == 2


def test_durations_fall_into_karpenters_buckets() -> None:
    metrics, name = PrometheusMetrics(), "karpenter_nodeclaims_termination_duration_seconds"

    metrics.observe(name, 3, nodepool="a")

    assert value(metrics, f"{name}_bucket", nodepool="a", le="2.0") == 0
    assert value(metrics, f"{name}_bucket", nodepool="a", le="4.0") == 1
    assert value(metrics, f"{name}_sum", nodepool="a") == 3


def test_a_clock_that_was_set_back_takes_nothing_off_a_sum() -> None:
    metrics = PrometheusMetrics()

    metrics.observe("karpenter_interruption_message_queue_duration_seconds", -5)

    assert value(metrics, "karpenter_interruption_message_queue_duration_seconds_sum") == 0


def test_what_nobody_declared_is_told_all_the_same() -> None:
    metrics = PrometheusMetrics(known=())

    metrics.count("dovetail_surprises_total", kind="nice")
    metrics.observe("dovetail_waiting_seconds", 1)
    metrics.gauge("dovetail_mood", 7)

    assert value(metrics, "dovetail_surprises_total", kind="nice") == 1
    assert value(metrics, "dovetail_waiting_seconds_count") == 1
    assert value(metrics, "dovetail_mood") == 7


def test_wrong_labels_and_wrong_kinds_do_not_stop_the_work() -> None:
    metrics = PrometheusMetrics(known=[Metric("dovetail_a_total", Kind.COUNTER, ("x", "y"), "")])

    metrics.count("dovetail_a_total", x="1", other="2")
    metrics.gauge("dovetail_a_total", 5, x="1", y="")

    assert value(metrics, "dovetail_a_total", x="1", y="") == 1


def test_gauges_of_what_is_gone_are_forgotten_and_counters_are_kept() -> None:
    metrics = PrometheusMetrics()
    for pool in ("stays", "goes"):
        metrics.gauge("karpenter_nodepools_usage", 1, nodepool=pool, resource_type="cpu")
        metrics.count("karpenter_nodes_drained_total", nodepool=pool)

    metrics.keep_only("nodepool", {"stays"})

    assert value(metrics, "karpenter_nodepools_usage", nodepool="stays", resource_type="cpu") == 1
    assert value(metrics, "karpenter_nodepools_usage", nodepool="goes", resource_type="cpu") is None
    assert value(metrics, "karpenter_nodes_drained_total", nodepool="goes") == 1


def test_version_and_memory_are_told() -> None:
    told = PrometheusMetrics(version="1.2.3").text().decode()

    assert 'karpenter_build_info{python="' in told
    assert 'version="1.2.3"' in told
    assert "process_resident_memory_bytes" in told


def test_no_series_says_when_another_began() -> None:
    metrics = PrometheusMetrics()
    metrics.count("karpenter_nodes_drained_total", nodepool="a")

    assert "_created " not in metrics.text().decode()


@pytest.mark.parametrize("metric", METRICS, ids=lambda one: one.name)
def test_names_say_what_they_are(metric: Metric) -> None:
    known = ("karpenter_", "operator_", "controller_runtime_", "workqueue_", "leader_", "dovetail_")
    assert metric.name.startswith(known)
    assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
    assert metric.help.endswith(".")
    assert list(metric.buckets) == sorted(set(metric.buckets))


def test_every_name_is_declared_once() -> None:
    names = [one.name for one in METRICS]

    assert len(names) == len(set(names))
