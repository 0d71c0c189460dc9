"""Bootstrap values, and user data as users write it."""

from typing import Any

from dovetail.aws.userdata.bootstrap import Bootstrap, ClusterInfo
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ami_family import AmiFamily
from dovetail.model.karpenter.ec2nodeclass import KubeletConfiguration
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import Taint, TaintEffect

CLUSTER = ClusterInfo(
    name="demo",
    endpoint="https://demo.example.com",
    ca_bundle="Y2EtYnVuZGxlCg==",
    cidr="10.100.0.0/16",
    dns="10.100.0.10",
    version="1.34",
)
LABELS = FrozenDict(
    {
        "team": "a",
        "karpenter.sh/nodepool": "default",
        "karpenter.sh/capacity-type": "spot",
        "kubernetes.io/arch": "arm64",
        "topology.kubernetes.io/zone": "eu-west-1a",
        "node-restriction.kubernetes.io/role": "db",
        "cloud.k8s.io/kind": "fast",
    }
)
TAINTS = (Taint("dedicated", TaintEffect.NO_SCHEDULE, "a"), Taint("booting", TaintEffect.NO_EXECUTE))
EVALUATED_FAMILIES = (AmiFamily.AL2, AmiFamily.AL2023, AmiFamily.BOTTLEROCKET, AmiFamily.WINDOWS2022)
"""Families with a golden file of evaluated kubelet expressions."""
KUBELET = KubeletConfiguration(
    max_pods=20,
    pods_per_core=5,
    kube_reserved=Resources.parse({"memory": "1Gi", "cpu": "100m"}),
    system_reserved=Resources.parse({"cpu": "50m", "ephemeral-storage": "1Gi"}),
    eviction_hard=FrozenDict({"memory.available": "5%", "nodefs.available": "10%"}),
    eviction_soft=FrozenDict({"memory.available": "500Mi"}),
    eviction_soft_grace=FrozenDict({"memory.available": "1m30s"}),
    eviction_max_pod_grace=300,
    cluster_dns=("10.0.0.53",),
    image_gc_high=80,
    image_gc_low=60,
    cpu_cfs_quota=False,
)
SHELL = "#!/bin/bash\necho status: done\n"
MIME = """MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="BOUNDARY"

--BOUNDARY
Content-Type: text/x-shellscript; charset="us-ascii"

#!/bin/bash
echo first

--BOUNDARY
Content-Type: text/cloud-config
Content-Disposition: attachment; filename="second.yaml"

packages: [jq]
--BOUNDARY--
"""
CONTENT_TYPE_FIRST = MIME.replace("MIME-Version: 1.0\n", "").replace(
    '"BOUNDARY"\n', '"BOUNDARY"\nMIME-Version: 1.0\n'
)
NODE_CONFIG = """apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet: {config: {maxPods: 7, shutdownGracePeriod: 30s}}
"""
TOML = """
[settings.kubernetes]
cluster-name = "not mine"
max-pods = 3
kube-api-qps = 30
a-key-of-tomorrow = true
[settings.kubernetes.node-labels]
custom = "kept"
team = "overruled"
[settings.kubernetes.node-taints]
theirs = ["replaced:NoExecute"]
[settings.network]
hosts = [["10.0.0.1", ["test.example.com"]]]
[settings.bootstrap-commands.001-mine]
commands = [["apiclient", "set", "motd=hello"]]
mode = "once"
essential = false
"""


def bootstrap(**fields: Any) -> Bootstrap:
    defaults: dict[str, Any] = {"cluster": CLUSTER, "labels": LABELS, "max_pods": 29}
    return Bootstrap(**{**defaults, **fields})
