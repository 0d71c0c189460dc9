"""User data of Amazon Linux 2023: the user's parts, then a NodeConfig for nodeadm."""

from typing import Any, Final

import yaml

from dovetail.aws.userdata.bootstrap import Bootstrap, kubelet_labels
from dovetail.aws.userdata.mime import SHELL, Part, is_multipart, joined, parts_of
from dovetail.codec.karpenter.nodeclasses import encode_kubelet
from dovetail.codec.kube.requirements import show_taint
from dovetail.ports.cloudprovider import NodeClassNotReady

_NODE_CONFIG: Final = "application/node.eks.aws"


def render(one: Bootstrap) -> str:
    """Return the whole; ours comes last, as nodeadm lets later parts win."""
    shown = yaml.safe_dump(_node_config(one), sort_keys=True, width=1 << 20)
    return joined([*_user_parts(one.user_data), Part.of(_NODE_CONFIG, shown)])


def _user_parts(text: str | None) -> list[Part]:
    if not text:
        return []
    if is_multipart(text):
        return parts_of(text)
    return [Part.of(_NODE_CONFIG if _is_config(text) else SHELL, text)]


def _is_config(text: str) -> bool:
    # A script can be read as YAML: "echo done: yes" is a map to it.
    if text.lstrip().startswith("#!"):
        return False
    try:
        return isinstance(yaml.safe_load(text), dict)
    except yaml.YAMLError:
        return False


def _node_config(one: Bootstrap) -> dict[str, Any]:
    cluster = one.cluster
    if not cluster.cidr:
        raise NodeClassNotReady(
            f"the service CIDR of cluster {cluster.name} is not known, and AL2023 does not boot"
            " without it; allow eks:DescribeCluster"
        )
    kubelet: dict[str, Any] = {
        **encode_kubelet(one.kubelet),
        "maxPods": one.max_pods,
        "registerWithTaints": [show_taint(taint) for taint in one.all_taints],
    }
    if one.cluster_dns:
        kubelet["clusterDNS"] = list(one.cluster_dns)
    labels = ",".join(f"{key}={value}" for key, value in kubelet_labels(one.labels).items())
    spec: dict[str, Any] = {
        "cluster": {
            "name": cluster.name,
            "apiServerEndpoint": cluster.endpoint,
            "certificateAuthority": cluster.ca_bundle,
            "cidr": cluster.cidr,
        },
        "kubelet": {"config": kubelet, "flags": [f'--node-labels="{labels}"']},
    }
    if one.raid0:
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    return {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}
