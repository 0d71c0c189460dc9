"""The guide to metrics tells all of them, and no others."""

import re
from pathlib import Path

from dovetail.observability.cluster_metrics import look, written
from dovetail.observability.metric_definitions import METRICS
from dovetail.state.cluster.cache import Mirror
from tests.observability.test_exposition import NOON

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "metrics.md"


def rows() -> dict[str, str]:
    """Return the lines of the tables that begin with a metric, by its name."""
    found = re.findall(r"^\| `([a-z_0-9]+_[a-z_0-9]+)` \|(.*)\|$", PAGE.read_text(), re.MULTILINE)
    return dict(found)


def test_every_metric_has_its_line_and_every_line_its_metric() -> None:
    gauges = written(look(Mirror(), NOON), each_node=True).decode()
    made_when_asked = set(re.findall(r"^# TYPE (\S+) ", gauges, re.MULTILINE))

    assert set(rows()) == {one.name for one in METRICS} | made_when_asked


def test_a_line_tells_the_kind_the_labels_and_the_meaning() -> None:
    lines = rows()

    for one in METRICS:
        labels = ", ".join(f"`{label}`" for label in one.labels)
        assert lines[one.name].strip() == f"{one.kind} | {labels} | {one.help}"
