"""Plan without an account: everything is created, and what that assumes."""

from collections.abc import Iterator
from datetime import date

import msgspec

from dovetail.data.bundled import bundled_catalog
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.config.network import CreatedVpc
from dovetail.eks.desired.addons import file_notes
from dovetail.eks.desired.desired_state import desired_state
from dovetail.eks.desired.names import uses_existing_cluster
from dovetail.eks.desired.zones import get_region, select_zones
from dovetail.eks.plan.planner import Plan, plan_changes
from dovetail.eks.plan.resource import Account, DesiredResource, ObservedState
from dovetail.eks.plan.resource_kinds import KINDS
from dovetail.model.cloud.partitions import dns_suffix, partition_of

UNKNOWN_ACCOUNT = "000000000000"
"""Stands for the account id, if the file has none."""


def offline_plan(config: ClusterConfig, *, today: date | None = None) -> Plan:
    """Return the plan for an account without resources of this cluster.

    AWS is not called. Resources that must exist already are assumed to exist; the
    notes of the plan list all assumptions.
    """
    desired = desired_state(config, today=today)
    partition = partition_of(config.region)
    account = Account(
        account=config.account or UNKNOWN_ACCOUNT,
        region=config.region,
        partition=partition,
        dns_suffix=dns_suffix(partition),
    )
    plan = plan_changes(desired, ObservedState(account=account))
    return msgspec.structs.replace(
        plan, missing=(), notes=(*file_notes(config), *_assumptions(config, desired))
    )


def _assumptions(config: ClusterConfig, desired: tuple[DesiredResource, ...]) -> Iterator[str]:
    account = f"account {config.account}" if config.account else "the account (its id is not in the file)"
    yield f"offline: assumes that {account} has no resources of this cluster yet"
    if not uses_existing_cluster(config) and not (config.vpc and config.vpc.existing):
        created = (config.vpc.create if config.vpc else None) or CreatedVpc()
        zones = ", ".join(select_zones(created, get_region(config, bundled_catalog())))
        if isinstance(created.zones, list):
            yield f"offline: assumes that the account has the zones {zones}, and that all support EKS"
        else:
            yield f"offline: assumes the zones {zones}; apply chooses among those of the account"
    for resource in desired:
        if resource.kind == "subnet-selection":
            yield f"offline: assumes that the existing subnets ({resource.name}) are in one VPC and two zones"
        elif resource.external:
            yield f"offline: assumes that {KINDS[resource.kind].display_name} {resource.name} exists"
