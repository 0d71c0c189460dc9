"""I10: nodes' volumes are encrypted with a key that launching may not use."""

from collections.abc import Iterator

from dovetail.doctor.check import Check
from dovetail.doctor.facts import Facts, Part, Raw, Role
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.iam_policies import allowing, may, principals
from dovetail.ports.api_resources import EC2_NODE_CLASSES

_ACTION = "kms:CreateGrant"


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out keys that neither their policy nor the controller's lets EBS use."""
    role = facts.aws.controller_role
    if role is None:
        return
    for key, told in sorted(facts.aws.keys.items()):
        if role.arn in told.grantees or _is_open(told.policy, role):
            continue
        why = "the default of EBS" if key == facts.aws.default_key else "named by a node class"
        yield Symptom(
            about=f"key/{key.rpartition('/')[2]}",
            seen=f"{why}; neither its policy nor that of {role.name} allows {_ACTION} to it",
            wrong="instances stop as soon as they start: Client.InternalError",
            fix=f"aws kms create-grant --key-id {key} --grantee-principal {role.arn} "
            "--operations CreateGrant Decrypt DescribeKey GenerateDataKeyWithoutPlaintext "
            "ReEncryptFrom ReEncryptTo",
        )


def _is_open(policy: Raw, role: Role) -> bool:
    for statement in allowing([policy], _ACTION):
        for one in principals(statement):
            if one in ("*", role.arn):
                return True
            # The account: then its own policies decide.
            if one.endswith(":root") and may(role, _ACTION):
                return True
    return False


CHECK = Check(
    code="I10",
    title="KMS key policy blocks encrypted volumes",
    severity=Severity.BROKEN,
    how="policies of the keys that classes name or EBS uses by default, with the controller's role",
    mend="grant the key's use through EBS to the controller's role",
    needs=(EC2_NODE_CLASSES, Part.ENCRYPTION, Part.CONTROLLER_ROLE),
    find=find,
)
