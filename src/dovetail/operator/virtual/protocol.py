"""Messages between controllers and a virtual account: JSON over HTTP."""

import typing
from typing import Any, Final, TypeVar

import msgspec

from dovetail.core.nodeclass.drift import DriftUnknownError
from dovetail.errors import DovetailError
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.karpenter.nodeoverlay import NodeOverlay
from dovetail.model.karpenter.nodepool import NodePool
from dovetail.ports.cloudprovider import (
    CloudError,
    CreateError,
    Instance,
    InstanceNotFoundError,
    InsufficientCapacityError,
    InterruptionMessage,
    NodeClassNotReadyError,
    NodeClassStatus,
)
from dovetail.simulator.ec2.billing import LaunchRecord
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOffering

T = TypeVar("T")
_ERRORS: Final[dict[str, type[DovetailError]]] = {
    error.__name__: error
    for error in (
        CloudError,
        InstanceNotFoundError,
        InsufficientCapacityError,
        NodeClassNotReadyError,
        DriftUnknownError,
    )
}


def _require(value: T | None, message: str) -> T:
    if value is None:
        raise CloudError(message)
    return value


class Request(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Call of a cloud provider method; the method decides which fields are set."""

    cluster: str
    claim: NodeClaim | None = None
    node_class: EC2NodeClass | None = None
    """Node class of the claim, as the caller has it."""
    pool: NodePool | None = None
    """NodePool of the claim, if NodeOverlays apply to it."""
    overlays: tuple[NodeOverlay, ...] = ()
    provider_id: str = ""
    node_class_object: dict[str, Any] = {}
    """Node class as an API object, for ``resolve``."""
    message: InterruptionMessage | None = None

    @property
    def required_claim(self) -> NodeClaim:
        """Return the claim, or raise."""
        return _require(self.claim, "the request has no claim")

    @property
    def required_message(self) -> InterruptionMessage:
        """Return the message, or raise."""
        return _require(self.message, "the request has no message")


class ErrorInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Encoded error of a cloud provider."""

    type: str
    message: str
    reason: str = ""


class Response(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Result of a request."""

    instance: Instance | None = None
    instances: tuple[Instance, ...] = ()
    status: NodeClassStatus | None = None
    drift_reason: str | None = None
    messages: tuple[InterruptionMessage, ...] = ()
    launches: tuple[LaunchRecord, ...] = ()
    unavailable: tuple[UnavailableOffering, ...] = ()
    """Offerings that are unavailable in the account now."""
    error: ErrorInfo | None = None

    @property
    def required_instance(self) -> Instance:
        """Return the instance, or raise."""
        return _require(self.instance, "the response of the virtual account has no instance")

    @property
    def required_status(self) -> NodeClassStatus:
        """Return the node class status, or raise."""
        return _require(self.status, "the response of the virtual account has no node class status")


def encode(value: Request | Response) -> bytes:
    """Return a message as JSON."""
    return msgspec.json.encode(value)


def decode(data: bytes, message_type: type[T]) -> T:
    """Decode the result of ``encode``; raise ``msgspec.MsgspecError``."""
    return msgspec.json.decode(data, type=message_type, dec_hook=_decode_frozen)


def encode_error(error: DovetailError) -> ErrorInfo:
    """Return an error as ``ErrorInfo``."""
    if isinstance(error, CreateError):
        return ErrorInfo(type="CreateError", message=str(error), reason=error.reason)
    kind = type(error).__name__
    return ErrorInfo(type=kind if kind in _ERRORS else "CloudError", message=str(error))


def decode_error(info: ErrorInfo) -> DovetailError:
    """Return the error that ``encode_error`` encoded."""
    if info.type == "CreateError":
        return CreateError(info.reason, info.message)
    return _ERRORS.get(info.type, CloudError)(info.message)


def _decode_frozen(kind: Any, value: Any) -> Any:
    """Decode FrozenDicts, whose entries msgspec does not convert by itself."""
    target = typing.get_origin(kind) or kind
    if not (isinstance(target, type) and issubclass(target, FrozenDict)):
        raise NotImplementedError(kind)
    arguments = typing.get_args(kind)
    if arguments:
        entries: Any = dict[arguments[0], arguments[1]]  # type: ignore[valid-type]
        value = msgspec.convert(value, entries, dec_hook=_decode_frozen)
    return target(value)
