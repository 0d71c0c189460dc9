"""D2: objects wait for a controller that is not there."""

from collections.abc import Iterator

from dovetail.doctor.check import Check
from dovetail.doctor.controller_deployment import controllers
from dovetail.doctor.facts import Facts
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import at, condition, many, name_of
from dovetail.ports.api_resources import (
    DEPLOYMENTS,
    EC2_NODE_CLASSES,
    NODE_CLAIMS,
    NODE_POOLS,
    NODES,
    PODS,
)

_OURS = ("karpenter.sh/", "karpenter.k8s.aws/")


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out objects with our finalizers, when no replica is ready to take them off."""
    ready = any(
        condition(pod, "Ready").get("status") == "True"
        for one in controllers(facts)
        for pod in one.pods
    )
    if ready:
        return
    for kind in (NODE_CLAIMS, NODES, EC2_NODE_CLASSES, NODE_POOLS):
        for one in facts.of(kind):
            left = [
                str(text)
                for text in many(one, "metadata", "finalizers")
                if str(text).startswith(_OURS)
            ]
            if not left or not at(one, "metadata", "deletionTimestamp"):
                continue
            machine = str(
                at(one, "status", "providerID") or at(one, "spec", "providerID") or ""
            ).rpartition("/")[2]
            look = f"aws ec2 describe-instances --instance-ids {machine} && " if machine else ""
            yield Symptom(
                about=f"{kind.kind}/{name_of(one)}",
                seen=f"it is to go, has {', '.join(left)}, and no pod of the controller is ready",
                wrong="it stays for ever, and so does whatever waits for it",
                fix=f"{look}kubectl patch {kind.plural} {name_of(one)} --type merge "
                '-p \'{"metadata":{"finalizers":null}}\'  # once its instance is gone',
            )


CHECK = Check(
    code="D2",
    title="finalizers with no controller",
    severity=Severity.BROKEN,
    how="deleted NodeClaims, Nodes, NodePools and classes with our finalizer, no replica ready",
    mend="see that the instance is gone, then take the finalizer off",
    needs=(DEPLOYMENTS, PODS, NODE_CLAIMS, NODES, NODE_POOLS, EC2_NODE_CLASSES),
    find=find,
)
