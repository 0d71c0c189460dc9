"""I8: the account has never used spot, and the controller may not begin."""

from collections.abc import Iterator

from dovetail.doctor.check import Check
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import allows_spot, shown
from dovetail.ports.api_resources import NODE_POOLS


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out that the role is missing, where a pool wants spot."""
    pools = allows_spot(facts)
    if pools and not facts.aws.spot_role:
        yield Symptom(
            about="role/AWSServiceRoleForEC2Spot",
            seen=f"IAM has no such role; NodePools that allow spot: {shown(pools)}",
            wrong="launches end with ServiceLinkedRoleCreationNotPermitted",
            fix="aws iam create-service-linked-role --aws-service-name spot.amazonaws.com",
        )


CHECK = Check(
    code="I8",
    title="spot service-linked role missing",
    severity=Severity.BROKEN,
    how="IAM is asked for AWSServiceRoleForEC2Spot while a NodePool allows spot",
    mend="create it once in the account",
    needs=(NODE_POOLS, Part.SPOT_ROLE),
    find=find,
)
