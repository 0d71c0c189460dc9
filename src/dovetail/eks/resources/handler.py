"""How a kind of resource is reached, and how steps are carried out: the protocols."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from dovetail.eks.plan.planner import Step
from dovetail.eks.plan.resource import Existing, Resource


class WrongStep(RuntimeError):
    """A step that no plan may hold: the thing is only looked up, or can only be replaced."""


Attributes = Mapping[str, Any]
"""What others may refer to; the names that ``kindfacts`` lists for the kind."""


class Handler(Protocol):
    """One kind of resource in the real world. All of it may be repeated without harm."""

    kind: str
    """A key of ``kindfacts.KINDS``."""

    async def observe(self, cluster: str, wanted: Sequence[Resource]) -> Iterable[Existing]:
        """Return those of ``wanted`` that are there, and all that is tagged as the cluster's.

        Only describes and lists. ``given`` resources are looked up as well. The
        references in ``wanted`` are resolved as far as they can be; a resource
        that hangs on something absent is absent.
        """
        ...

    async def create(self, resource: Resource) -> Attributes:
        """Make it, wait until others can use it; being there already is success.

        ``resource`` holds no references any more.
        """
        ...

    async def change(self, existing: Existing, resource: Resource) -> Attributes:
        """Make it so; only what differs is written."""
        ...

    async def remove(self, existing: Existing) -> None:
        """Take it away and wait until it is gone; being gone already is success."""
        ...


class Executor(Protocol):
    """Carries out steps: one does it, another only says so."""

    async def do(self, step: Step) -> Attributes:
        """Do one step whose needs are done; return the attributes of what is there now."""
        ...
