"""Windows Server: PowerShell user data that calls the AMI's bootstrap script."""

from collections.abc import Iterable
from typing import Final

from dovetail.aws.amifamily.family import AmiFamilyProvider, AmiParameter, minor_version
from dovetail.aws.userdata.bootstrap import Bootstrap, kubelet_flags
from dovetail.core.instancetypes.ami_families import ami_family_facts
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.ami_family import AmiFamily
from dovetail.model.kube.requirements import Operator, RequirementSpec

_SCRIPT: Final = r"$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"
_WINDOWS2025_START: Final = (1, 35)
"""First Kubernetes version with Windows Server 2025 AMIs."""


class Windows(AmiFamilyProvider):
    """EKS optimized Windows Server Core; all AMIs are ``latest``."""

    def __init__(self, name: AmiFamily) -> None:
        self.name = name

    def render_user_data(self, bootstrap: Bootstrap) -> str:
        """Return the user's lines, then the call that joins the cluster."""
        cluster = bootstrap.cluster
        call = [
            "& $EKSBootstrapScriptFile",
            f"-EKSClusterName {_quote(cluster.name)}",
            f"-APIServerEndpoint {_quote(cluster.endpoint)}",
            f"-Base64ClusterCA {_quote(cluster.ca_bundle)}",
            f"-KubeletExtraArgs {_quote(kubelet_flags(bootstrap))}",
            *(f"-DNSClusterIP {_quote(address)}" for address in bootstrap.cluster_dns[:1]),
        ]
        lines = [
            "<powershell>",
            *([bootstrap.user_data.removesuffix("\n")] if bootstrap.user_data else []),
            f'[string]$EKSBootstrapScriptFile = "{_SCRIPT}"',
            " ".join(call),
            "</powershell>",
        ]
        return "\n".join(lines) + "\n"

    def ami_parameters(self, version: str, kubernetes: str) -> Iterable[AmiParameter]:
        """Yield the one parameter of this Windows Server version."""
        year = self.name.removeprefix("Windows")
        ami = f"Windows_Server-{year}-English-Core-EKS_Optimized-{kubernetes}"
        requirements = (
            RequirementSpec(label_keys.OS, Operator.IN, ("windows",)),
            RequirementSpec(
                label_keys.WINDOWS_BUILD, Operator.IN, (ami_family_facts(self.name).windows_build,)
            ),
        )
        yield AmiParameter(
            name=f"/aws/service/ami-windows-latest/{ami}/image_id", variants=(requirements,), mutable=True
        )

    def unsupported_reason(self, kubernetes: str) -> str | None:
        """Return the reason for Windows Server 2025 before Kubernetes 1.35."""
        if self.name is not AmiFamily.WINDOWS2025 or minor_version(kubernetes) >= _WINDOWS2025_START:
            return None
        return (
            f"there are no Windows 2025 AMIs for Kubernetes {kubernetes}; use"
            " windows2022@latest, or Kubernetes 1.35 or newer"
        )


def _quote(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"
