"""All controllers, killed after every single write and every purchase, and started again."""

import msgspec
import pytest

from dovetail.data.bundled import bundled_catalog
from dovetail.ports.api_resources import NODE_CLAIMS, NODES
from dovetail.simulator.apiserver.options import ListOptions
from dovetail.simulator.cluster import Box
from dovetail.simulator.scenario.load import read_scenario
from dovetail.simulator.scenario.model import Action, Delete, Interrupt, Scale
from dovetail.simulator.scenario_actions import act
from tests.support.boxes import wait
from tests.support.mortal import Fate, a_mortal_box, for_every_step

CATALOG = msgspec.structs.replace(
    bundled_catalog(),
    machines=tuple(
        one for one in bundled_catalog().machines if one.name in ("m5.large", "t3.small")
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


def a_box(fate: Fate) -> Box:
    return a_mortal_box(read_scenario("crashes.yaml", STORY), CATALOG, fate)


def scaled(replicas: int) -> Scale:
    return Scale(kind="Deployment", name="web", namespace="default", replicas=replicas)


def test_nothing_is_bought_twice_or_forgotten_whenever_a_launch_is_cut_short() -> None:
    def check(box: Box, when: str) -> None:
        act(scaled(4), box)
        wait(box, 60)
        assert box.chronicle.running == 4, when
        # Four pods of 4 GiB are four nodes of 8 GiB, whoever died meanwhile.
        assert box.ec2.ledger.machines == 1 + 4, when
        assert len(box.api.list(NODE_CLAIMS).items) == 4, when

    steps = for_every_step(a_box, lambda box: None, check)

    assert steps > 20


@pytest.mark.parametrize(
    "end",
    [Delete(kind="Node"), Delete(kind="NodeClaim"), Interrupt(0.5)],
    ids=["node deleted", "claim deleted", "interrupted"],
)
def test_a_termination_is_finished_wherever_it_is_cut_short(end: Action) -> None:
    def two_pods(box: Box) -> None:
        act(scaled(2), box)
        wait(box, 20)

    def check(box: Box, when: str) -> None:
        before = {one["metadata"]["name"] for one in box.api.list(NODE_CLAIMS).items}
        act(end, box)
        wait(box, 190)
        after = {one["metadata"]["name"] for one in box.api.list(NODE_CLAIMS).items}
        assert len(before & after) == 1, when
        assert box.chronicle.running == 2, when
        assert box.ec2.ledger.machines == 1 + len(after), when
        assert len(box.api.list(NODES).items) == 1 + len(after), when

    steps = for_every_step(a_box, two_pods, check)

    assert steps > 10


def test_empty_nodes_all_go_wherever_giving_them_back_is_cut_short() -> None:
    def two_pods(box: Box) -> None:
        act(scaled(2), box)
        wait(box, 20)

    def check(box: Box, when: str) -> None:
        act(scaled(0), box)
        wait(box, 90)
        assert box.api.list(NODE_CLAIMS).items == [], when
        assert box.ec2.ledger.machines == 1, when
        ours = ListOptions(labels="karpenter.sh/nodepool")
        assert box.api.list(NODES, ours).items == [], when

    steps = for_every_step(a_box, two_pods, check)

    assert steps > 10
