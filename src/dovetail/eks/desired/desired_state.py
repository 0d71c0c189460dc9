"""Desired state: every resource that a cluster.yaml asks for; a pure function."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from typing import Any

import msgspec

from dovetail.data.bundled import bundled_catalog
from dovetail.eks.config.cluster import ClusterConfig
from dovetail.eks.desired.addons import desired_addons
from dovetail.eks.desired.control_plane import desired_access, desired_control_plane
from dovetail.eks.desired.controller import desired_controller
from dovetail.eks.desired.iam_roles import RoleBuilder, node_role_arn
from dovetail.eks.desired.interruption_queue import desired_interruption_queue
from dovetail.eks.desired.kubernetes_objects import desired_objects
from dovetail.eks.desired.names import Names, recorded_keys, uses_existing_cluster
from dovetail.eks.desired.network import desired_network, network_settings
from dovetail.eks.desired.node_groups import desired_compute
from dovetail.eks.desired.nodepools import desired_nodepools
from dovetail.eks.desired.security_groups import desired_security_groups
from dovetail.eks.desired.zones import get_region
from dovetail.eks.plan.references import ref
from dovetail.eks.plan.resource import (
    NAME_TAG,
    OWNERSHIP_TAG,
    REGION_TAG,
    DesiredResource,
    sort_by_dependency,
)
from dovetail.eks.plan.resource_kinds import GLOBAL_KINDS, KINDS
from dovetail.model.cloud.ec2_catalog import Catalog
from dovetail.model.frozen import FrozenDict


def desired_state(
    config: ClusterConfig,
    catalog: Catalog | None = None,
    *,
    addon_versions: Mapping[str, str] = FrozenDict(),
    today: date | None = None,
) -> tuple[DesiredResource, ...]:
    """Return every resource that a cluster.yaml asks for, dependencies first.

    AWS is not called; the same input always gives the same resources.
    ``addon_versions`` are the newest versions of EKS add-ons that fit the cluster;
    without them, EKS chooses the version of an add-on that the file does not pin.
    ``today`` decides on the cost of the control plane: EKS raises it after standard support.
    """
    region = get_region(config, catalog or bundled_catalog())
    names = Names.from_config(config)
    network = network_settings(config, region)
    resources: list[DesiredResource] = []
    if not (uses_existing_cluster(config) and config.vpc is None):
        resources.extend(desired_network(config, names, region))
    resources.extend(RoleBuilder(config, names).build())
    resources.extend(desired_control_plane(config, names, network, today))
    resources.extend(desired_security_groups(config, names, network))
    resources.extend(desired_access(config, names))
    if config.controller.interruption_queue:
        resources.extend(desired_interruption_queue(names))
    resources.extend(desired_compute(config, names, network, region))
    resources.extend(desired_addons(config, names, addon_versions))
    resources.extend(desired_controller(config, names, network))
    resources.extend(desired_nodepools(config, names, network))
    resources.extend(desired_objects(config, names))
    return tuple(sort_by_dependency(_with_tags(resources, config)))


def _with_tags(resources: Iterable[DesiredResource], config: ClusterConfig) -> Iterator[DesiredResource]:
    for resource in resources:
        kind = KINDS[resource.kind]
        if resource.external or not kind.taggable:
            yield resource
            continue
        tags = {**config.tags, **recorded_keys(config.tags), **resource.tags, OWNERSHIP_TAG: config.name}
        if resource.kind in GLOBAL_KINDS:
            tags[REGION_TAG] = config.region
        if not kind.name_property:
            tags |= {NAME_TAG: resource.name, "Name": f"{config.name}-{resource.name}"}
        yield msgspec.structs.replace(resource, tags=tags)


def outputs(config: ClusterConfig) -> dict[str, Any]:
    """Return the outputs of ``apply``: facts about the cluster, as references."""
    names = Names.from_config(config)
    cluster = names.cluster_ref
    values = {
        "clusterName": names.cluster,
        "endpoint": cluster("endpoint"),
        "certificateAuthority": cluster("certificate-authority"),
        "oidcUrl": cluster("issuer-url"),
        "clusterSecurityGroup": cluster("security-group"),
        "controllerRoleArn": ref(f"iam-role/{names.controller_role}", "arn"),
        "nodeRoleArn": node_role_arn(config, names),
    }
    if config.controller.interruption_queue:
        values["interruptionQueue"] = ref(f"sqs-queue/{names.cluster}", "name")
    return values
