"""Handler: the protocol that every resource kind implements.

``registry`` lists the handlers. ``apply.observer`` calls ``observe``, and
``apply.executor`` calls ``create``, ``update`` and ``delete``.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from dovetail.eks.aws_client import AwsClient
from dovetail.eks.plan.planner import Step
from dovetail.eks.plan.resource import DesiredResource, ObservedResource


class InvalidStepError(RuntimeError):
    """A step that no plan may contain: the resource is read-only or immutable."""


Attributes = Mapping[str, Any]
"""Values that others can refer to: the kind's names in ``resource_kinds``."""


class Handler(Protocol):
    """Observes, creates, updates and deletes one kind of resource; idempotent."""

    kind: str
    """A key of ``resource_kinds.KINDS``."""

    async def observe(self, cluster: str, desired: Sequence[DesiredResource]) -> Iterable[ObservedResource]:
        """Return those of ``desired`` that exist, and all that the cluster owns.

        Only describes and lists. External resources are observed too. References
        in ``desired`` are resolved as far as possible. A resource that depends on
        an absent one is absent.
        """
        ...

    async def create(self, resource: DesiredResource) -> Attributes:
        """Create the resource and wait until it is usable; "exists" is success.

        All references in ``resource`` are resolved.
        """
        ...

    async def update(self, observed: ObservedResource, resource: DesiredResource) -> Attributes:
        """Update the properties that differ."""
        ...

    async def delete(self, observed: ObservedResource) -> None:
        """Delete the resource and wait until it is gone; "not found" is success."""
        ...


class AwsHandler:
    """Base of handlers that call AWS."""

    def __init__(self, aws: AwsClient) -> None:
        self._aws = aws

    async def update(self, observed: ObservedResource, resource: DesiredResource) -> Attributes:
        """Return the attributes: by default, a kind has no mutable properties."""
        return observed.attributes


class StepExecutor(Protocol):
    """Executes steps, or reports them only."""

    async def execute(self, step: Step) -> Attributes:
        """Execute a step whose dependencies are done; return the new attributes."""
        ...
