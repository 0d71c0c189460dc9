"""Facts from EKS."""

from typing import Any

from dovetail.aws.errors import AwsError, Kind
from dovetail.doctor.sources.query import Asked
from dovetail.doctor.sources.read_only_client import Account

Found = dict[str, Any]


async def cluster(account: Account, asked: Asked) -> Found:
    """Read the cluster itself."""
    told = await account.ask("eks", "DescribeCluster", name=asked.cluster)
    return {"cluster": told["cluster"]}


async def access(account: Account, asked: Asked) -> Found:
    """Read whom EKS lets in; a cluster that goes by aws-auth alone has no entries."""
    told = await account.ask("eks", "DescribeCluster", name=asked.cluster)
    mode = (told["cluster"].get("accessConfig") or {}).get("authenticationMode", "CONFIG_MAP")
    if mode == "CONFIG_MAP":
        return {}
    arns = await account.listed(
        "eks", "ListAccessEntries", "accessEntries", clusterName=asked.cluster
    )
    entries: Found = {}
    for arn in arns:
        if ":role/" not in arn:
            continue
        one = await account.ask(
            "eks", "DescribeAccessEntry", clusterName=asked.cluster, principalArn=arn
        )
        entries[arn] = one["accessEntry"]
    return {"access_entries": entries}


async def pod_identities(account: Account, asked: Asked) -> Found:
    """Read which service accounts have roles by Pod Identity."""
    return {"pod_identities": await associations(account, asked.cluster)}


async def associations(account: Account, cluster: str) -> tuple[Any, ...]:
    """Return all Pod Identity associations with the roles that they give."""
    try:
        listed = await account.listed(
            "eks", "ListPodIdentityAssociations", "associations", clusterName=cluster
        )
    except AwsError as error:
        if error.kind is Kind.GONE:
            return ()
        raise
    found = [
        await account.ask(
            "eks",
            "DescribePodIdentityAssociation",
            clusterName=cluster,
            associationId=one["associationId"],
        )
        for one in listed
    ]
    return tuple(one["association"] for one in found)
