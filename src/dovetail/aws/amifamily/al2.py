"""Amazon Linux 2: MIME user data that calls the AMI's ``bootstrap.sh``."""

from collections.abc import Iterable
from typing import Final

from dovetail.aws.amifamily.family import (
    LATEST,
    NEURON,
    NVIDIA,
    STANDARD,
    AmiFamilyProvider,
    AmiParameter,
    eks_optimized,
    minor_version,
)
from dovetail.aws.userdata.bootstrap import Bootstrap, kubelet_flags
from dovetail.aws.userdata.mime import SHELL, MimePart, is_multipart, join_parts, split_parts
from dovetail.model.karpenter.ami_family import AmiFamily

_END_OF_SUPPORT: Final = (1, 33)
"""EKS publishes no AL2 AMI for this Kubernetes version and later."""


class AL2(AmiFamilyProvider):
    """EKS optimized Amazon Linux 2."""

    name = AmiFamily.AL2

    def render_user_data(self, bootstrap: Bootstrap) -> str:
        """Return the user's parts, then the part that joins the cluster."""
        own_part = MimePart.of(SHELL, _bootstrap_script(bootstrap))
        return join_parts([*_user_parts(bootstrap.user_data), own_part])

    def ami_parameters(self, version: str, kubernetes: str) -> Iterable[AmiParameter]:
        """Yield the parameters for amd64, arm64, and accelerated instance types."""
        for suffix, variants in (("", (STANDARD,)), ("-arm64", (STANDARD,)), ("-gpu", (NEURON, NVIDIA))):
            latest = version == LATEST
            release = "recommended" if latest else f"amazon-eks{suffix}-node-{kubernetes}-{version}"
            yield AmiParameter(
                name=f"{eks_optimized(kubernetes)}/amazon-linux-2{suffix}/{release}/image_id",
                variants=variants,
                mutable=latest,
            )

    def unsupported_reason(self, kubernetes: str) -> str | None:
        """Return the reason for Kubernetes 1.33 and later."""
        if minor_version(kubernetes) < _END_OF_SUPPORT:
            return None
        return f"there are no AL2 AMIs for Kubernetes {kubernetes}; use al2023@latest or bottlerocket@latest"


def _user_parts(text: str | None) -> list[MimePart]:
    if not text:
        return []
    return split_parts(text) if is_multipart(text) else [MimePart.of(SHELL, text)]


def _bootstrap_script(bootstrap: Bootstrap) -> str:
    cluster = bootstrap.cluster
    call = (
        f"/etc/eks/bootstrap.sh {_quote(cluster.name)}"
        f" --apiserver-endpoint {_quote(cluster.endpoint)}"
        f" --b64-cluster-ca {_quote(cluster.ca_bundle)}"
    )
    dns_addresses = bootstrap.cluster_dns[:1]  # bootstrap.sh takes one address.
    options = []
    if any(":" in address for address in dns_addresses):
        options.append("--ip-family ipv6")
    options += [f"--dns-cluster-ip {_quote(address)}" for address in dns_addresses]
    options.append("--use-max-pods false")
    options.append(f"--kubelet-extra-args {_quote(kubelet_flags(bootstrap))}")
    if bootstrap.raid0:
        options.append("--local-disks raid0")
    return "\n".join(
        [
            "#!/bin/bash -xe",
            "exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1",
            " \\\n".join([call, *options]),
        ]
    )


def _quote(text: str) -> str:
    """Quote for a shell, also where it is not necessary."""
    escaped = text.replace("'", "'\\''")
    return f"'{escaped}'"
