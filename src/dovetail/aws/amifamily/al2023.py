"""Amazon Linux 2023: MIME user data with a NodeConfig, which nodeadm reads."""

from collections.abc import Iterable
from typing import Any, Final

import yaml

from dovetail.aws.amifamily.family import (
    LATEST,
    NEURON,
    NVIDIA,
    STANDARD,
    AmiFamilyProvider,
    AmiParameter,
    eks_optimized,
)
from dovetail.aws.userdata.bootstrap import Bootstrap, kubelet_labels
from dovetail.aws.userdata.mime import SHELL, MimePart, is_multipart, join_parts, split_parts
from dovetail.codec.karpenter.nodeclass_kubelet import encode_kubelet
from dovetail.codec.kube.requirements import encode_taint
from dovetail.codec.text.yaml_reader import ParseError, YamlReader
from dovetail.model.karpenter.ami_family import AmiFamily
from dovetail.ports.cloudprovider import NodeClassNotReadyError

_NODE_CONFIG: Final = "application/node.eks.aws"


class AL2023(AmiFamilyProvider):
    """EKS optimized Amazon Linux 2023."""

    name = AmiFamily.AL2023
    needs_service_cidr = True

    def render_user_data(self, bootstrap: Bootstrap) -> str:
        """Return the user's parts, then our NodeConfig: in nodeadm later parts win."""
        node_config = yaml.safe_dump(_node_config(bootstrap), sort_keys=True, width=1 << 20)
        own_part = MimePart.of(_NODE_CONFIG, node_config)
        return join_parts([*_user_parts(bootstrap.user_data), own_part])

    def ami_parameters(self, version: str, kubernetes: str) -> Iterable[AmiParameter]:
        """Yield a parameter per architecture and accelerator."""
        for arch, variant, requirements in (
            ("x86_64", "standard", STANDARD),
            ("x86_64", "nvidia", NVIDIA),
            ("x86_64", "neuron", NEURON),
            ("arm64", "standard", STANDARD),
            ("arm64", "nvidia", NVIDIA),
        ):
            latest = version == LATEST
            release = (
                "recommended" if latest else f"amazon-eks-node-al2023-{arch}-{variant}-{kubernetes}-{version}"
            )
            folder = f"{eks_optimized(kubernetes)}/amazon-linux-2023/{arch}/{variant}"
            yield AmiParameter(name=f"{folder}/{release}/image_id", variants=(requirements,), mutable=latest)


def _user_parts(text: str | None) -> list[MimePart]:
    if not text:
        return []
    if is_multipart(text):
        return split_parts(text)
    return [MimePart.of(_NODE_CONFIG if _is_node_config(text) else SHELL, text)]


def _is_node_config(text: str) -> bool:
    # A script may be valid YAML: "echo done: yes" is a map.
    if text.lstrip().startswith("#!"):
        return False
    try:
        return isinstance(YamlReader("userData", text.encode()).read_document(), dict)
    except ParseError:
        return False


def _node_config(bootstrap: Bootstrap) -> dict[str, Any]:
    cluster = bootstrap.cluster
    if not cluster.cidr:
        raise NodeClassNotReadyError(
            f"the service CIDR of cluster {cluster.name} is not known, and AL2023 does not boot"
            " without it; allow eks:DescribeCluster"
        )
    kubelet: dict[str, Any] = {
        **encode_kubelet(bootstrap.kubelet),
        "maxPods": bootstrap.max_pods,
        "registerWithTaints": [encode_taint(taint) for taint in bootstrap.all_taints],
    }
    if bootstrap.cluster_dns:
        kubelet["clusterDNS"] = list(bootstrap.cluster_dns)
    labels = ",".join(f"{key}={value}" for key, value in kubelet_labels(bootstrap.labels).items())
    spec: dict[str, Any] = {
        "cluster": {
            "name": cluster.name,
            "apiServerEndpoint": cluster.endpoint,
            "certificateAuthority": cluster.ca_bundle,
            "cidr": cluster.cidr,
        },
        "kubelet": {"config": kubelet, "flags": [f'--node-labels="{labels}"']},
    }
    if bootstrap.raid0:
        spec["instance"] = {"localStorage": {"strategy": "RAID0"}}
    return {"apiVersion": "node.eks.aws/v1alpha1", "kind": "NodeConfig", "spec": spec}
