"""Capacity buffers: their virtual pods, and the NodeClaims on which those fit."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from dovetail.model import labels as label_keys
from dovetail.model.karpenter.capacitybuffer import is_buffer_pod
from dovetail.model.kube.pod import Pod
from dovetail.state.cluster.cache import ClusterCache


class CapacityBuffers:
    """Virtual pods of each CapacityBuffer and the result of their last scheduling.

    Kept in memory only; after a restart it is computed again. Until then, and until
    a new or changed buffer is scheduled, the buffers may need every node.

    Nodes are named by their NodeClaim: it exists before the Node, and its name stays.
    """

    def __init__(self, cache: ClusterCache | None = None) -> None:
        """Without a cache, for a disabled feature gate, buffers need nothing."""
        self._cache = cache
        self._pods: dict[str, tuple[Pod, ...]] = {}
        self._resolved: set[str] = set()
        """Buffers whose number of pods is known, if only that they have none."""
        self._unscheduled: set[str] = set()
        """Buffers whose pods changed after the last plan was begun."""
        self._may_need_all = cache is not None
        """Buffers might have needed every node at the last change; now maybe not."""
        self._pods_per_claim: Counter[str] = Counter()
        self._provisioned: dict[str, bool] = {}
        self._on_change: list[Callable[[], None]] = []
        self._on_release: list[Callable[[], None]] = []
        self._on_provisioned: list[Callable[[str], None]] = []

    def subscribe_changes(self, listener: Callable[[], None]) -> None:
        """Call a listener when the virtual pods change, so that they need scheduling."""
        self._on_change.append(listener)

    def subscribe_releases(self, listener: Callable[[], None]) -> None:
        """Call a listener when buffers may no longer need a node."""
        self._on_release.append(listener)

    def subscribe_provisioned(self, listener: Callable[[str], None]) -> None:
        """Call a listener with the key of a buffer whose ``is_provisioned`` changed."""
        self._on_provisioned.append(listener)

    def set_pods(self, buffer: str, pods: tuple[Pod, ...]) -> None:
        """Set the virtual pods of a buffer."""
        self._resolved.add(buffer)
        if self._pods.get(buffer) != pods:
            self._pods[buffer] = pods
            self._unscheduled.add(buffer)
            self._may_need_all = True
            self._notify_change()

    def remove(self, buffer: str) -> None:
        """Remove the pods of a buffer that cannot be resolved."""
        self._may_need_all |= buffer not in self._resolved
        self._resolved.add(buffer)
        self._remove_pods(buffer)

    def forget(self, buffer: str) -> None:
        """Remove a buffer that is deleted."""
        self._resolved.discard(buffer)
        self._remove_pods(buffer)

    def pods(self) -> Iterator[Pod]:
        """Yield all virtual pods, by buffer."""
        for buffer in sorted(self._pods):
            yield from self._pods[buffer]

    def __bool__(self) -> bool:
        """Return True if there are virtual pods to schedule."""
        return any(self._pods.values())

    def record_plan(self, existing: Iterable[tuple[str, Iterable[Pod]]], pending: Iterable[Pod]) -> None:
        """Record where a plan places the virtual pods among its pending pods.

        ``existing`` has the NodeClaims that the plan found, with the pods placed there;
        ``record_launch`` adds those that it creates.
        """
        scheduled: dict[str, list[Pod]] = {}
        for pod in pending:
            if is_buffer_pod(pod):
                scheduled.setdefault(get_buffer_key(pod), []).append(pod)
        self._set_scheduled(scheduled)
        before, self._pods_per_claim = self._pods_per_claim, Counter()
        fits: set[str] = set()
        for claim, pods in existing:
            virtual = [pod.uid for pod in pods if is_buffer_pod(pod)]
            fits.update(virtual)
            if virtual and claim:
                self._pods_per_claim[claim] = len(virtual)
        provisioned = {
            buffer: all(pod.uid in fits for pod in pods)
            for buffer, pods in scheduled.items()
            if buffer in self._pods
        }
        changed = [buffer for buffer in provisioned if provisioned[buffer] != self._provisioned.get(buffer)]
        self._provisioned = provisioned
        for buffer in changed:
            for listener in self._on_provisioned:
                listener(buffer)
        self._notify_release(bool(before.keys() - self._pods_per_claim.keys()))

    def record_launch(self, claim: str, pods: Iterable[Pod]) -> None:
        """Record a NodeClaim that the last plan creates, with the pods placed there."""
        virtual = sum(is_buffer_pod(pod) for pod in pods)
        if virtual:
            self._pods_per_claim[claim] = virtual

    def has_pods(self, claim: str) -> bool:
        """Return True if the last plan places virtual pods on a NodeClaim."""
        return self._pods_per_claim.get(claim, 0) > 0

    def needs_claim(self, claim: str) -> bool:
        """Return True if buffers need a NodeClaim's free capacity, or may need it."""
        return self.has_pods(claim) or not self._is_scheduled()

    def is_provisioned(self, buffer: str) -> bool | None:
        """Return True if all virtual pods fit existing nodes; None: not scheduled yet."""
        return self._provisioned.get(buffer)

    def _is_scheduled(self) -> bool:
        """Return True if the last plan contains all buffers as they are now."""
        if self._cache is None:
            return True
        return not self._unscheduled and all(buffer.key in self._resolved for buffer in self._cache.buffers())

    def _set_scheduled(self, scheduled: dict[str, list[Pod]]) -> None:
        self._unscheduled = {
            buffer
            for buffer in self._unscheduled
            # A buffer that changed during the simulation is not in its plan.
            if tuple(scheduled.get(buffer, ())) != self._pods[buffer]
        }

    def _remove_pods(self, buffer: str) -> None:
        self._provisioned.pop(buffer, None)
        self._unscheduled.discard(buffer)
        if self._pods.pop(buffer, None) is not None:
            self._notify_change()
        self._notify_release()

    def _notify_change(self) -> None:
        for listener in self._on_change:
            listener()

    def _notify_release(self, released: bool = False) -> None:
        """Call the listeners if claims are released, or buffers no longer need all nodes."""
        is_scheduled = self._is_scheduled()
        if released or (self._may_need_all and is_scheduled):
            for listener in self._on_release:
                listener()
        self._may_need_all = not is_scheduled


def get_buffer_key(pod: Pod) -> str:
    """Return ``namespace/name`` of the CapacityBuffer of a virtual pod."""
    notes = pod.annotations
    return f"{notes[label_keys.CAPACITY_BUFFER_NAMESPACE]}/{notes[label_keys.CAPACITY_BUFFER_NAME]}"
