"""All checks, in the order of their codes."""

from typing import Final

from dovetail.doctor.check import Check
from dovetail.doctor.checks import (
    controller,
    crds,
    iam,
    identity,
    installation,
    network,
    nodepools,
    nodes,
    teardown,
    terraform,
)

_AREAS: Final = "INKTPD"
"""First letters of codes: IAM, network, Kubernetes, Terraform, NodePools, deletion."""
_MODULES: Final = (
    iam,
    identity,
    network,
    controller,
    installation,
    crds,
    nodes,
    nodepools,
    terraform,
    teardown,
)

CHECKS: Final[tuple[Check, ...]] = tuple(
    sorted(
        (value for module in _MODULES for value in vars(module).values() if isinstance(value, Check)),
        key=lambda check: (_AREAS.index(check.code[0]), int(check.code[1:])),
    )
)
"""Every check that a module of an area defines."""
