"""Deleting a cluster: order, finalizers and leftovers."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from dovetail.doctor.check import check
from dovetail.doctor.controller_deployment import controllers
from dovetail.doctor.facts import Facts, Part, Raw
from dovetail.doctor.finding import Severity, Symptom, merge_patch
from dovetail.doctor.object_fields import age, condition, get_field, get_list, name_of, tags_of
from dovetail.model import labels as label_keys
from dovetail.ports.api_resources import DEPLOYMENTS, EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS, NODES, PODS


@check(
    code="D1",
    title="destroy order",
    severity=Severity.BROKEN,
    detection="a plan in JSON that deletes the cluster, while NodePools or NodeClaims exist",
    remedy="NodePools, NodeClaims and node classes first; wait; then the chart, then the cluster",
    needs=(Part.PLAN, NODE_POOLS, NODE_CLAIMS),
)
def destroy_order(facts: Facts) -> Iterator[Symptom]:
    """Yield clusters that a plan deletes while NodePools or NodeClaims exist."""
    pools, claims = len(facts.of(NODE_POOLS)), len(facts.of(NODE_CLAIMS))
    if not pools and not claims:
        return
    for change in facts.files.plan:
        actions = get_list(change, "change", "actions")
        if change.get("type") == "aws_eks_cluster" and "delete" in actions:
            yield Symptom(
                about=f"plan/{change.get('address')}",
                seen=f"the cluster is deleted while there are {pools} NodePools and {claims} NodeClaims",
                wrong="instances, interfaces and security groups are left over and cost money",
                fix="kubectl delete nodepools --all && kubectl delete nodeclaims --all && "
                "kubectl delete ec2nodeclasses --all  # then the chart, then the cluster; or: "
                "dovetail cluster destroy",
            )


_FINALIZER_PREFIXES = ("karpenter.sh/", "karpenter.k8s.aws/")


@check(
    code="D2",
    title="finalizers with no controller",
    severity=Severity.BROKEN,
    detection="deleted NodeClaims, Nodes, NodePools and node classes with our finalizer, no replica ready",
    remedy="check that the instance is gone, then remove the finalizer",
    needs=(DEPLOYMENTS, PODS, NODE_CLAIMS, NODES, NODE_POOLS, EC2_NODE_CLASSES),
)
def stuck_finalizers(facts: Facts) -> Iterator[Symptom]:
    """Yield objects with our finalizers if no replica is ready to remove them."""
    ready = any(
        condition(pod, "Ready").get("status") == "True"
        for controller in controllers(facts)
        for pod in controller.pods
    )
    if ready:
        return
    for kind in (NODE_CLAIMS, NODES, EC2_NODE_CLASSES, NODE_POOLS):
        for obj in facts.of(kind):
            finalizers = [
                str(text)
                for text in get_list(obj, "metadata", "finalizers")
                if str(text).startswith(_FINALIZER_PREFIXES)
            ]
            if not finalizers or not get_field(obj, "metadata", "deletionTimestamp"):
                continue
            instance_id = str(
                get_field(obj, "status", "providerID") or get_field(obj, "spec", "providerID") or ""
            ).rpartition("/")[2]
            instance_check = (
                f"aws ec2 describe-instances --instance-ids {instance_id} && " if instance_id else ""
            )
            yield Symptom(
                about=f"{kind.kind}/{name_of(obj)}",
                seen=f"it is deleted, has the finalizer {', '.join(finalizers)}, "
                "and no controller pod is ready",
                wrong="it is never removed, and blocks everything that waits for it",
                fix=instance_check
                + merge_patch(f"{kind.plural} {name_of(obj)}", {"metadata": {"finalizers": None}})
                + "  # once its instance is gone",
            )


_LAUNCH_GRACE: Final = timedelta(minutes=5)
"""A new instance may not be in its NodeClaim's status yet."""


@check(
    code="D3",
    title="orphans",
    severity=Severity.RISK,
    detection="instances, interfaces, launch templates and instance profiles by the cluster's tags, "
    "against NodeClaims and EC2NodeClasses",
    remedy="terminate or delete them",
    needs=(NODE_CLAIMS, EC2_NODE_CLASSES, Part.INSTANCES, Part.PROFILES),
)
def orphans(facts: Facts) -> Iterator[Symptom]:
    """Yield instances, interfaces, launch templates and profiles without an owner."""
    claimed = {
        str(get_field(claim, "status", "providerID") or "").rpartition("/")[2]
        for claim in facts.of(NODE_CLAIMS)
    }
    for instance in facts.aws.instances:
        if instance["InstanceId"] not in claimed and age(facts, instance.get("LaunchTime")) > _LAUNCH_GRACE:
            name = instance["InstanceId"]
            pool = tags_of(instance).get(label_keys.NODEPOOL, "?")
            yield _symptom(
                f"instance/{name}",
                f"launched for NodePool {pool}, and no NodeClaim refers to it",
                f"aws ec2 terminate-instances --instance-ids {name}",
            )
    for interface in facts.aws.interfaces:
        name = interface["NetworkInterfaceId"]
        yield _symptom(
            f"interface/{name}",
            "created by the CNI for a node; it is not attached",
            f"aws ec2 delete-network-interface --network-interface-id {name}",
        )
    classes = {name_of(node_class) for node_class in facts.of(EC2_NODE_CLASSES)}
    for template in facts.aws.templates:
        if _nodeclass_name(template) not in classes:
            name = template["LaunchTemplateName"]
            yield _symptom(
                f"launchtemplate/{name}",
                f"created for EC2NodeClass {_nodeclass_name(template)}, which does not exist",
                f"aws ec2 delete-launch-template --launch-template-name {name}",
            )
    for profile in facts.aws.profiles:
        if (
            _belongs_to_cluster(facts, profile)
            and _nodeclass_name(profile)
            and _nodeclass_name(profile) not in classes
        ):
            yield _profile(profile)


def _nodeclass_name(resource: Raw) -> str:
    return tags_of(resource).get(label_keys.EC2_NODE_CLASS, "")


def _belongs_to_cluster(facts: Facts, profile: Raw) -> bool:
    """Return True if the profile belongs to this cluster; IAM spans all regions."""
    tags = tags_of(profile)
    in_region = tags.get(label_keys.REGION, facts.region) == facts.region
    return in_region and f"kubernetes.io/cluster/{facts.cluster}" in tags


def _profile(profile: Raw) -> Symptom:
    name = profile["InstanceProfileName"]
    detach = "".join(
        f"aws iam remove-role-from-instance-profile --instance-profile-name {name} "
        f"--role-name {role['RoleName']} && "
        for role in profile.get("Roles") or ()
    )
    return _symptom(
        f"instanceprofile/{name}",
        f"created for EC2NodeClass {_nodeclass_name(profile)}, which does not exist",
        f"{detach}aws iam delete-instance-profile --instance-profile-name {name}",
    )


def _symptom(about: str, evidence: str, fix: str) -> Symptom:
    wrong = "it is unused, may cost money, and blocks the deletion of its VPC or node class"
    return Symptom(about=about, seen=evidence, wrong=wrong, fix=fix)
