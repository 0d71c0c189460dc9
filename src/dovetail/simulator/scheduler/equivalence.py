"""Pods that are the same to a scheduler, read once and counted together."""

from typing import Any, Final

import msgspec

from dovetail.codec.fields import Field, Findings
from dovetail.codec.kube.pod_specs import pod_spec
from dovetail.model.frozen import EMPTY, FrozenDict
from dovetail.model.kube.pod import NodeTerm, PodSpec
from dovetail.model.kube.requirements import Operator
from dovetail.model.kube.resources import CPU, MEMORY
from dovetail.simulator.apiserver.storage.frozen_object import Object

_NAME_FIELD: Final = "metadata.name"
_MOST_REMEMBERED: Final = 100_000
"""Specs that are known by their bytes; a memory, so it may be lost."""
_LEAST_CPU: Final = 100
_LEAST_MEMORY: Final = 200 << 20
"""What a container that asks for nothing is taken to use, when nodes are compared."""


class PodClass:
    """One kind of pod: what it asks, what it is called, and where such pods run."""

    __slots__ = (
        "assumed",
        "bound",
        "labels",
        "live",
        "namespace",
        "refs",
        "requests",
        "spec",
    )

    def __init__(self, namespace: str, labels: FrozenDict[str, str], spec: PodSpec) -> None:
        self.namespace = namespace
        self.labels = labels
        self.spec = spec
        self.requests = tuple((name, n) for name, n in sorted(spec.requests.items()) if n > 0)
        asked = spec.requests
        self.assumed = (asked.get(CPU) or _LEAST_CPU, asked.get(MEMORY) or _LEAST_MEMORY)
        self.bound: dict[int, int] = {}
        """Slot → how many run there, those that are stopping included."""
        self.live: dict[int, int] = {}
        """Slot → how many run there and are to stay."""
        self.refs = 0
        """How many pods of the class there are, running or waiting."""

    @property
    def is_lonely(self) -> bool:
        """Whether nothing about it depends on other pods, as far as it says itself."""
        spec = self.spec
        return not (spec.spreads or spec.affinity or spec.anti_affinity)


class Read(msgspec.Struct, frozen=True):
    """A pod's class, and the one node it is made for (DaemonSets' pods), if any."""

    kind: PodClass
    only_node: str = ""


class PodReader:
    """Finds the class of a pod; equal pods get the same object."""

    def __init__(self) -> None:
        self._shared: dict[Any, Any] = {}
        self._classes: dict[tuple[str, FrozenDict[str, str], PodSpec], PodClass] = {}

    def read(self, pod: Object) -> Read:
        if len(self._shared) > _MOST_REMEMBERED:
            self._shared.clear()
        meta = pod["metadata"]
        labels = FrozenDict(meta["labels"]) if "labels" in meta else EMPTY
        root = Field(pod, Findings(written_by_hand=False, pool=self._shared))
        spec = pod_spec(root["spec"], labels=labels, pod_name=meta["name"])
        spec, only_node = _unpinned(spec)
        key = (meta["namespace"], labels, spec)
        known = self._classes.get(key)
        if known is None:
            known = self._classes[key] = PodClass(*key)
        return Read(known, only_node)

    def forget(self, kind: PodClass) -> None:
        """Let go of a class of which there are no pods any more."""
        self._classes.pop((kind.namespace, kind.labels, kind.spec), None)

    @property
    def classes(self) -> list[PodClass]:
        return list(self._classes.values())


def _unpinned(spec: PodSpec) -> tuple[PodSpec, str]:
    """Take out of a spec the name of the one node that each of its terms demands."""
    if not any(term.fields for term in spec.node_terms):
        return spec, ""
    names = {_pinned_to(term) for term in spec.node_terms}
    if len(names) != 1 or None in names:
        return spec, ""
    (name,) = names
    rest = tuple(NodeTerm(term.expressions) for term in spec.node_terms)
    if any(not term.expressions for term in rest):
        rest = ()
    return msgspec.structs.replace(spec, node_terms=rest), str(name)


def _pinned_to(term: NodeTerm) -> str | None:
    for one in term.fields:
        if one.key == _NAME_FIELD and one.operator is Operator.IN and len(one.values) == 1:
            return one.values[0] if len(term.fields) == 1 else None
    return None
