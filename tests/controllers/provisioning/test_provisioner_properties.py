"""Properties of provisioning: no pod gets two NodeClaims, and each gets a node."""

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dovetail.model import labels as label_keys
from dovetail.model.kube.resources import CPU
from dovetail.ports.api_resources import NODE_CLAIMS, NODES, PODS
from dovetail.simulator.apiserver.options import DeleteOptions
from tests.support.controllers.provisioning import ProvisioningEnvironment
from tests.support.scheduling.instance_types import incremental

indexes = st.integers(0, 1000)


class ProvisioningRules(RuleBasedStateMachine):
    """Pods are created and deleted, launches fail, nodes drain, controllers crash.

    All pods are equal and request one CPU: a simulation after a restart cannot pack
    them worse, and the capacity of nodes can be counted in pods.
    """

    def __init__(self) -> None:
        super().__init__()
        self.env = ProvisioningEnvironment(incremental(6)).start()
        self.created = 0
        self.seen: set[str] = set()
        """NodeClaims at the previous step."""

    def _select(self, number: int, *, state: str) -> str | None:
        names = [name for name in self.env.live_claims() if self._state(name) == state]
        return names[number % len(names)] if names else None

    def _state(self, name: str) -> str:
        claim = self.env.claim(name)
        if not claim.provider_id:
            return "new"
        if self.env.cache.node(f"n-{name}") is None:
            return "launched"
        return "ready" if "Initialized" in self._true_conditions(name) else "joined"

    def _true_conditions(self, name: str) -> list[str]:
        conditions = self.env.claim(name).conditions
        return [kind for kind, condition in conditions.items() if condition.status == "True"]

    @rule(count=st.integers(1, 4))
    def pods_are_created(self, count: int) -> None:
        for _ in range(count):
            self.env.add_pending_pod(f"pod-{self.created}")
            self.created += 1

    @rule(number=indexes)
    def a_pod_is_deleted(self, number: int) -> None:
        pending = sorted(pod.name for pod in self.env.cache.unbound_pods())
        if pending:
            self.env.delete(PODS, pending[number % len(pending)], "default")

    @rule(seconds=st.sampled_from([0.05, 0.4, 1.2, 4.0, 13.0]))
    def time_passes(self, seconds: float) -> None:
        self.env.wait(seconds)

    @rule(number=indexes)
    def a_claim_is_launched(self, number: int) -> None:
        name = self._select(number, state="new")
        if name is not None:
            self.env.launch(name)

    @rule(number=indexes)
    def a_claim_fails(self, number: int) -> None:
        name = self._select(number, state="new")
        if name is not None:
            self.env.delete(NODE_CLAIMS, name)

    @rule(number=indexes)
    def a_node_joins(self, number: int) -> None:
        name = self._select(number, state="launched")
        if name is not None:
            self.env.register(name)

    @rule(number=indexes)
    def a_node_is_ready(self, number: int) -> None:
        name = self._select(number, state="joined")
        if name is not None:
            self.env.initialize(name)

    @rule()
    def pods_are_bound(self) -> None:
        self.env.bind_all()

    @rule(number=indexes)
    def a_node_is_deleted(self, number: int) -> None:
        name = self._select(number, state="ready")
        if name is not None:
            self.env.delete_claim(name)

    @rule(number=indexes)
    def a_pod_is_evicted(self, number: int) -> None:
        draining = [
            pod
            for node in self.env.cache.joined_nodes()
            if node.deleting
            for pod in node.pods
            if not pod.deleting
        ]
        if draining:
            self.env.delete(PODS, draining[number % len(draining)].name, "default")
            self.pods_are_created(1)  # As its ReplicaSet does.

    @rule()
    def drained_nodes_are_removed(self) -> None:
        for node in self.env.cache.joined_nodes():
            if node.deleting and all(pod.deleting for pod in node.pods):
                for pod in node.pods:
                    self._stop(pod.name)
                self.env.delete(NODES, node.name)
                self.env.patch(NODE_CLAIMS, node.claim, {"metadata": {"finalizers": None}})

    def _stop(self, pod: str) -> None:
        """Remove a terminating pod, as its kubelet does."""
        self.env.api.delete(PODS, pod, "default", options=DeleteOptions(grace_period_seconds=0))
        self.env.wait(0)

    @rule()
    def the_provisioner_is_restarted(self) -> None:
        self.env.restart()

    @precondition(lambda self: self.created)
    @rule(writes=st.integers(1, 2))
    def the_provisioner_crashes_after_a_write(self, writes: int) -> None:
        self.env.crash_after(writes)
        self.env.wait(3)
        self.env.crash_after(10**9)
        self.env.restart()

    @invariant()
    def nodeclaims_are_created_only_for_pods_that_fit_on_no_other(self) -> None:
        claims = {name: self._count_places(name) for name in self.env.live_claims()}
        new = claims.keys() - self.seen
        existing = sum(places for name, places in claims.items() if name in self.seen)
        missing = self._count_pods() - existing
        assert sum(self._count_assigned(name) for name in new) <= max(0, missing)
        self.seen |= new

    def _count_places(self, name: str) -> int:
        """Return how many pods the smallest possible node of a NodeClaim holds."""
        claim = self.env.claim(name)
        if claim.provider_id:
            return claim.allocatable[CPU] // 1000
        types = next(spec for spec in claim.requirements if spec.key == label_keys.INSTANCE_TYPE)
        return min(
            instance_type.allocatable[CPU] // 1000
            for instance_type in self.env.cloud.types
            if instance_type.name in types.values
        )

    def _count_assigned(self, name: str) -> int:
        return self.env.claim(name).requests[CPU] // 1000

    def _count_pods(self) -> int:
        """Return the number of pods that are bound or pending, without terminating ones."""
        bound = [pod for node in self.env.cache.joined_nodes() for pod in node.pods]
        pods = [*bound, *self.env.cache.unbound_pods()]
        return sum(not pod.deleting for pod in pods)

    @invariant()
    def no_reconcile_fails(self) -> None:
        assert self.env.log.entries("reconciler error") == []

    def teardown(self) -> None:
        env = self.env
        for _ in range(4):
            env.wait(13)
            for name in env.live_claims():
                for state, step in (
                    ("new", env.launch),
                    ("launched", env.register),
                    ("joined", env.initialize),
                ):
                    if self._state(name) == state:
                        step(name)
            env.bind_all()
        remaining = [pod.name for pod in env.cache.unbound_pods()]
        assert remaining == []


TestProvisioning = ProvisioningRules.TestCase
TestProvisioning.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
