"""Outputs of an existing cluster: facts, the controller's policies and its rendered release."""

from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

from dovetail.eks.desired.controller import release_address
from dovetail.eks.desired.desired_state import outputs
from dovetail.eks.desired.names import Names
from dovetail.eks.kubernetes.helm import list_installed_releases
from dovetail.eks.plan.references import (
    Reference,
    UnresolvedReferenceError,
    find_references,
    resolve_references,
)
from dovetail.eks.plan.resolver import resolve_reference
from dovetail.eks.plan.resource import ObservedState
from dovetail.eks.session import ClusterSession


class ClusterOutputs(msgspec.Struct, frozen=True):
    """Outputs by name."""

    values: Mapping[str, Any]
    missing: tuple[str, ...]
    """Names of outputs whose resources do not exist."""


async def read_outputs(session: ClusterSession) -> ClusterOutputs:
    """Return the outputs of the cluster as it is; changes nothing."""
    observed = await session.observe()
    values: dict[str, Any] = {}
    for name, value in outputs(session.config).items():
        try:
            values[name] = resolve_references(value, _lookup(observed))
        except UnresolvedReferenceError:
            values[name] = None
    values["controllerPolicies"] = _controller_policies(session, observed)
    values["controllerManifest"] = await _controller_manifest(session)
    return ClusterOutputs(
        {name: value for name, value in values.items() if value is not None},
        tuple(name for name, value in values.items() if value is None),
    )


def _lookup(observed: ObservedState) -> Any:
    # Without predictions: an output says that the resource exists.
    def lookup(reference: Reference) -> Any:
        return resolve_reference(reference, observed=observed, desired={})

    return lookup


def _controller_policies(session: ClusterSession, observed: ObservedState) -> dict[str, Any] | None:
    """Return the policies of the controller's role by name, each with ARN and document."""
    role_address = f"iam-role/{Names.from_config(session.config).controller_role}"
    role = next(resource for resource in session.desired if resource.address == role_address)
    addresses = dict.fromkeys(reference.address for reference in find_references(role.properties))
    policies = {
        policy.name: {"arn": policy.attributes["arn"], "document": policy.properties["PolicyDocument"]}
        for address in addresses
        if address.startswith("iam-policy/") and (policy := observed.resources.get(address)) is not None
    }
    return policies or None


async def _controller_manifest(session: ClusterSession) -> list[Any] | None:
    """Return the objects of the controller's Helm release, as helm rendered them."""
    api = await session.api_access.connect()
    if api is None:
        return None
    _, namespace, name = release_address(session.config).split("/")
    release = (await list_installed_releases(api)).get((namespace, name))
    if release is None:
        return None
    return [document for document in yaml.safe_load_all(release.manifest) if document is not None]
