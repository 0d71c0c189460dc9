"""Manifests as a user has them, and the command run on them."""

from pathlib import Path

from click.testing import CliRunner, Result

from dovetail.cli.main import cli

WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - name: web
          image: web
          resources: {requests: {cpu: 500m, memory: 1Gi}}
"""
POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
        - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}
"""
LIVE = """\
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Node
    metadata:
      name: ip-10-0-1-1
      labels:
        kubernetes.io/os: linux
        kubernetes.io/arch: amd64
        topology.kubernetes.io/region: eu-west-1
        topology.kubernetes.io/zone: eu-west-1a
    status:
      capacity: {cpu: "2", memory: 8Gi, pods: "29"}
      allocatable: {cpu: 1900m, memory: 7Gi, pods: "29"}
  - apiVersion: v1
    kind: Pod
    metadata: {name: busy, namespace: kube-system}
    spec:
      nodeName: ip-10-0-1-1
      containers: [{name: busy, image: busy, resources: {requests: {cpu: "1"}}}]
    status: {phase: Running}
  - apiVersion: v1
    kind: Pod
    metadata: {name: waits}
    spec: {containers: [{name: waits, image: waits, resources: {requests: {cpu: 400m}}}]}
    status: {phase: Pending}
"""
HUGE = WEB.replace("cpu: 500m", "cpu: 5000")


def simulate(tmp_path: Path, *texts: str, args: tuple[str, ...] = ()) -> Result:
    """Run the command on files with these texts."""
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.yaml").write_text(text)
    return CliRunner().invoke(cli, ["simulate", "-f", str(tmp_path), *args])
