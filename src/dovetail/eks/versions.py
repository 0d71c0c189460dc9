"""Kubernetes versions of EKS, and which upgrades it makes."""

from typing import Final

from dovetail.errors import DovetailError

VERSIONS: Final = ("1.31", "1.32", "1.33", "1.34", "1.35", "1.36")
"""Versions that EKS supported, extended support included, at this release."""


class VersionError(DovetailError):
    """EKS cannot change from the running to the desired Kubernetes version."""


def parse_minor(version: str) -> int:
    """Return the minor version: 35 of ``1.35`` and ``v1.35.2-eks-3025e55``."""
    return int(version.partition(".")[2].partition(".")[0])


def validate_upgrade(running: str, target: str) -> None:
    """Raise ``VersionError`` for a downgrade, or an upgrade by several minor versions."""
    current = parse_minor(running)
    steps = parse_minor(target) - current
    if steps < 0:
        raise VersionError(f"the cluster runs 1.{current}; EKS cannot downgrade to {target}")
    if steps > 1:
        raise VersionError(
            f"the cluster runs 1.{current}; EKS upgrades one minor version at a time: "
            f"1.{current + 1} first, then the next, up to {target}"
        )
