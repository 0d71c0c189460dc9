"""I6: the controller may not give nodes their role."""

from collections.abc import Iterator

from dovetail.doctor.check import Check
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.iam_policies import may
from dovetail.ports.api_resources import EC2_NODE_CLASSES


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out roles of nodes that the controller's documents do not let it pass."""
    own = facts.aws.controller_role
    if own is None:
        return
    roles = {one.arn: one for one in facts.aws.node_roles.values() if one is not None}
    for arn in sorted(roles):
        if may(own, "iam:PassRole", arn):
            continue
        yield Symptom(
            about=f"role/{roles[arn].name}",
            seen=f"no document of {own.name} allows iam:PassRole on {arn}",
            wrong="EC2 refuses to start instances with this role: UnauthorizedOperation",
            fix=f"aws iam put-role-policy --role-name {own.name} --policy-name pass-node-role "
            '--policy-document \'{"Version":"2012-10-17","Statement":[{"Effect":"Allow",'
            f'"Action":"iam:PassRole","Resource":"{arn}"}}]}}\'',
        )


CHECK = Check(
    code="I6",
    title="iam:PassRole misses the node role",
    severity=Severity.BROKEN,
    how="the controller's documents are tried with iam:PassRole on each node role",
    mend="widen the resource of the statement to the role",
    needs=(EC2_NODE_CLASSES, Part.CONTROLLER_ROLE, Part.NODE_ROLES),
    find=find,
)
