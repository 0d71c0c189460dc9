"""Names that differ between AWS partitions: China has its own DNS names and services."""

from typing import Final

DNS_SUFFIX: Final = "amazonaws.com"
CHINA: Final = "aws-cn"
_CHINA_REGIONS: Final = "cn-"
_GOVERNMENT_REGIONS: Final = "us-gov-"
_CHINA_ENDPOINTS: Final = frozenset(
    "autoscaling cloudformation ebs ec2 ecr.api ecr.dkr eks elasticfilesystem execute-api fsx lambda"
    " monitoring rds sqs states sts xray".split()
)
"""Interface endpoints with the prefix of China; those of all other services have the usual one."""


def dns_suffix(partition: str) -> str:
    """Return the domain of the service principal of EC2 and of AWS's endpoints."""
    return f"{DNS_SUFFIX}.cn" if partition == CHINA else DNS_SUFFIX


def partition_of(region: str) -> str:
    """Return the partition of a region, for ARNs; AWS reports it only with credentials."""
    if region.startswith(_CHINA_REGIONS):
        return CHINA
    return "aws-us-gov" if region.startswith(_GOVERNMENT_REGIONS) else "aws"


def endpoint_service_prefix(region: str, service: str) -> str:
    """Return the part before the region in the name of a VPC endpoint service."""
    if region.startswith(_CHINA_REGIONS) and service in _CHINA_ENDPOINTS:
        return "cn.com.amazonaws"
    return "com.amazonaws"
