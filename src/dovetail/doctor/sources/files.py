"""Facts from files: cluster.yaml, Terraform's sources and lock file, a plan as JSON."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from dovetail.doctor.facts import FileFacts, Need, Part
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.desired.desired_state import desired_state
from dovetail.eks.plan.references import Reference, resolve_references
from dovetail.eks.validation.load import load_config
from dovetail.errors import DovetailError
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_POOLS, Resource
from dovetail.ports.kube_client import Object

_SOURCES: Final = (".tf", ".tf.json")
LOCK: Final = ".terraform.lock.hcl"


def file_facts(
    *, spec: tuple[str, bytes] | None, terraform: Path | None, plan: Path | None
) -> tuple[FileFacts, Mapping[Need, str]]:
    """Read the given files; raises ``DovetailError`` if one cannot be read."""
    unseen: dict[Need, str] = {}
    if spec is None:
        unseen[Part.SPEC] = "no cluster.yaml; use -f"
    if terraform is None:
        unseen[Part.TERRAFORM] = "no Terraform files; use --terraform DIR"
    if plan is None:
        unseen[Part.PLAN] = "no Terraform plan; write one with `terraform show -json` and use --plan"
    return (
        FileFacts(
            spec=None if spec is None else load_config(*spec),
            terraform={} if terraform is None else _sources(terraform),
            plan=() if plan is None else _changes(plan),
        ),
        unseen,
    )


def objects_in(spec: ClusterConfig) -> dict[Resource, tuple[Object, ...]]:
    """Return the NodePools and node classes of a cluster.yaml as objects.

    Values that only AWS knows, such as ids, are replaced by the resource's name.
    """
    by_kind: dict[Resource, list[Object]] = {NODE_POOLS: [], EC2_NODE_CLASSES: []}
    for resource in desired_state(spec):
        if resource.kind != "kubernetes-object":
            continue
        for kind, objects in by_kind.items():
            if resource.properties.get("kind") == kind.kind:
                objects.append(resolve_references(dict(resource.properties), _stand_in))
    return {kind: tuple(objects) for kind, objects in by_kind.items()}


def _stand_in(reference: Reference) -> str:
    return reference.address.partition("/")[2] or reference.attribute


def _sources(folder: Path) -> dict[str, str]:
    try:
        paths = sorted(
            path
            for path in folder.iterdir()
            if path.is_file() and (path.name == LOCK or path.name.endswith(_SOURCES))
        )
        sources = {path.name: path.read_text(encoding="utf-8", errors="replace") for path in paths}
    except OSError as error:
        raise DovetailError(f"{folder} cannot be read: {error.strerror}") from error
    if not sources:
        raise DovetailError(f"{folder} has no Terraform files (*.tf)")
    return sources


def _changes(path: Path) -> tuple[Any, ...]:
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise DovetailError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        hint = "write it with `terraform show -json PLAN`"
        raise DovetailError(f"{path} is not a plan in JSON ({error}); {hint}") from error
    changes = document.get("resource_changes") if isinstance(document, dict) else None
    if not isinstance(changes, list):
        hint = "write it with `terraform show -json PLAN`"
        raise DovetailError(f"{path} has no resource_changes; {hint}")
    return tuple(changes)
