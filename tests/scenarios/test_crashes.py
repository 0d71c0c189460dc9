"""All controllers, killed after every single write and every purchase, and started again."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from itertools import count
from typing import Any

import msgspec
import pytest

from dovetail.data import bundled_catalog, bundled_prices
from dovetail.ports.kube import Object
from dovetail.ports.resources import EVENTS, NODE_CLAIMS, NODES, Resource
from dovetail.sim.acting import act
from dovetail.sim.apiserver.options import ListOptions
from dovetail.sim.apiserver.server import ApiServer
from dovetail.sim.box import Box
from dovetail.sim.cloud.ledger import Purchase
from dovetail.sim.invariants import GuardedKube, Invariants
from dovetail.sim.loop import Pause
from dovetail.sim.scenario.model import Action, Delete, Interrupt, Scale, Scenario
from dovetail.sim.scenario.reading import read_scenario

DEAD_FOR = timedelta(seconds=7)
MOST_STEPS = 400
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


class Fate:
    """Decides after which step the controllers die; they come back a little later."""

    def __init__(self, steps: int) -> None:
        self._left = steps
        self.box: Box | None = None
        self.struck = ""

    def step(self, what: str) -> bool:
        """Count something done; tell whether it was the last thing."""
        if self.box is None or self.struck:
            return False
        self._left -= 1
        if self._left:
            return False
        self.struck = what
        self.box.operator.kill()
        self.box.engine.after(DEAD_FOR, self.box.restart)
        return True


class MortalKube(GuardedKube):
    """The way to the API server of somebody who may die after any write."""

    def __init__(self, api: ApiServer, invariants: Invariants, fate: Fate) -> None:
        super().__init__(api, invariants)
        self._fate = fate

    async def create(
        self, resource: Resource, obj: Mapping[str, Any], namespace: str = ""
    ) -> Object:
        made = await super().create(resource, obj, namespace)
        if resource is not EVENTS:
            await self._live_on(f"create {resource.kind}")
        return made

    async def patch(
        self,
        resource: Resource,
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        *,
        subresource: str = "",
    ) -> Object:
        made = await super().patch(resource, name, patch, namespace, subresource=subresource)
        await self._live_on(f"patch {resource.kind} {subresource}")
        return made

    async def delete(
        self,
        resource: Resource,
        name: str,
        namespace: str = "",
        *,
        uid: str = "",
        grace_seconds: int | None = None,
    ) -> Object | None:
        left = await super().delete(resource, name, namespace, uid=uid, grace_seconds=grace_seconds)
        await self._live_on(f"delete {resource.kind}")
        return left

    async def evict(self, name: str, namespace: str, *, uid: str) -> None:
        await super().evict(name, namespace, uid=uid)
        await self._live_on("evict")

    async def _live_on(self, what: str) -> None:
        if self._fate.step(what):
            await Pause()  # Nobody ends it: the process is gone.


def a_box(fate: Fate) -> Box:
    scenario: Scenario = read_scenario("crashes.yaml", STORY)
    box = Box(
        scenario,
        catalog=CATALOG,
        prices=bundled_prices(),
        kube=lambda api, invariants: MortalKube(api, invariants, fate),
    )

    def bought_or_given_back(purchase: Purchase) -> None:
        fate.step("give back" if purchase.shutting_down else "buy")

    box.ec2.ledger.listeners.append(bought_or_given_back)
    return box


def wait(box: Box, seconds: float) -> None:
    box.engine.run(until=box.engine.now() + timedelta(seconds=seconds))


def scaled(replicas: int) -> Scale:
    return Scale(kind="Deployment", name="web", namespace="default", replicas=replicas)


def for_every_step(prepare: Callable[[Box], None], check: Callable[[Box, str], None]) -> int:
    """Kill after the first step, the second, and so on, until there are no more."""
    for steps in count(1):
        assert steps < MOST_STEPS, "there is no end to it"
        fate = Fate(steps)
        box = a_box(fate)
        wait(box, 3)
        prepare(box)
        fate.box = box
        check(box, f"killed after step {steps}")
        assert box.invariants.violations == [], f"{steps}: {fate.struck}"
        if not fate.struck:
            return steps - 1
    raise AssertionError("counting never ends")


def test_nothing_is_bought_twice_or_forgotten_whenever_a_launch_is_cut_short() -> None:
    def check(box: Box, when: str) -> None:
        act(scaled(4), box)
        wait(box, 60)
        assert box.chronicle.running == 4, when
        # Four pods of 4 GiB are four nodes of 8 GiB, whoever died meanwhile.
        assert box.ec2.ledger.machines == 1 + 4, when
        assert len(box.api.list(NODE_CLAIMS).items) == 4, when

    steps = for_every_step(lambda box: None, check)

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

    steps = for_every_step(two_pods, check)

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

    steps = for_every_step(two_pods, check)

    assert steps > 10
