"""The metrics guide lists every metric and no other."""

import re
from pathlib import Path

from dovetail.observability.cluster_metrics import collect, format_gauges
from dovetail.ports.metrics import METRICS
from dovetail.state.cluster.cache import ClusterCache
from tests.observability.test_exposition import NOON

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "metrics.md"


def rows() -> dict[str, str]:
    """Return the table row of each metric, by its name."""
    rows = re.findall(r"^\| `([a-z_0-9]+_[a-z_0-9]+)` \|(.*)\|$", PAGE.read_text(), re.MULTILINE)
    return dict(rows)


def scraped_gauges() -> dict[str, str]:
    """Return the help of each gauge that a scrape computes, by its name."""
    gauges = format_gauges(collect(ClusterCache(), NOON), per_node=True).decode()
    return dict(re.findall(r"^# HELP (\S+) (.*)$", gauges, re.MULTILINE))


def test_every_metric_has_a_row_and_every_row_a_metric() -> None:
    assert set(rows()) == {metric.name for metric in METRICS} | set(scraped_gauges())


def test_a_row_has_kind_labels_and_help_of_its_metric() -> None:
    lines = rows()

    for metric in METRICS:
        labels = ", ".join(f"`{label}`" for label in metric.label_names)
        assert lines[metric.name].strip() == f"{metric.kind} | {labels} | {metric.help}"
    for name, help_text in scraped_gauges().items():
        assert lines[name].strip().rpartition("| ")[2] == help_text
