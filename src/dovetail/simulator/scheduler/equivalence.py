"""Pod classes: pods equal to the scheduler, decoded and counted together."""

from typing import Final

import msgspec

from dovetail.codec.fields import BoundedCache, DecodeContext, Field
from dovetail.codec.kube.pod_specs import decode_pod_spec
from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.pod import NodeSelectorTerm, PodSpec
from dovetail.model.kube.requirements import Operator
from dovetail.model.kube.resources import CPU, MEMORY
from dovetail.simulator.apiserver.storage.frozen_object import Object

_NAME_FIELD: Final = "metadata.name"
_DEFAULT_CPU: Final = 100  # millicores
_DEFAULT_MEMORY: Final = 200 << 20  # bytes
"""Requests assumed for scoring when a container has none, as in kube-scheduler."""


class PodClass:
    """Equivalence class of pods: namespace, labels, spec, and where they run."""

    __slots__ = ("bound", "labels", "live", "namespace", "refs", "requests", "scoring_requests", "spec")

    def __init__(self, namespace: str, labels: FrozenDict[str, str], spec: PodSpec) -> None:
        self.namespace = namespace
        self.labels = labels
        self.spec = spec
        self.requests = tuple((name, n) for name, n in sorted(spec.requests.items()) if n > 0)
        requests = spec.requests
        self.scoring_requests = (requests.get(CPU) or _DEFAULT_CPU, requests.get(MEMORY) or _DEFAULT_MEMORY)
        self.bound: dict[int, int] = {}
        """Slot → number of pods there, including terminating ones."""
        self.live: dict[int, int] = {}
        """Slot → number of pods there that are not terminating."""
        self.refs = 0
        """Number of pods of the class, bound or pending."""

    @property
    def is_independent(self) -> bool:
        """True if the class has no rules about other pods."""
        spec = self.spec
        return not (spec.spreads or spec.affinity or spec.anti_affinity)


class ClassifiedPod(msgspec.Struct, frozen=True):
    """The class of a pod, and the node it is pinned to (DaemonSet pods), if any."""

    pod_class: PodClass
    pinned_node: str = ""


class PodClassifier:
    """Assigns pods to classes; equal pods get the same class object."""

    def __init__(self) -> None:
        self._decode_cache = BoundedCache()
        self._classes: dict[tuple[str, FrozenDict[str, str], PodSpec], PodClass] = {}

    def classify(self, pod: Object) -> ClassifiedPod:
        meta = pod["metadata"]
        labels = FrozenDict(meta["labels"]) if "labels" in meta else EMPTY
        root = Field(pod, DecodeContext(strict=False, cache=self._decode_cache))
        spec = decode_pod_spec(root["spec"], labels=labels, pod_name=meta["name"])
        spec, pinned_node = _extract_pinned_node(spec)
        key = (meta["namespace"], labels, spec)
        pod_class = self._classes.get(key)
        if pod_class is None:
            pod_class = self._classes[key] = PodClass(*key)
        return ClassifiedPod(pod_class, pinned_node)

    def forget(self, pod_class: PodClass) -> None:
        """Drop a class that has no pods left."""
        self._classes.pop((pod_class.namespace, pod_class.labels, pod_class.spec), None)

    @property
    def classes(self) -> list[PodClass]:
        return list(self._classes.values())


def _extract_pinned_node(spec: PodSpec) -> tuple[PodSpec, str]:
    """Remove from a spec the node name that each of its terms requires."""
    if not any(term.fields for term in spec.node_terms):
        return spec, ""
    names = {_pinned_node(term) for term in spec.node_terms}
    if len(names) != 1 or None in names:
        return spec, ""
    (name,) = names
    rest = tuple(NodeSelectorTerm(term.expressions) for term in spec.node_terms)
    if any(not term.expressions for term in rest):
        rest = ()
    return msgspec.structs.replace(spec, node_terms=rest), str(name)


def _pinned_node(term: NodeSelectorTerm) -> str | None:
    for field in term.fields:
        if field.key == _NAME_FIELD and field.operator is Operator.IN and len(field.values) == 1:
            return field.values[0] if len(term.fields) == 1 else None
    return None
