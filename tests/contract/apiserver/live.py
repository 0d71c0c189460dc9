"""A real API server, with controllers who take their time."""

import asyncio
import secrets
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from dovetail.host.clock import RealClock
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
from tests.contract.apiserver.overhttp import Connection, OverHttp
from tests.contract.apiserver.subject import Object
from tests.live.cluster import Cluster, wait_for
from tests.live.plane import ControlPlane

_QUIET = 1.0
"""Seconds without a change after which controllers count as done."""
_PATIENCE = 60.0


def connected(cluster: Cluster) -> Connection:
    """Return a connection with the rights of the cluster's kubeconfig."""
    access = cluster.access()
    token = asyncio.run(access.credentials.token())
    return Connection(access.server, access.tls, token=token)


class Live(OverHttp):
    """A namespace on a server that others use at the same time."""

    def __init__(self, cluster: Cluster, connection: Connection) -> None:
        self._made: list[tuple[Resource, str, str]] = []
        super().__init__(connection, test=secrets.token_hex(4))
        self._cluster = cluster
        wait_for("pods may be created in the new namespace", self._has_account)

    def create(
        self,
        resource: Resource,
        obj: Mapping[str, Any],
        *,
        namespace: str = "",
        manager: str = "",
        dry_run: bool = False,
    ) -> Object:
        made = super().create(resource, obj, namespace=namespace, manager=manager, dry_run=dry_run)
        meta = made["metadata"]
        if not dry_run and (not resource.namespaced or meta.get("finalizers")):
            self._made.append((resource, meta["name"], namespace))
        return made

    def an_old_version(self) -> str:
        # A cluster that has lived for a while has forgotten its first version; ours has not.
        if isinstance(self._cluster, ControlPlane):
            self._connection.close()
            self._cluster.restart_apiserver(forgetting=True)
        return "1"

    def settle(self) -> None:
        clock = RealClock()
        end = clock.seconds() + _PATIENCE
        seen, since = self._versions(), clock.seconds()
        while clock.seconds() - since < _QUIET:
            assert clock.seconds() < end, f"still not quiet after {_PATIENCE:g} s"
            clock.sleep(0.05)
            now = self._versions()
            if now != seen or self._ends_soon():
                seen, since = now, clock.seconds()

    def leave(self) -> None:
        """Have what the test made removed, but for what goes along with its namespace."""
        for resource, name, namespace in reversed(self._made):
            with suppress(NotFound):
                self.patch(resource, name, NO_FINALIZERS, namespace=namespace)
            with suppress(NotFound, Conflict):
                self.delete(resource, name, namespace=namespace, grace_seconds=0)

    def _has_account(self) -> bool:
        return exists(self, SERVICE_ACCOUNTS, "default")

    def _namespaces(self) -> list[Object]:
        """The test's namespaces that are still there."""
        found = []
        for resource, name, _ in self._made:
            if resource is NAMESPACES:
                with suppress(NotFound):
                    found.append(self.get(NAMESPACES, name))
        return found

    def _versions(self) -> dict[str, str]:
        """The version of everything of the test that controllers may change."""
        namespaces = self._namespaces()
        inside = (one for space in namespaces for one in self._content(space))
        metas = [one["metadata"] for one in (*namespaces, *inside)]
        return {meta["uid"]: meta["resourceVersion"] for meta in metas}

    def _content(self, namespace: Object) -> list[Object]:
        where = namespace["metadata"]["name"]
        return [
            one
            for resource in (LEASES, PODS, POD_DISRUPTION_BUDGETS)
            for one in self._connection.ask("GET", self._path(resource, namespace=where), {})[
                "items"
            ]
        ]

    def _ends_soon(self) -> bool:
        """Tell whether a namespace goes, and only the controller's pauses keep it."""
        return any(
            "deletionTimestamp" in one["metadata"]
            and not any(inside["metadata"].get("finalizers") for inside in self._content(one))
            for one in self._namespaces()
        )
