"""Series of Prometheus by the object they are about."""

import pytest

from dovetail.errors import DovetailError
from dovetail.record.importers.metrics import METRICS, Sample, SeriesMerger


def test_samples_that_are_not_finite_say_nothing_and_text_is_an_error() -> None:
    merger = SeriesMerger(METRICS["deployments"])
    labels = {"namespace": "shop", "deployment": "web"}

    merger.add(labels, [(0.0, "NaN"), (30.0, "2"), (60.0, "+Inf")])

    assert [series.samples for series in merger.merge()] == [[Sample(30.0, 2.0)]]
    with pytest.raises(DovetailError, match="Prometheus sent 'two' for a number"):
        merger.add(labels, [(90.0, "two")])
