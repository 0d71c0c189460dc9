"""Decoding of recorded objects into models."""

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.karpenter.nodeclaims import decode_nodeclaim
from dovetail.codec.kube.nodes import decode_node
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.node import NodeObject

T = TypeVar("T")


def decode(decoder: Callable[[Field], T], obj: Mapping[str, Any]) -> T:
    """Decode an object of a live cluster; wrong fields get defaults."""
    return decoder(Field(obj, DecodeContext(strict=False)))


def decode_recorded_node(obj: Mapping[str, Any]) -> NodeObject:
    """Decode a Node."""
    return decode(decode_node, obj)


def decode_recorded_claim(obj: Mapping[str, Any]) -> NodeClaim:
    """Decode a NodeClaim."""
    return decode(decode_nodeclaim, obj)
