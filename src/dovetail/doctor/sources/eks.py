"""Facts from EKS."""

from typing import Any

from dovetail.aws.errors import AwsError, ErrorKind
from dovetail.doctor.sources.query import AwsFields, AwsQuery
from dovetail.doctor.sources.read_only_client import ReadOnlyAws


async def cluster(account: ReadOnlyAws, query: AwsQuery) -> AwsFields:
    """Read the cluster itself."""
    response = await account.request("eks", "DescribeCluster", name=query.cluster)
    return {"cluster": response["cluster"]}


async def cluster_exists(account: ReadOnlyAws, query: AwsQuery) -> AwsFields:
    """Read whether EKS has a cluster of this name."""
    try:
        await cluster(account, query)
    except AwsError as error:
        if error.kind is ErrorKind.NOT_FOUND:
            return {"cluster_exists": False}
        raise
    return {}


async def access(account: ReadOnlyAws, query: AwsQuery) -> AwsFields:
    """Read the access entries; with CONFIG_MAP authentication there are none."""
    response = await account.request("eks", "DescribeCluster", name=query.cluster)
    mode = (response["cluster"].get("accessConfig") or {}).get("authenticationMode", "CONFIG_MAP")
    if mode == "CONFIG_MAP":
        return {}
    arns = await account.list_items("eks", "ListAccessEntries", "accessEntries", clusterName=query.cluster)
    entries: AwsFields = {}
    for arn in arns:
        if ":role/" not in arn:
            continue
        entry = await account.request(
            "eks", "DescribeAccessEntry", clusterName=query.cluster, principalArn=arn
        )
        entries[arn] = entry["accessEntry"]
    return {"access_entries": entries}


async def pod_identities(account: ReadOnlyAws, query: AwsQuery) -> AwsFields:
    """Read the Pod Identity associations."""
    return {"pod_identities": await associations(account, query.cluster)}


async def associations(account: ReadOnlyAws, cluster: str) -> tuple[Any, ...]:
    """Return all Pod Identity associations with their roles."""
    try:
        listed = await account.list_items(
            "eks", "ListPodIdentityAssociations", "associations", clusterName=cluster
        )
    except AwsError as error:
        if error.kind is ErrorKind.NOT_FOUND:
            return ()
        raise
    responses = [
        await account.request(
            "eks",
            "DescribePodIdentityAssociation",
            clusterName=cluster,
            associationId=association["associationId"],
        )
        for association in listed
    ]
    return tuple(response["association"] for response in responses)
