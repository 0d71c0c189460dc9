"""CustomResourceDefinition of a kind: names, printer columns, subresources, schema."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dovetail.codec.crds.schema import Schema
from dovetail.model.kube import conditions

_ANNOTATIONS: Final = {"helm.sh/resource-policy": "keep"}
"""Uninstalling the chart must not delete all NodePools, and with them all nodes."""
_HEADER: Final[Mapping[str, Schema]] = {
    "apiVersion": {"description": "Group and version of this object.", "type": "string"},
    "kind": {"description": "Kind of this object.", "type": "string"},
    "metadata": {"type": "object"},
}


class Column(msgspec.Struct, frozen=True):
    """A column of ``kubectl get``."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False
    """Shown with ``-o wide`` only."""

    def encode(self) -> dict[str, Any]:
        encoded: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        return {**encoded, "priority": 1} if self.wide else encoded


def condition_column(condition_type: str, *, name: str = "", wide: bool = False) -> Column:
    """Return the column with the status of a condition."""
    path = f'.status.conditions[?(@.type=="{condition_type}")].status'
    return Column(name or condition_type, path, wide=wide)


READY: Final = condition_column(conditions.READY)
AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """Definition of a custom kind."""

    group: str
    version: str
    kind: str
    plural: str
    about: str
    spec: Schema
    status: Schema
    columns: tuple[Column, ...]
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ("karpenter",)
    namespaced: bool = False
    scale: tuple[str, str] | None = None
    """Paths of desired and actual replicas, for ``kubectl scale``."""

    @property
    def name(self) -> str:
        return f"{self.plural}.{self.group}"

    def encode(self) -> dict[str, Any]:
        """Encode the CustomResourceDefinition object."""
        names: dict[str, Any] = {
            "kind": self.kind,
            "listKind": f"{self.kind}List",
            "plural": self.plural,
            "singular": self.kind.lower(),
            "categories": list(self.categories),
        }
        if self.short_names:
            names["shortNames"] = list(self.short_names)
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name, "annotations": dict(_ANNOTATIONS)},
            "spec": {
                "group": self.group,
                "names": names,
                "scope": "Namespaced" if self.namespaced else "Cluster",
                "versions": [self._version()],
            },
        }

    def _version(self) -> dict[str, Any]:
        subresources: dict[str, Any] = {"status": {}}
        if self.scale:
            desired, actual = self.scale
            subresources["scale"] = {"specReplicasPath": desired, "statusReplicasPath": actual}
        return {
            "name": self.version,
            "served": True,
            "storage": True,
            "additionalPrinterColumns": [column.encode() for column in self.columns],
            "subresources": subresources,
            "schema": {
                "openAPIV3Schema": {
                    "description": self.about,
                    "type": "object",
                    "required": ["spec"],
                    "properties": {**_HEADER, "spec": self.spec, "status": self.status},
                }
            },
        }
