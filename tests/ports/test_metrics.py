"""Metric definitions: every one is reported, and wrong labels raise."""

from pathlib import Path

import pytest

import dovetail
from dovetail.observability.prometheus import PrometheusMetrics
from dovetail.ports import metrics
from dovetail.ports.metrics import (
    METRICS,
    NODES_CREATED,
    NODES_DRAINED,
    Histogram,
    Metric,
    NodeLabels,
    NodePoolLabels,
)
from dovetail.ports.telemetry import Metrics
from dovetail.simulator.environment import SimulatedMetrics
from tests.support.telemetry import RecordedMetrics

_SOURCE = Path(dovetail.__file__).parent
_PREFIXES = (*("karpenter_", "operator_", "controller_runtime_", "workqueue_", "leader_", "dovetail_"),)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_names_follow_the_conventions_of_prometheus(metric: Metric[NodeLabels]) -> None:
    assert metric.name.startswith(_PREFIXES)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    assert metric.help.endswith(".")
    if isinstance(metric, Histogram):
        assert list(metric.buckets) == sorted(set(metric.buckets))


def test_every_name_is_defined_once() -> None:
    names = [metric.name for metric in METRICS]

    assert len(names) == len(set(names))


def test_every_metric_is_reported_somewhere() -> None:
    definitions = Path(metrics.__file__)
    source = "\n".join(file.read_text() for file in sorted(_SOURCE.rglob("*.py")) if file != definitions)
    constants = [name for name, value in vars(metrics).items() if isinstance(value, Metric)]

    assert [name for name in constants if name not in source] == []
    assert len(constants) == len(METRICS)


def test_no_metric_is_reported_by_a_name_that_is_not_defined() -> None:
    defined = {metric.name for metric in METRICS}
    reported = [
        f"{file.relative_to(_SOURCE)}: {name}"
        for file in sorted(_SOURCE.rglob("*.py"))
        for call in (".inc(", ".observe(", ".set(")
        for name in file.read_text().split(call)[1:]
        if name.lstrip().startswith('"')
        and name.lstrip().split('"')[1] not in defined
        and name.lstrip().split('"')[1].startswith(_PREFIXES)
    ]

    assert reported == []


@pytest.mark.parametrize("sink", [PrometheusMetrics(), SimulatedMetrics(), RecordedMetrics()])
def test_labels_of_another_metric_raise_everywhere(sink: Metrics) -> None:
    sink.inc(NODES_CREATED, NodeLabels(nodepool="a", zone="z"))

    with pytest.raises(TypeError, match="karpenter_nodes_created_total has NodeLabels"):
        sink.inc(NODES_CREATED, NodePoolLabels(nodepool="a"))  # type: ignore[misc]
    with pytest.raises(TypeError, match="karpenter_nodes_drained_total has NodePoolLabels"):
        sink.inc(NODES_DRAINED, NodeLabels(nodepool="a", zone="z"))  # type: ignore[misc]


def test_a_missing_or_unknown_label_raises() -> None:
    with pytest.raises(TypeError, match="zone"):
        NodeLabels(nodepool="a")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="colour"):
        NodePoolLabels(nodepool="a", colour="red")  # type: ignore[call-arg]
