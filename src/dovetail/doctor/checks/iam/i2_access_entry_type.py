"""I2: the nodes' role has an access entry of the wrong type."""

from collections.abc import Iterator

from dovetail.doctor.check import Check
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.ports.api_resources import EC2_NODE_CLASSES

_OF_NODES = ("EC2_LINUX", "EC2_WINDOWS", "EC2", "HYBRID_LINUX", "HYPERPOD_LINUX")


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out entries that would not let a kubelet be a node."""
    roles = {one.arn: one for one in facts.aws.node_roles.values() if one is not None}
    for arn in sorted(roles):
        entry = facts.aws.access_entries.get(arn)
        if entry is None or entry.get("type") in _OF_NODES:
            continue
        of_cluster = f"--cluster-name {facts.cluster} --principal-arn {arn}"
        yield Symptom(
            about=f"role/{roles[arn].name}",
            seen=f"the access entry is of type {entry.get('type')}",
            wrong="kubelets get in as nobody in particular, and may not register nodes",
            fix=f"aws eks delete-access-entry {of_cluster} && "
            f"aws eks create-access-entry {of_cluster} --type EC2_LINUX",
        )


CHECK = Check(
    code="I2",
    title="access entry of the wrong type",
    severity=Severity.BROKEN,
    how="the type of the access entry of each EC2NodeClass's role",
    mend="delete the entry and create it as EC2_LINUX (EC2_WINDOWS for Windows)",
    needs=(EC2_NODE_CLASSES, Part.ACCESS, Part.NODE_ROLES),
    find=find,
)
