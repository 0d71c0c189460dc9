"""Facts from a live cluster, which is only read, or from dumps of ``kubectl get -o json``."""

import asyncio
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from dovetail.codec.inputs.collection import NamedFile
from dovetail.codec.text.documents import ManifestReader
from dovetail.doctor.facts import Facts, Need
from dovetail.doctor.sources.kubernetes import CONNECT_TIMEOUT, list_kinds, open_connection
from dovetail.errors import DovetailError, InvalidInputError
from dovetail.kube.auth.kubeconfig import RestConfig
from dovetail.migration.facts import OLDER, READ
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.ports.api_resources import Resource
from dovetail.ports.kube_client import Object
from dovetail.ports.kube_errors import ApiError

DUMP: Final = (
    "kubectl get deploy,sa,pods,nodes,leases,crd,nodepools,nodeclaims,ec2nodeclasses,"
    "validatingwebhookconfigurations,mutatingwebhookconfigurations -A -o json"
)
"""Command for a dump with all kinds that the checks read."""


async def read_cluster(access: RestConfig, *, now: datetime, catalog: Catalog) -> Facts:
    """List every kind once; raise ``DovetailError`` if the API server does not respond."""
    connection = open_connection(access)
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT):
            await connection.request("GET", "/version")
        current = await list_kinds(connection, READ, optional=frozenset())
        # A server that serves v1 would return the same objects converted to older versions.
        kinds = {(resource.group, resource.plural) for resource in current.objects}
        older = [resource for resource in OLDER if (resource.group, resource.plural) not in kinds]
        legacy = await list_kinds(connection, older, optional=frozenset(older))
    except TimeoutError as error:
        message = f"{connection.server} did not respond within {CONNECT_TIMEOUT:g}s"
        raise DovetailError(message) from error
    except ApiError as error:
        raise DovetailError(str(error)) from error
    finally:
        await connection.close()
    return Facts(
        now=now,
        catalog=catalog,
        objects={**current.objects, **legacy.objects},
        unseen={**current.unseen, **legacy.unseen},
    )


def read_dumps(files: Sequence[NamedFile], *, now: datetime, catalog: Catalog) -> Facts:
    """Return the objects of dumps; a kind that they neither list nor have objects of is unknown."""
    reader = ManifestReader()
    resources = {(resource.api_version, resource.kind): resource for resource in (*READ, *OLDER)}
    objects: dict[Resource, dict[tuple[str, str], Object]] = {}
    for name, data in files:
        for raw in reader.read_objects(name, data):
            resource = resources.get((str(raw.value.get("apiVersion")), str(raw.value.get("kind"))))
            meta = raw.value.get("metadata")
            if resource is None or not isinstance(meta, dict):
                continue
            key = (str(meta.get("namespace") or ""), str(meta.get("name") or ""))
            # Dumps often overlap: the first object counts.
            objects.setdefault(resource, {}).setdefault(key, raw.value)
    if reader.errors:
        raise InvalidInputError(reader.errors)
    if not objects:
        names = ", ".join(name for name, _ in files)
        raise DovetailError(f"no objects of a cluster in {names}; make a dump with: {DUMP}")
    for resource in READ:
        if resource.kind in reader.listed_kinds:
            objects.setdefault(resource, {})  # Listed, and there are none.
    older = {(resource.group, resource.plural) for resource in objects if resource in OLDER}
    unseen: dict[Need, str] = {
        resource: f"the dump has no {resource.qualified_name}"
        for resource in READ
        if resource not in objects and (resource.group, resource.plural) not in older
    }
    listed = {resource: tuple(by_name.values()) for resource, by_name in objects.items()}
    return Facts(now=now, catalog=catalog, objects=listed, unseen=unseen)
