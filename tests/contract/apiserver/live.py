"""A real API server, whose controllers are asynchronous."""

import asyncio
import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from dovetail.host.clock import SystemClock
from dovetail.ports.api_resources import (
    LEASES,
    NAMESPACES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    SERVICE_ACCOUNTS,
    Resource,
)
from dovetail.ports.kube_errors import Conflict, NotFound
from tests.contract.apiserver.objects import NO_FINALIZERS, exists
from tests.contract.apiserver.rest_client import Connection, RestServer
from tests.contract.apiserver.subject import Object
from tests.live.cluster import Cluster, wait_for
from tests.live.control_plane import ControlPlane

_QUIET_PERIOD = 1.0
"""Seconds without a change after which controllers count as done."""
_TIMEOUT = 60.0


def connect(cluster: Cluster) -> Connection:
    """Return a connection with the credentials of the cluster's kubeconfig."""
    access = cluster.access()
    token = asyncio.run(access.credentials.token())
    return Connection(access.server, access.tls, token=token)


class LiveServer(RestServer):
    """A namespace on a server that other clients use at the same time."""

    def __init__(self, cluster: Cluster, connection: Connection) -> None:
        self._made: list[tuple[Resource, str, str]] = []
        super().__init__(connection, test=secrets.token_hex(4))
        self._cluster = cluster
        wait_for("pods may be created in the new namespace", self._has_service_account)

    def create(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        *,
        namespace: str = "",
        manager: str = "",
        dry_run: bool = False,
    ) -> Object:
        created = super().create(resource, obj, namespace=namespace, manager=manager, dry_run=dry_run)
        meta = created["metadata"]
        if not dry_run and (not resource.namespaced or meta.get("finalizers")):
            self._made.append((resource, meta["name"], namespace))
        return created

    def compacted_version(self) -> str:
        # A cluster of some age has compacted its first version; a new control plane has not.
        if isinstance(self._cluster, ControlPlane):
            self._connection.close()
            self._cluster.restart_apiserver(compact=True)
        return "1"

    def wait_for_controllers(self) -> None:
        clock = SystemClock()
        end = clock.seconds() + _TIMEOUT
        versions, since = self._versions(), clock.seconds()
        while clock.seconds() - since < _QUIET_PERIOD:
            assert clock.seconds() < end, f"still not quiet after {_TIMEOUT:g} s"
            clock.sleep(0.05)
            now = self._versions()
            if now != versions or self._is_namespace_finalizing():
                versions, since = now, clock.seconds()

    def clean_up(self) -> None:
        """Delete the test's objects, except those that its namespace deletes."""
        for resource, name, namespace in reversed(self._made):
            with suppress(NotFound):
                self.patch(resource, name, NO_FINALIZERS, namespace=namespace)
            with suppress(NotFound, Conflict):
                self.delete(resource, name, namespace=namespace, grace_period_seconds=0)

    def _has_service_account(self) -> bool:
        return exists(self, SERVICE_ACCOUNTS, "default")

    def _namespaces(self) -> list[Object]:
        """Return the namespaces of the test that still exist."""
        namespaces = []
        for resource, name, _ in self._made:
            if resource is NAMESPACES:
                with suppress(NotFound):
                    namespaces.append(self.get(NAMESPACES, name))
        return namespaces

    def _versions(self) -> dict[str, str]:
        """Return the versions of the test's objects that controllers may change, by uid."""
        namespaces = self._namespaces()
        inside = (obj for space in namespaces for obj in self._list_objects(space))
        metas = [obj["metadata"] for obj in (*namespaces, *inside)]
        return {meta["uid"]: meta["resourceVersion"] for meta in metas}

    def _list_objects(self, namespace: Object) -> list[Object]:
        where = namespace["metadata"]["name"]
        return [
            obj
            for resource in (LEASES, PODS, POD_DISRUPTION_BUDGETS)
            for obj in self._connection.request("GET", self._path(resource, namespace=where), {})["items"]
        ]

    def _is_namespace_finalizing(self) -> bool:
        """Return True if a namespace is terminating and no finalizer blocks it.

        Only the pauses of the namespace controller delay it.
        """
        return any(
            "deletionTimestamp" in namespace["metadata"]
            and not any(inside["metadata"].get("finalizers") for inside in self._list_objects(namespace))
            for namespace in self._namespaces()
        )
