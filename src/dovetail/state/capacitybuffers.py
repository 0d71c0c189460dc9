"""Capacity buffers: their virtual pods, and the nodes on which those fit."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from dovetail.model import labels as label_keys
from dovetail.model.karpenter.capacitybuffer import is_buffer_pod
from dovetail.model.kube.pod import Pod
from dovetail.model.plan import ExistingPlacement


class CapacityBuffers:
    """Virtual pods of each CapacityBuffer and the result of their last scheduling.

    Kept in memory only; after a restart it is computed again.
    """

    def __init__(self, *, enabled: bool = False) -> None:
        self._enabled = enabled
        self._has_plan = False
        self._pods: dict[str, tuple[Pod, ...]] = {}
        self._pods_per_node: Counter[str] = Counter()
        self._provisioned: dict[str, bool] = {}
        self._on_change: list[Callable[[], None]] = []
        self._on_release: list[Callable[[], None]] = []

    def subscribe_changes(self, listener: Callable[[], None]) -> None:
        """Call a listener when the virtual pods change, so that they need scheduling."""
        self._on_change.append(listener)

    def subscribe_releases(self, listener: Callable[[], None]) -> None:
        """Call a listener when buffers may no longer need a node."""
        self._on_release.append(listener)

    def set_pods(self, buffer: str, pods: tuple[Pod, ...]) -> None:
        """Set the virtual pods of a buffer."""
        self._pods[buffer] = pods
        for listener in self._on_change:
            listener()

    def remove(self, buffer: str) -> None:
        """Remove a buffer."""
        self._provisioned.pop(buffer, None)
        if self._pods.pop(buffer, None) is not None:
            for listener in self._on_change:
                listener()

    def pods(self) -> Iterator[Pod]:
        """Yield all virtual pods, by buffer."""
        for buffer in sorted(self._pods):
            yield from self._pods[buffer]

    def record_plan(self, existing: Iterable[ExistingPlacement], pending: Iterable[Pod]) -> None:
        """Record where a plan places the virtual pods among its pending pods."""
        before, self._pods_per_node = self._pods_per_node, Counter()
        first, self._has_plan = not self._has_plan, True
        fits: set[str] = set()
        for placement in existing:
            virtual = [pod.uid for pod in placement.pods if is_buffer_pod(pod)]
            fits.update(virtual)
            if virtual:
                self._pods_per_node[placement.node] = len(virtual)
        self._provisioned = {}
        for pod in pending:
            if is_buffer_pod(pod):
                buffer = get_buffer_key(pod)
                self._provisioned[buffer] = self._provisioned.get(buffer, True) and pod.uid in fits
        if first or before.keys() - self._pods_per_node.keys():
            for listener in self._on_release:
                listener()

    def needs_node(self, node: str) -> bool:
        """Return True if buffers need a node's free capacity; also before the first plan."""
        return self._enabled and (not self._has_plan or self._pods_per_node[node] > 0)

    def is_provisioned(self, buffer: str) -> bool | None:
        """Return True if all virtual pods fit existing nodes; None: not scheduled yet."""
        return self._provisioned.get(buffer)


def get_buffer_key(pod: Pod) -> str:
    """Return ``namespace/name`` of the CapacityBuffer of a virtual pod."""
    notes = pod.annotations
    return f"{notes[label_keys.CAPACITY_BUFFER_NAMESPACE]}/{notes[label_keys.CAPACITY_BUFFER_NAME]}"
