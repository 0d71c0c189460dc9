"""Facts from files: cluster.yaml, Terraform's sources and lock file, a plan as JSON."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from dovetail.doctor.facts import FileFacts, Need, Part
from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.desired.desired_state import wanted
from dovetail.eks.plan.references import Reference, resolved
from dovetail.eks.validation.load import read_spec
from dovetail.errors import DovetailError
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_POOLS, Resource
from dovetail.ports.kube_client import Object

_SOURCES: Final = (".tf", ".tf.json")
LOCK: Final = ".terraform.lock.hcl"


def file_facts(
    *, spec: tuple[str, bytes] | None, terraform: Path | None, plan: Path | None
) -> tuple[FileFacts, Mapping[Need, str]]:
    """Read what is given; raises ``DovetailError`` when it cannot be read."""
    unseen: dict[Need, str] = {}
    if spec is None:
        unseen[Part.SPEC] = "no cluster.yaml was given; name one with -f"
    if terraform is None:
        unseen[Part.TERRAFORM] = (
            "no Terraform files were given; name their directory with --terraform"
        )
    if plan is None:
        unseen[Part.PLAN] = "no plan was given; write one with `terraform show -json` for --plan"
    return (
        FileFacts(
            spec=None if spec is None else read_spec(*spec),
            terraform={} if terraform is None else _sources(terraform),
            plan=() if plan is None else _changes(plan),
        ),
        unseen,
    )


def objects_in(spec: ClusterSpec) -> dict[Resource, tuple[Object, ...]]:
    """Return the NodePools and node classes of a cluster.yaml as objects.

    What only AWS knows (an id) is stood for by the name of the thing that has it.
    """
    found: dict[Resource, list[Object]] = {NODE_POOLS: [], EC2_NODE_CLASSES: []}
    for one in wanted(spec):
        if one.kind != "kubernetes-object":
            continue
        for kind, objects in found.items():
            if one.properties.get("kind") == kind.kind:
                objects.append(resolved(dict(one.properties), _stand_in))
    return {kind: tuple(objects) for kind, objects in found.items()}


def _stand_in(reference: Reference) -> str:
    return reference.address.partition("/")[2] or reference.attribute


def _sources(folder: Path) -> dict[str, str]:
    try:
        paths = sorted(
            one
            for one in folder.iterdir()
            if one.is_file() and (one.name == LOCK or one.name.endswith(_SOURCES))
        )
        found = {one.name: one.read_text(encoding="utf-8", errors="replace") for one in paths}
    except OSError as error:
        raise DovetailError(f"{folder} cannot be read: {error.strerror}") from error
    if not found:
        raise DovetailError(f"{folder} holds no Terraform files (*.tf)")
    return found


def _changes(path: Path) -> tuple[Any, ...]:
    try:
        told = json.loads(path.read_bytes())
    except OSError as error:
        raise DovetailError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        hint = "write it with `terraform show -json PLAN`"
        raise DovetailError(f"{path} is no plan in JSON ({error}); {hint}") from error
    changes = told.get("resource_changes") if isinstance(told, dict) else None
    if not isinstance(changes, list):
        hint = "write it with `terraform show -json PLAN`"
        raise DovetailError(f"{path} has no resource_changes; {hint}")
    return tuple(changes)
