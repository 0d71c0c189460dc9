"""All controllers, killed after every write and every launch, and restarted."""

import msgspec
import pytest

from dovetail.data.bundled import bundled_catalog
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.simulator.apiserver.options import ListOptions
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.scenario.load import read_scenario
from dovetail.simulator.scenario.model import Action, Delete, Interrupt, Scale
from dovetail.simulator.scenario_actions import perform
from tests.support.simulator.clusters import wait
from tests.support.simulator.crashes import CrashPoint, build_mortal_cluster, crash_at_every_step

CATALOG = msgspec.structs.replace(
    bundled_catalog(),
    instance_types=tuple(
        instance_type
        for instance_type in bundled_catalog().instance_types
        if instance_type.name in ("m5.large", "t3.small")
    ),
)

pytestmark = pytest.mark.slow

STORY = b"""
name: crashes
about: one application on spot nodes, behind a budget
home: {count: 1, instanceType: t3.small}
cloud: {start: 1, boot: 4}
kubelet: {nodeReady: 1}
manifests:
  - apiVersion: karpenter.k8s.aws/v1
    kind: EC2NodeClass
    metadata: {name: default}
    spec:
      role: KarpenterNodeRole
      amiSelectorTerms: [{alias: al2023@latest}]
      subnetSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]
      securityGroupSelectorTerms: [{tags: {karpenter.sh/discovery: sandbox}}]
  - apiVersion: karpenter.sh/v1
    kind: NodePool
    metadata: {name: default}
    spec:
      template:
        spec:
          nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
          requirements:
            - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
            - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}
      disruption: {consolidationPolicy: WhenEmpty, consolidateAfter: 30s, budgets: [{nodes: 100%}]}
      limits: {cpu: 20}
  - apiVersion: policy/v1
    kind: PodDisruptionBudget
    metadata: {name: web, namespace: default}
    spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}
  - apiVersion: apps/v1
    kind: Deployment
    metadata: {name: web, namespace: default}
    spec:
      replicas: 0
      selector: {matchLabels: {app: web}}
      template:
        metadata: {labels: {app: web}}
        spec:
          containers:
            - {name: web, image: web, resources: {requests: {cpu: "1", memory: 4Gi}}}
"""


def build_cluster(crash_point: CrashPoint) -> SimulatedCluster:
    return build_mortal_cluster(read_scenario("crashes.yaml", STORY), CATALOG, crash_point)


def scaled(replicas: int) -> Scale:
    return Scale(kind="Deployment", name="web", namespace="default", replicas=replicas)


def test_no_instance_is_launched_twice_or_leaked_after_a_crash_at_any_step() -> None:
    def check(cluster: SimulatedCluster, when: str) -> None:
        perform(scaled(4), cluster)
        wait(cluster, 60)
        assert cluster.recorder.running == 4, when
        # Four pods of 4 GiB need four nodes of 8 GiB, whichever step was interrupted.
        assert cluster.ec2.billing.instance_count == 1 + 4, when
        assert len(cluster.api.list(NODE_CLAIMS).items) == 4, when

    steps = crash_at_every_step(build_cluster, lambda cluster: None, check)

    assert steps > 20


@pytest.mark.parametrize(
    "end",
    [Delete(kind="Node"), Delete(kind="NodeClaim"), Interrupt(0.5)],
    ids=["node deleted", "claim deleted", "interrupted"],
)
def test_a_termination_completes_after_a_crash_at_any_step(end: Action) -> None:
    def two_pods(cluster: SimulatedCluster) -> None:
        perform(scaled(2), cluster)
        wait(cluster, 20)

    def check(cluster: SimulatedCluster, when: str) -> None:
        before = {claim["metadata"]["name"] for claim in cluster.api.list(NODE_CLAIMS).items}
        perform(end, cluster)
        wait(cluster, 190)
        after = {claim["metadata"]["name"] for claim in cluster.api.list(NODE_CLAIMS).items}
        assert len(before & after) == 1, when
        assert cluster.recorder.running == 2, when
        assert cluster.ec2.billing.instance_count == 1 + len(after), when
        assert len(cluster.api.list(NODES).items) == 1 + len(after), when

    steps = crash_at_every_step(build_cluster, two_pods, check)

    assert steps > 10


def test_empty_nodes_are_all_deleted_after_a_crash_at_any_step() -> None:
    def two_pods(cluster: SimulatedCluster) -> None:
        perform(scaled(2), cluster)
        wait(cluster, 20)

    def check(cluster: SimulatedCluster, when: str) -> None:
        perform(scaled(0), cluster)
        wait(cluster, 90)
        assert cluster.api.list(NODE_CLAIMS).items == [], when
        assert cluster.ec2.billing.instance_count == 1, when
        managed = ListOptions(label_selector="karpenter.sh/nodepool")
        assert cluster.api.list(NODES, managed).items == [], when

    steps = crash_at_every_step(build_cluster, two_pods, check)

    assert steps > 10
