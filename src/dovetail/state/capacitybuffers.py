"""The room that buffers keep: pods that stand for it, and where they would be."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from dovetail.model import labels as label_keys
from dovetail.model.karpenter.capacitybuffer import is_virtual
from dovetail.model.kube.pod import Pod
from dovetail.model.plan import ExistingPlacement


class Buffers:
    """What was worked out lately; lost in a crash, and worked out again."""

    def __init__(self, *, on: bool = False) -> None:
        self._on = on
        self._looked = False
        self._pods: dict[str, tuple[Pod, ...]] = {}
        self._room: Counter[str] = Counter()
        self._verdicts: dict[str, bool] = {}
        self._wanted: list[Callable[[], None]] = []
        self._freed: list[Callable[[], None]] = []

    def on_wanted(self, tell: Callable[[], None]) -> None:
        """Have somebody told when there is a reason to look for room."""
        self._wanted.append(tell)

    def on_freed(self, tell: Callable[[], None]) -> None:
        """Have somebody told when the room of a node may no longer be wanted."""
        self._freed.append(tell)

    def keep(self, buffer: str, pods: tuple[Pod, ...]) -> None:
        """Keep room for these pods from now on."""
        self._pods[buffer] = pods
        for tell in self._wanted:
            tell()

    def drop(self, buffer: str) -> None:
        """Keep no room for a buffer."""
        self._verdicts.pop(buffer, None)
        if self._pods.pop(buffer, None) is not None:
            for tell in self._wanted:
                tell()

    def pods(self) -> Iterator[Pod]:
        """Return all virtual pods, buffer by buffer."""
        for buffer in sorted(self._pods):
            yield from self._pods[buffer]

    def placed(self, existing: Iterable[ExistingPlacement], asked: Iterable[Pod]) -> None:
        """Take note of where a plan has the virtual pods that it was asked to place."""
        before, self._room = self._room, Counter()
        first, self._looked = not self._looked, True
        fits: set[str] = set()
        for one in existing:
            virtual = [pod.uid for pod in one.pods if is_virtual(pod)]
            fits.update(virtual)
            if virtual:
                self._room[one.node] = len(virtual)
        self._verdicts = {}
        for pod in asked:
            if is_virtual(pod):
                buffer = buffer_of(pod)
                self._verdicts[buffer] = self._verdicts.get(buffer, True) and pod.uid in fits
        if first or before.keys() - self._room.keys():
            for tell in self._freed:
                tell()

    def need(self, node: str) -> bool:
        """Tell whether a node's room is wanted, or might be: until somebody has looked."""
        return self._on and (not self._looked or self._room[node] > 0)

    def fits(self, buffer: str) -> bool | None:
        """Tell whether all of a buffer's room is there; None when nobody has looked yet."""
        return self._verdicts.get(buffer)


def buffer_of(pod: Pod) -> str:
    """Return the buffer that a virtual pod stands for."""
    notes = pod.annotations
    return f"{notes[label_keys.BUFFER_NAMESPACE]}/{notes[label_keys.BUFFER_NAME]}"
