"""N5: pods that ask the instance metadata cannot reach it."""

from collections.abc import Iterator
from typing import Any

from dovetail.doctor.check import Check
from dovetail.doctor.controller_deployment import variables
from dovetail.doctor.facts import Facts
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import at, many, name_of, namespace_of, shown
from dovetail.ports.api_resources import DEPLOYMENTS, EC2_NODE_CLASSES

_BALANCER = "aws-load-balancer-controller"
_EBS = "ebs-csi-controller"


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out workloads that need the metadata, where classes have a hop limit of 1."""
    near = [
        name_of(one)
        for one in facts.of(EC2_NODE_CLASSES)
        if int(at(one, "spec", "metadataOptions", "httpPutResponseHopLimit") or 1) < 2
    ]
    if not near:
        return
    for one in facts.of(DEPLOYMENTS):
        missing = _missing(one)
        if missing and not at(one, "spec", "template", "spec", "hostNetwork"):
            yield Symptom(
                about=f"Deployment/{namespace_of(one)}/{name_of(one)}",
                seen=f"it has no {' and no '.join(missing)}, and nodes of {shown(near)} answer "
                "metadata to themselves only (hop limit 1)",
                wrong="it asks the metadata, gets no answer and ends",
                fix=f"helm upgrade {name_of(one)} … --set region={facts.region or 'REGION'} "
                "--set vpcId=VPC"
                if name_of(one) == _BALANCER
                else f"kubectl set env deployment {name_of(one)} -n {namespace_of(one)} "
                f"AWS_REGION={facts.region or 'REGION'}",
            )


def _missing(deployment: Any) -> list[str]:
    containers = many(deployment, "spec", "template", "spec", "containers")
    given = [str(arg).partition("=")[0] for one in containers for arg in many(one, "args")]
    known = {name for one in containers for name in variables(one)}
    if name_of(deployment) == _BALANCER:
        wanted = {"--aws-region": "AWS_REGION", "--aws-vpc-id": "AWS_VPC_ID"}
        return [
            option
            for option, variable in wanted.items()
            if option not in given and variable not in known
        ]
    if name_of(deployment) == _EBS and "AWS_REGION" not in known:
        return ["AWS_REGION"]
    return []


CHECK = Check(
    code="N5",
    title="hop limit 1, and pods that need instance metadata",
    severity=Severity.RISK,
    how="load balancer and EBS controllers without region or VPC, where an EC2NodeClass has "
    "httpPutResponseHopLimit 1",
    mend="set the values; or hop limit 2 (3 with eBPF overlays)",
    needs=(DEPLOYMENTS, EC2_NODE_CLASSES),
    find=find,
)
