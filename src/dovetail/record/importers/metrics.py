"""Metrics of kube-state-metrics, and series by the object they are about.

The labels of the scrape (instance, job, pod of kube-state-metrics) change when it restarts, and
differ between two replicas. Series of one object are one series, whatever scraped them.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from dovetail.errors import DovetailError

_EXPORTED: Final = "exported_"
"""Prefix of labels that a scrape without ``honor_labels`` replaced by its own."""
_CLUSTER: Final = "cluster"
_POD: Final = ("namespace", "pod", "uid")


class Metric(NamedTuple):
    """Name of a metric, and the labels that say what a series of it is about."""

    name: str
    labels: tuple[str, ...]


METRICS: Final[Mapping[str, Metric]] = {
    "deployments": Metric("kube_deployment_spec_replicas", ("namespace", "deployment")),
    "statefulsets": Metric("kube_statefulset_replicas", ("namespace", "statefulset")),
    "requests": Metric("kube_pod_container_resource_requests", (*_POD, "container", "resource")),
    "owners": Metric("kube_pod_owner", (*_POD, "owner_kind", "owner_name")),
    "replicasets": Metric("kube_replicaset_owner", ("namespace", "replicaset", "owner_kind", "owner_name")),
    "starts": Metric("kube_pod_start_time", _POD),
    "ends": Metric("kube_pod_completion_time", _POD),
}
"""Metrics that are read, by use."""


class Sample(NamedTuple):
    """A value at a time, in seconds since 1970."""

    at: float
    value: float


class Series(NamedTuple):
    """Samples of one object, in order of time."""

    labels: Mapping[str, str]
    samples: list[Sample]


class SeriesMerger:
    """Collects the series of a metric; those of one object become one."""

    def __init__(self, metric: Metric) -> None:
        self._labels = metric.labels
        self._values: dict[tuple[str, ...], dict[float, float]] = {}
        self.clusters: set[str] = set()
        """Values of the label ``cluster``."""
        self.replaced: set[str] = set()
        """Labels that the scrape replaced, and that were read as ``exported_…``."""

    def add(self, labels: Mapping[str, str], values: Iterable[tuple[float, str]]) -> None:
        """Add a series as Prometheus has it."""
        self.clusters |= {labels[_CLUSTER]} if _CLUSTER in labels else set()
        for name in self._labels:
            if _EXPORTED + name in labels:
                self.replaced.add(name)
        key = tuple(labels.get(_EXPORTED + name, labels.get(name, "")) for name in self._labels)
        merged = self._values.setdefault(key, {})
        for at, text in values:
            try:
                value = float(text)
            except ValueError:
                raise DovetailError(f"Prometheus sent {text!r} for a number") from None
            if not math.isfinite(value):
                continue  # Such as NaN of a recording rule: nothing is known of that time.
            # Replicas of kube-state-metrics agree, except for moments after a change.
            merged[at] = max(value, merged.get(at, value))

    @property
    def is_empty(self) -> bool:
        return not self._values

    def merge(self) -> list[Series]:
        """Return one series for each object."""
        return [
            Series(
                dict(zip(self._labels, key, strict=True)),
                [Sample(at, value) for at, value in sorted(values.items())],
            )
            for key, values in self._values.items()
            if values
        ]
