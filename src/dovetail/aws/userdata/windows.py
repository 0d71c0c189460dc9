"""User data of Windows: the user's lines, then a call of the image's boot script."""

from typing import Final

from dovetail.aws.userdata.bootstrap import Bootstrap, kubelet_flags

_SCRIPT: Final = r"$env:ProgramFiles\Amazon\EKS\Start-EKSBootstrap.ps1"


def render(one: Bootstrap) -> str:
    """Return the whole."""
    cluster = one.cluster
    call = [
        "& $EKSBootstrapScriptFile",
        f"-EKSClusterName {_quoted(cluster.name)}",
        f"-APIServerEndpoint {_quoted(cluster.endpoint)}",
        f"-Base64ClusterCA {_quoted(cluster.ca_bundle)}",
        f"-KubeletExtraArgs {_quoted(kubelet_flags(one))}",
        *(f"-DNSClusterIP {_quoted(address)}" for address in one.cluster_dns[:1]),
    ]
    lines = [
        "<powershell>",
        *([one.user_data.removesuffix("\n")] if one.user_data else []),
        f'[string]$EKSBootstrapScriptFile = "{_SCRIPT}"',
        " ".join(call),
        "</powershell>",
    ]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("'", "''")
    return f"'{escaped}'"
