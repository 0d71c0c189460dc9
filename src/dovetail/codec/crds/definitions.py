"""All definitions, and how they are written."""

from typing import Final

from dovetail.codec.crds.capacitybuffer import CAPACITY_BUFFER
from dovetail.codec.crds.definition import Definition
from dovetail.codec.crds.ec2nodeclass import EC2_NODE_CLASS
from dovetail.codec.crds.nodeclaim import NODE_CLAIM
from dovetail.codec.crds.nodeoverlay import NODE_OVERLAY
from dovetail.codec.crds.nodepool import NODE_POOL
from dovetail.codec.rewrite.round_trip import Document, to_yaml

DEFINITIONS: Final = (NODE_POOL, NODE_CLAIM, EC2_NODE_CLASS, NODE_OVERLAY, CAPACITY_BUFFER)


def as_yaml(one: Definition) -> str:
    """Write a definition as a document of YAML."""
    return to_yaml([Document(one.written(), None)])


def as_file(one: Definition) -> str:
    """Write a definition as a file of the chart, which nobody is to edit."""
    return f"# Written by `make crds` from the rules in src/dovetail/codec.\n{as_yaml(one)}"


def file_name(one: Definition) -> str:
    """Return the name of the file of a definition, as in Karpenter's chart."""
    return f"{one.group}_{one.plural}.yaml"
