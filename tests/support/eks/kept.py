"""Differences from a fresh apply that are documented: what stays although the file changed."""

from collections.abc import Callable
from typing import Any

from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.plan.resource import NAME_TAG
from tests.support.memory_aws.clusters import CREATOR

Path = tuple[str, ...]
Rule = Callable[[Path, Any, Any, ClusterConfig], bool]


def is_kept(path: Path, before: Any, after: Any, config: ClusterConfig) -> bool:
    """Return True if a rule explains why the account has ``before`` and not ``after``."""
    return any(rule(path, before, after, config) for rule in _RULES)


def _block_of_subnet(path: Path, before: Any, after: Any, config: ClusterConfig) -> bool:
    """Subnets in use keep their blocks if the file names none."""
    created = config.vpc.create if config.vpc else None
    if not path[0].startswith("subnet:") or path[1:] != ("CidrBlock",) or created is None:
        return False
    return not (created.private_subnets if ":private-" in path[0] else created.public_subnets)


def _subnets_of_group(path: Path, before: Any, after: Any, config: ClusterConfig) -> bool:
    """Node groups and Fargate profiles keep their subnets when zones are added."""
    return (
        path[0].startswith(("nodegroup ", "fargate "))
        and path[1:] == ("subnets",)
        and set(before) < set(after)
    )


def _entry_of_eks(path: Path, before: Any, after: Any, config: ClusterConfig) -> bool:
    """EKS creates access entries of node groups and Fargate profiles, and they are its own."""
    is_entry = path[0].startswith("entry ") and len(path) == 1 and after is None
    return is_entry and before["tags"] == {} and before["type"] != "STANDARD"


def _version_of_chart(path: Path, before: Any, after: Any, config: ClusterConfig) -> bool:
    """Without a version in the file, the version of a release stays."""
    is_chart = "/secrets/" in path[0] and path[1:] == ("data", "chart", "metadata", "version")
    return is_chart and config.controller.version is None


def _name_of_rule(path: Path, before: Any, after: Any, config: ClusterConfig) -> bool:
    """A security group rule that is desired under another name keeps its name tag."""
    return path[0].startswith("rule {") and path[1:] == ("Tags", NAME_TAG)


def _service_linked_role(path: Path, before: Any, after: Any, config: ClusterConfig) -> bool:
    """The service-linked role of spot belongs to the account."""
    return path == ("role AWSServiceRoleForEC2Spot",) and after is None


def _entry_of_creator(path: Path, before: Any, after: Any, config: ClusterConfig) -> bool:
    """EKS decides at creation whether the creator is an administrator; later it is a note."""
    return path == (f"entry {CREATOR}",) and "operator" not in str(config.access.admins)


_RULES: tuple[Rule, ...] = (
    _block_of_subnet,
    _subnets_of_group,
    _entry_of_eks,
    _version_of_chart,
    _name_of_rule,
    _service_linked_role,
    _entry_of_creator,
)
