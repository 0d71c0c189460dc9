"""User data of Amazon Linux 2: the user's parts, then a call of the image's boot script."""

from dovetail.aws.userdata.bootstrap import Bootstrap, kubelet_flags
from dovetail.aws.userdata.mime import SHELL, Part, is_multipart, joined, parts_of


def render(one: Bootstrap) -> str:
    """Return the whole."""
    return joined([*_user_parts(one.user_data), Part.of(SHELL, _script(one))])


def _user_parts(text: str | None) -> list[Part]:
    if not text:
        return []
    return parts_of(text) if is_multipart(text) else [Part.of(SHELL, text)]


def _script(one: Bootstrap) -> str:
    cluster = one.cluster
    call = (
        f"/etc/eks/bootstrap.sh {quoted(cluster.name)}"
        f" --apiserver-endpoint {quoted(cluster.endpoint)}"
        f" --b64-cluster-ca {quoted(cluster.ca_bundle)}"
    )
    options = []
    if any(":" in address for address in one.cluster_dns[:1]):
        options.append("--ip-family ipv6")
    options += [f"--dns-cluster-ip {quoted(address)}" for address in one.cluster_dns[:1]]
    options.append("--use-max-pods false")
    options.append(f"--kubelet-extra-args {quoted(kubelet_flags(one))}")
    if one.raid0:
        options.append("--local-disks raid0")
    return "\n".join(
        [
            "#!/bin/bash -xe",
            "exec > >(tee /var/log/user-data.log|logger -t user-data -s 2>/dev/console) 2>&1",
            " \\\n".join([call, *options]),
        ]
    )


def quoted(text: str) -> str:
    """Quote for a shell, always."""
    escaped = text.replace("'", "'\\''")
    return f"'{escaped}'"
