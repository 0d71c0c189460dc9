"""I1: the nodes' role may not join the cluster."""

from collections.abc import Iterator

import yaml

from dovetail.doctor.check import Check
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import at
from dovetail.ports.api_resources import EC2_NODE_CLASSES

_WHERE = {
    "API": "no access entry",
    "CONFIG_MAP": "aws-auth never",
    "API_AND_CONFIG_MAP": "neither an access entry nor aws-auth",
}


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out roles that neither an access entry nor aws-auth names."""
    mode = str(at(facts.aws.cluster, "accessConfig", "authenticationMode") or "CONFIG_MAP")
    mode = mode if mode in _WHERE else "API_AND_CONFIG_MAP"
    mapped = _mapped(facts) if "CONFIG_MAP" in mode else set()
    roles = {one.arn: one for one in facts.aws.node_roles.values() if one is not None}
    for arn in sorted(roles):
        # aws-auth does not know paths.
        bare = f"{arn.partition('/')[0]}/{arn.rpartition('/')[2]}"
        if arn in facts.aws.access_entries or bare in mapped or arn in mapped:
            continue
        yield Symptom(
            about=f"role/{roles[arn].name}",
            seen=f"authentication mode {mode}: {_WHERE[mode]} names {arn}",
            wrong="kubelets of this role are answered Unauthorized; nodes never register",
            fix=f"aws eks create-access-entry --cluster-name {facts.cluster} "
            f"--principal-arn {arn} --type EC2_LINUX"
            if "API" in mode
            else f"eksctl create iamidentitymapping --cluster {facts.cluster} --arn {bare} "
            "--username 'system:node:{{EC2PrivateDNSName}}' "
            "--group system:bootstrappers --group system:nodes",
        )


def _mapped(facts: Facts) -> set[str]:
    try:
        told = yaml.safe_load(str(at(facts.aws_auth, "data", "mapRoles") or ""))
    except yaml.YAMLError:
        return set()
    entries = told if isinstance(told, list) else []
    return {str(one.get("rolearn")) for one in entries if isinstance(one, dict)}


CHECK = Check(
    code="I1",
    title="node role unknown to the cluster",
    severity=Severity.BROKEN,
    how="the role of each EC2NodeClass is looked for in access entries and in aws-auth",
    mend="create an access entry of type EC2_LINUX for the role",
    needs=(EC2_NODE_CLASSES, Part.CLUSTER, Part.ACCESS, Part.NODE_ROLES, Part.AWS_AUTH),
    find=find,
)
