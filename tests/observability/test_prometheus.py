"""Prometheus exporter: values can be read back in the text format."""

from prometheus_client.parser import text_string_to_metric_families

from dovetail.observability.prometheus import PrometheusMetrics
from dovetail.ports.metrics import (
    INTERRUPTION_MESSAGE_QUEUE_DURATION,
    NODECLAIMS_TERMINATION_DURATION,
    NODEPOOLS_USAGE,
    NODES_CREATED,
    NODES_DRAINED,
    NodeLabels,
    NodePoolLabels,
    NoLabels,
    ResourceLabels,
)


def read_value(metrics: PrometheusMetrics, name: str, **labels: str) -> float | None:
    """Return one sample; None if there is none."""
    for family in text_string_to_metric_families(metrics.text().decode()):
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return sample.value
    return None


def test_counters_add_up_by_label() -> None:
    metrics = PrometheusMetrics()

    metrics.inc(NODES_CREATED, NodeLabels(nodepool="a", zone="z1"))
    metrics.inc(NODES_CREATED, NodeLabels(nodepool="a", zone="z1"), by=2)
    metrics.inc(NODES_CREATED, NodeLabels(nodepool="b", zone="z1"))

    assert read_value(metrics, "karpenter_nodes_created_total", nodepool="a", zone="z1") == 3
    assert read_value(metrics, "karpenter_nodes_created_total", nodepool="b", zone="z1") == 1


def test_a_gauge_has_the_latest_value() -> None:
    metrics = PrometheusMetrics()

    for amount in (4, 2):
        metrics.set(NODEPOOLS_USAGE, amount, ResourceLabels(nodepool="a", resource_type="cpu"))

    usage = read_value(metrics, "karpenter_nodepools_usage", nodepool="a", resource_type="cpu")
    assert usage == 2


def test_histograms_have_karpenters_buckets() -> None:
    metrics, name = PrometheusMetrics(), NODECLAIMS_TERMINATION_DURATION.name

    metrics.observe(NODECLAIMS_TERMINATION_DURATION, 3, NodePoolLabels(nodepool="a"))

    assert read_value(metrics, f"{name}_bucket", nodepool="a", le="2.0") == 0
    assert read_value(metrics, f"{name}_bucket", nodepool="a", le="4.0") == 1
    assert read_value(metrics, f"{name}_sum", nodepool="a") == 3


def test_a_clock_that_was_set_back_does_not_reduce_a_sum() -> None:
    metrics = PrometheusMetrics()

    metrics.observe(INTERRUPTION_MESSAGE_QUEUE_DURATION, -5, NoLabels())

    assert read_value(metrics, f"{INTERRUPTION_MESSAGE_QUEUE_DURATION.name}_sum") == 0


def test_stale_gauges_are_removed_and_counters_are_kept() -> None:
    metrics = PrometheusMetrics()
    for pool in ("stays", "goes"):
        metrics.set(NODEPOOLS_USAGE, 1, ResourceLabels(nodepool=pool, resource_type="cpu"))
        metrics.inc(NODES_DRAINED, NodePoolLabels(nodepool=pool))

    metrics.remove_stale_gauges("nodepool", {"stays"})

    name = "karpenter_nodepools_usage"
    assert read_value(metrics, name, nodepool="stays", resource_type="cpu") == 1
    assert read_value(metrics, name, nodepool="goes", resource_type="cpu") is None
    assert read_value(metrics, "karpenter_nodes_drained_total", nodepool="goes") == 1


def test_version_and_memory_are_exported() -> None:
    text = PrometheusMetrics(version="1.2.3").text().decode()

    assert 'karpenter_build_info{python="' in text
    assert 'version="1.2.3"' in text
    assert "process_resident_memory_bytes" in text


def test_no_series_has_a_creation_time() -> None:
    metrics = PrometheusMetrics()
    metrics.inc(NODES_DRAINED, NodePoolLabels(nodepool="a"))

    assert "_created " not in metrics.text().decode()
