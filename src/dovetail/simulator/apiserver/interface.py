"""What simulated kubelets need of an API server: ours in memory, or one far away."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from dovetail.ports.api_resources import Resource
from dovetail.simulator.apiserver.delete import DeleteOptions
from dovetail.simulator.apiserver.options import ListOptions, WatchOptions
from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.apiserver.storage.watch import WatchEvent


class Listed(Protocol):
    """The answer to a list."""

    @property
    def items(self) -> Sequence[Object]: ...


class Followed(Protocol):
    """Changes, taken when the watcher likes."""

    def take(self) -> list[WatchEvent]:
        """Return what happened since the last call, oldest first."""

    def stop(self) -> None: ...


class Verbs(Protocol):
    """Each as ``server.ApiServer`` has it."""

    def get(self, resource: Resource, name: str, namespace: str = "") -> Object: ...

    def list(self, resource: Resource, which: ListOptions = ...) -> Listed: ...

    def create(self, resource: Resource, obj: Mapping[str, Any], namespace: str = "") -> Object: ...

    def update(
        self, resource: Resource, obj: Mapping[str, Any], *, subresource: str = ""
    ) -> Object: ...

    def renew(self, name: str, namespace: str, *, at: str) -> Object: ...

    def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        options: DeleteOptions = ...,
    ) -> Object: ...

    def watch(
        self,
        resource: Resource,
        which: WatchOptions = ...,
        *,
        notify: Callable[[], None] | None = None,
    ) -> Followed: ...
