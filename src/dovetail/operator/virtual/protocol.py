"""What goes over the wire between controllers and a virtual account."""

import typing
from typing import Any, Final, TypeVar

import msgspec

from dovetail.core.nodeclass.drift import DriftUnknown
from dovetail.errors import DovetailError
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.cloudprovider import (
    ClassStatus,
    CloudError,
    CreateFailed,
    Instance,
    InstanceNotFound,
    InsufficientCapacity,
    Message,
    NodeClassNotReady,
)
from dovetail.simulator.ec2.billing import Purchase
from dovetail.state.instancetypes.unavailable_offerings import Scarce

T = TypeVar("T")
_ERRORS: Final[dict[str, type[DovetailError]]] = {
    one.__name__: one
    for one in (CloudError, InstanceNotFound, InsufficientCapacity, NodeClassNotReady, DriftUnknown)
}


class Call(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call to the cloud port; which of the fields are set depends on the call."""

    cluster: str
    claim: NodeClaim | None = None
    node_class: NodeClass | None = None
    """That of the claim, as the caller knows it."""
    provider_id: str = ""
    wire_class: dict[str, Any] = {}
    """A node class in wire form, where that is what is asked about."""
    message: Message | None = None

    @property
    def the_claim(self) -> NodeClaim:
        if self.claim is None:
            raise CloudError("no claim was given")
        return self.claim


class Trouble(msgspec.Struct, frozen=True, kw_only=True):
    """An error of the cloud port."""

    kind: str
    message: str
    reason: str = ""


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What came of a call."""

    instance: Instance | None = None
    instances: tuple[Instance, ...] = ()
    status: ClassStatus | None = None
    drift: str | None = None
    messages: tuple[Message, ...] = ()
    purchases: tuple[Purchase, ...] = ()
    scarce: tuple[Scarce, ...] = ()
    """What could not be had lately, as far as the account has said so."""
    trouble: Trouble | None = None

    @property
    def the_instance(self) -> Instance:
        if self.instance is None:
            raise CloudError("the virtual account did not say which instance")
        return self.instance

    @property
    def the_status(self) -> ClassStatus:
        if self.status is None:
            raise CloudError("the virtual account did not say what the class finds")
        return self.status


def encode(value: Call | Answer) -> bytes:
    """Write it as JSON."""
    return msgspec.json.encode(value)


def decode(data: bytes, kind: type[T]) -> T:
    """Read what ``encode`` wrote; raises ``msgspec.MsgspecError``."""
    return msgspec.json.decode(data, type=kind, dec_hook=_frozen)


def trouble_of(error: DovetailError) -> Trouble:
    """Put an error into words that ``error_of`` understands."""
    if isinstance(error, CreateFailed):
        return Trouble(kind="CreateFailed", message=str(error), reason=error.reason)
    kind = type(error).__name__
    return Trouble(kind=kind if kind in _ERRORS else "CloudError", message=str(error))


def error_of(trouble: Trouble) -> DovetailError:
    """Make the error again that ``trouble_of`` put into words."""
    if trouble.kind == "CreateFailed":
        return CreateFailed(trouble.reason, trouble.message)
    return _ERRORS.get(trouble.kind, CloudError)(trouble.message)


def _frozen(kind: Any, value: Any) -> Any:
    """Make the mappings of the model, whose entries msgspec does not look into by itself."""
    made = typing.get_origin(kind) or kind
    if not (isinstance(made, type) and issubclass(made, FrozenDict)):
        raise NotImplementedError(kind)
    arguments = typing.get_args(kind)
    if arguments:
        entries: Any = dict[arguments[0], arguments[1]]  # type: ignore[valid-type]
        value = msgspec.convert(value, entries, dec_hook=_frozen)
    return made(value)
