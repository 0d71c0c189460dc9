"""However things interleave, no pod is bought for twice and all get a node in the end."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dovetail.model import labels as label_keys
from dovetail.model.kube.resources import CPU
from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS
from dovetail.simulator.apiserver.delete import DeleteOptions
from tests.support.catalog import incremental
from tests.support.shop import Shop

which = st.integers(0, 1000)


class Comings(RuleBasedStateMachine):
    """Pods come and go, claims are launched or fail, nodes join, drain, and we are killed.

    All pods are alike and take one CPU: a restart, which plans anew, cannot pack them
    worse, and places can be counted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.shop = Shop(incremental(6)).open()
        self.made = 0
        self.known: set[str] = set()
        """Claims that were there at the step before."""

    def _some(self, number: int, *, state: str) -> str | None:
        found = [name for name in self.shop.bought() if self._state(name) == state]
        return found[number % len(found)] if found else None

    def _state(self, name: str) -> str:
        claim = self.shop.claim(name)
        if not claim.provider_id:
            return "new"
        if self.shop.mirror.node(f"n-{name}") is None:
            return "launched"
        return "ready" if "Initialized" in self._true(name) else "joined"

    def _true(self, name: str) -> list[str]:
        known = self.shop.claim(name).conditions
        return [kind for kind, one in known.items() if one.status == "True"]

    @rule(count=st.integers(1, 4))
    def pods_come(self, count: int) -> None:
        for _ in range(count):
            self.shop.pod_waits(f"pod-{self.made}")
            self.made += 1

    @rule(number=which)
    def a_pod_goes(self, number: int) -> None:
        waiting = sorted(pod.name for pod in self.shop.mirror.unbound_pods())
        if waiting:
            self.shop.delete(PODS, waiting[number % len(waiting)], "default")

    @rule(seconds=st.sampled_from([0.05, 0.4, 1.2, 4.0, 13.0]))
    def time_passes(self, seconds: float) -> None:
        self.shop.wait(seconds)

    @rule(number=which)
    def a_claim_is_launched(self, number: int) -> None:
        name = self._some(number, state="new")
        if name is not None:
            self.shop.launch(name)

    @rule(number=which)
    def a_claim_fails(self, number: int) -> None:
        name = self._some(number, state="new")
        if name is not None:
            self.shop.delete(NODE_CLAIMS, name)

    @rule(number=which)
    def a_node_joins(self, number: int) -> None:
        name = self._some(number, state="launched")
        if name is not None:
            self.shop.join(name)

    @rule(number=which)
    def a_node_is_ready(self, number: int) -> None:
        name = self._some(number, state="joined")
        if name is not None:
            self.shop.initialize(name)

    @rule()
    def pods_are_bound(self) -> None:
        self.shop.bind_all()

    @rule(number=which)
    def a_node_is_to_go(self, number: int) -> None:
        name = self._some(number, state="ready")
        if name is not None:
            self.shop.retire(name)

    @rule(number=which)
    def a_pod_is_evicted(self, number: int) -> None:
        going = [
            pod
            for node in self.shop.mirror.joined_nodes()
            if node.deleting
            for pod in node.pods
            if not pod.deleting
        ]
        if going:
            self.shop.delete(PODS, going[number % len(going)].name, "default")
            self.pods_come(1)  # As its ReplicaSet does.

    @rule()
    def drained_nodes_go(self) -> None:
        for node in self.shop.mirror.joined_nodes():
            if node.deleting and all(pod.deleting for pod in node.pods):
                for pod in node.pods:
                    self._stop(pod.name)
                self.shop.delete(NODES, node.name)
                self.shop.patch(NODE_CLAIMS, node.claim, {"metadata": {"finalizers": None}})

    def _stop(self, pod: str) -> None:
        """Let a pod end, as its kubelet would tell."""
        self.shop.api.delete(PODS, pod, "default", options=DeleteOptions(grace_seconds=0))
        self.shop.wait(0)

    @rule()
    def the_provisioner_is_killed(self) -> None:
        self.shop.restart()

    @precondition(lambda self: self.made)
    @rule(writes=st.integers(1, 2))
    def it_will_die_at_a_write(self, writes: int) -> None:
        self.shop.die_after(writes)
        self.shop.wait(3)
        self.shop.die_after(10**9)
        self.shop.restart()

    @invariant()
    def nodes_are_bought_only_for_pods_that_find_no_room_on_others(self) -> None:
        claims = {name: self._places(name) for name in self.shop.bought()}
        new = claims.keys() - self.known
        there = sum(places for name, places in claims.items() if name in self.known)
        short = self._wanting() - there
        assert sum(self._made_for(name) for name in new) <= max(0, short)
        self.known |= new

    def _places(self, name: str) -> int:
        """How many pods a claim's node takes, of whatever type it may become."""
        claim = self.shop.claim(name)
        if claim.provider_id:
            return claim.allocatable[CPU] // 1000
        types = next(one for one in claim.requirements if one.key == label_keys.INSTANCE_TYPE)
        return min(
            one.allocatable[CPU] // 1000
            for one in self.shop.cloud.types
            if one.name in types.values
        )

    def _made_for(self, name: str) -> int:
        return self.shop.claim(name).requests[CPU] // 1000

    def _wanting(self) -> int:
        """Pods that have a place on a node that stays, or need one."""
        bound = [pod for node in self.shop.mirror.joined_nodes() for pod in node.pods]
        pods = [*bound, *self.shop.mirror.unbound_pods()]
        return sum(not pod.deleting for pod in pods)

    @invariant()
    def nothing_went_wrong(self) -> None:
        assert self.shop.log.said("reconciler error") == []

    def teardown(self) -> None:
        shop = self.shop
        for _ in range(4):
            shop.wait(13)
            for name in shop.bought():
                for state, step in (
                    ("new", shop.launch),
                    ("launched", shop.join),
                    ("joined", shop.initialize),
                ):
                    if self._state(name) == state:
                        step(name)
            shop.bind_all()
        left = [pod.name for pod in shop.mirror.unbound_pods()]
        assert left == []


TestComings = Comings.TestCase
TestComings.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
