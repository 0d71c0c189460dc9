"""What workloads, and what looks at their pods, must be like for Kubernetes to take them."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dovetail.ports.kube_errors import BadRequest
from dovetail.simulator.apiserver.admission.pods import PodRules, template_restarts
from dovetail.simulator.apiserver.admission.status_causes import Cause, Wire, invalid, required
from dovetail.simulator.apiserver.storage.frozen_object import look
from dovetail.simulator.apiserver.storage.selectors import labels_match, terms_of

_FOR_EVER: Final = ("Always",)
_TO_AN_END: Final = ("OnFailure", "Never")


class WorkloadRules:
    """Checks kinds that make pods from a template."""

    def __init__(self, pods: PodRules) -> None:
        self._pods = pods

    def pod(self, obj: Wire) -> Iterator[Cause]:
        yield from self._pods.broken(obj.get("spec") or {}, "spec")

    def replicated(self, obj: Wire) -> Iterator[Cause]:
        """Check a Deployment, ReplicaSet, StatefulSet or DaemonSet."""
        spec = obj.get("spec") or {}
        yield from _count(spec, "replicas")
        selector = spec.get("selector")
        if not selector:
            yield required("spec.selector")
        template = spec.get("template")
        labels = look(template, "metadata", "labels") or {}
        if selector and not _selects(selector, labels):
            yield invalid(
                "spec.template.metadata.labels",
                f"{dict(labels)}: `selector` does not match template `labels`",
            )
        yield from self._template(template, _FOR_EVER)

    def job(self, obj: Wire) -> Iterator[Cause]:
        spec = obj.get("spec") or {}
        for name in ("parallelism", "completions", "backoffLimit"):
            yield from _count(spec, name)
        yield from self._template(spec.get("template"), _TO_AN_END)

    def _template(self, template: Any, restarts: tuple[str, ...]) -> Iterator[Cause]:
        inner = look(template, "spec") or {}
        yield from self._pods.broken(inner, "spec.template.spec")
        yield from template_restarts(inner, "spec.template.spec", *restarts)


def budget(obj: Wire) -> Iterator[Cause]:
    """Check a PodDisruptionBudget."""
    spec = obj.get("spec") or {}
    if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
        yield invalid("spec", "minAvailable and maxUnavailable cannot be both set")
    for name in ("minAvailable", "maxUnavailable"):
        value = spec.get(name)
        share = isinstance(value, str) and value.removesuffix("%").isdigit() and value[-1:] == "%"
        number = isinstance(value, int) and value >= 0
        if value is not None and not share and not number:
            yield invalid(f"spec.{name}", f"{value!r} is neither a number nor a share as '10%'")


def _count(spec: Mapping[str, Any], name: str) -> Iterator[Cause]:
    value = spec.get(name)
    if value is not None and (not isinstance(value, int) or value < 0):
        yield invalid(f"spec.{name}", f"{value!r}: must be greater than or equal to 0")


def _selects(selector: Any, labels: Mapping[str, str]) -> bool:
    try:
        return isinstance(selector, dict) and labels_match(terms_of(selector), labels)
    except BadRequest:
        return False
