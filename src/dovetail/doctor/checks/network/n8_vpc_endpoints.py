"""N8: a private network without the endpoints that nodes and controller need."""

from collections.abc import Iterator

from dovetail.doctor.check import Check
from dovetail.doctor.controller_deployment import controller_of
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import shown
from dovetail.doctor.routes import closed_subnets
from dovetail.ports.api_resources import EC2_NODE_CLASSES

_NEEDED = ("ec2", "ecr.api", "ecr.dkr", "s3", "sts", "ssm", "eks")


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out services that cannot be reached."""
    closed, found = closed_subnets(facts), controller_of(facts)
    if not closed:
        return
    wanted = list(_NEEDED)
    if found is not None and found.setting("INTERRUPTION_QUEUE"):
        wanted.append("sqs")
    if facts.aws.pod_identities:
        wanted.append("eks-auth")
    missing = [
        one
        for one in wanted
        if not any(there.endswith(f".{facts.region}.{one}") for there in facts.aws.endpoints)
    ]
    if missing:
        vpc = next(one for every in facts.aws.subnets.values() for one in every)["VpcId"]
        first = f"com.amazonaws.{facts.region}.{missing[0]}"
        yield Symptom(
            about=f"vpc/{vpc}",
            seen=f"no way out of {shown(closed)}, and no endpoint for {', '.join(missing)}",
            wrong="nodes do not join or pull no images; the controller waits for answers",
            fix=f"aws ec2 create-vpc-endpoint --vpc-id {vpc} --vpc-endpoint-type Interface "
            f"--service-name {first} --subnet-ids {' '.join(closed)}  # and so on for each",
        )


CHECK = Check(
    code="N8",
    title="private network: endpoints missing",
    severity=Severity.BROKEN,
    how="endpoints of a VPC whose subnets have no way out, against what is needed",
    mend="add them",
    needs=(EC2_NODE_CLASSES, Part.NETWORK, Part.ROUTES, Part.ENDPOINTS, Part.POD_IDENTITIES),
    find=find,
)
