"""A CustomResourceDefinition around the schema of a kind."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from dovetail.codec.crds.schema import Schema

_KEPT: Final = {"helm.sh/resource-policy": "keep"}
"""Uninstalling a chart must not delete every NodePool, and with them every node."""
_HEADER: Final[Mapping[str, Schema]] = {
    "apiVersion": {"description": "Group and version of this object.", "type": "string"},
    "kind": {"description": "What this object is.", "type": "string"},
    "metadata": {"type": "object"},
}


class Column(msgspec.Struct, frozen=True):
    """A column of ``kubectl get``."""

    name: str
    path: str
    type: str = "string"
    wide: bool = False
    """Shown with ``-o wide`` only."""

    def written(self) -> dict[str, Any]:
        shown: dict[str, Any] = {"name": self.name, "type": self.type, "jsonPath": self.path}
        return {**shown, "priority": 1} if self.wide else shown


READY: Final = Column("Ready", '.status.conditions[?(@.type=="Ready")].status')
AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """A kind: its names, what its objects look like, and how they are shown."""

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
    """Paths of the wanted and the actual number, for ``kubectl scale``."""

    @property
    def name(self) -> str:
        return f"{self.plural}.{self.group}"

    def written(self) -> dict[str, Any]:
        """Return the object that makes an API server know this kind."""
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
            "metadata": {"name": self.name, "annotations": dict(_KEPT)},
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
            wanted, actual = self.scale
            subresources["scale"] = {"specReplicasPath": wanted, "statusReplicasPath": actual}
        return {
            "name": self.version,
            "served": True,
            "storage": True,
            "additionalPrinterColumns": [one.written() for one in self.columns],
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
