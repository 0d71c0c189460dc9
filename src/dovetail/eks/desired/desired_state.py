"""From cluster.yaml to everything that should be there: a pure function."""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from dovetail.data.bundled import bundled_catalog
from dovetail.eks.config.cluster import ClusterSpec
from dovetail.eks.desired.addons import addons
from dovetail.eks.desired.control_plane import access, control
from dovetail.eks.desired.controller import controller
from dovetail.eks.desired.iam_roles import Roles, node_role_arn
from dovetail.eks.desired.interruption_queue import interruption
from dovetail.eks.desired.kubernetes_objects import objects
from dovetail.eks.desired.names import Names, is_existing
from dovetail.eks.desired.network import network, network_of
from dovetail.eks.desired.node_groups import compute
from dovetail.eks.desired.nodepools import pools
from dovetail.eks.desired.security_groups import security
from dovetail.eks.plan.references import ref
from dovetail.eks.plan.resource import NAME_TAG, OWNER_TAG, Resource, in_order
from dovetail.eks.plan.resource_kinds import KINDS
from dovetail.model.cloud.ec2_catalog import Catalog


def wanted(spec: ClusterSpec, catalog: Catalog | None = None) -> tuple[Resource, ...]:
    """Return every resource that a cluster.yaml asks for, each after what it needs.

    Nothing is asked of AWS; the same file always gives the same resources.
    """
    region = (catalog or bundled_catalog()).regions[spec.region]
    names = Names.of(spec)
    place = network_of(spec, region)
    found: list[Resource] = []
    if not (is_existing(spec) and spec.vpc is None):
        found.extend(network(spec, names, region))
    found.extend(Roles(spec, names).all())
    found.extend(control(spec, names, place))
    found.extend(security(spec, names, place))
    found.extend(access(spec, names))
    if spec.controller.interruption_queue:
        found.extend(interruption(names))
    found.extend(compute(spec, names, place, region))
    found.extend(addons(spec, names))
    found.extend(controller(spec, names, place))
    found.extend(pools(spec, names, place))
    found.extend(objects(spec, names))
    return tuple(in_order(_tagged(found, spec)))


def _tagged(resources: Iterable[Resource], spec: ClusterSpec) -> Iterator[Resource]:
    for one in resources:
        facts = KINDS[one.kind]
        if one.given or not facts.tagged:
            yield one
            continue
        tags = {**spec.tags, **one.tags, OWNER_TAG: spec.name}
        if not facts.identity:
            tags |= {NAME_TAG: one.name, "Name": f"{spec.name}-{one.name}"}
        yield msgspec.structs.replace(one, tags=tags)


def outputs(spec: ClusterSpec) -> dict[str, Any]:
    """Return what a user wants to know once all is there, as references."""
    names = Names.of(spec)
    cluster = names.of_cluster
    found = {
        "clusterName": names.cluster,
        "endpoint": cluster("endpoint"),
        "certificateAuthority": cluster("certificate-authority"),
        "oidcUrl": cluster("issuer-url"),
        "clusterSecurityGroup": cluster("security-group"),
        "controllerRoleArn": ref(f"iam-role/{names.controller_role}", "arn"),
        "nodeRoleArn": node_role_arn(spec, names),
    }
    if spec.controller.interruption_queue:
        found["interruptionQueue"] = ref(f"sqs-queue/{names.cluster}", "name")
    return found
