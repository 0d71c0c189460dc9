"""Which versions of Kubernetes a cluster that runs can go to."""

from collections.abc import Sequence

from dovetail.eks.plan.resource import Observed, Resource
from dovetail.errors import DovetailError


class NoWay(DovetailError):
    """EKS does not go from the version that runs to the one that is wanted."""


def check_version(wanted: Sequence[Resource], observed: Observed) -> None:
    """Refuse to go back, or up by more than one minor version at a time."""
    for one in wanted:
        existing = observed.resources.get(one.address)
        if one.kind != "eks-cluster" or one.given or existing is None:
            continue
        runs, asked = str(existing.properties["Version"]), str(one.properties["Version"])
        steps = _minor(asked) - _minor(runs) if runs else 0
        if steps < 0:
            raise NoWay(f"version: the cluster runs {runs}, and EKS does not go back to {asked}")
        if steps > 1:
            following = f"1.{_minor(runs) + 1}"
            raise NoWay(
                f"version: the cluster runs {runs}, and EKS goes up by one at a time: apply "
                f"{following} first, then the next, up to {asked}"
            )


def _minor(version: str) -> int:
    return int(version.partition(".")[2].partition(".")[0])
