"""What is to be placed, and what could be bought for it: the ground of every plan."""

from collections.abc import Iterator
from datetime import datetime

from dovetail.core.provisioning import is_provisionable, is_usable
from dovetail.model.kube.pod import Pod
from dovetail.model.snapshot import ClusterSnapshot
from dovetail.ports.cloudprovider import Cloud
from dovetail.state.capacitybuffers import Buffers
from dovetail.state.cluster.cache import Mirror
from dovetail.state.pods.assignments import Promises
from dovetail.state.snapshot import Picture


class Scene:
    """The same for those who buy nodes and for those who give them back."""

    def __init__(
        self, *, mirror: Mirror, promises: Promises, cloud: Cloud, buffers: Buffers
    ) -> None:
        self._buffers = buffers
        self._mirror = mirror
        self._promises = promises
        self._cloud = cloud
        self._picture = Picture(mirror, promises)

    def waiting(self) -> Iterator[Pod]:
        """Return the pods that wait for a node and were not promised one."""
        for pod in self._mirror.unbound_pods():
            if is_provisionable(pod) and not self._promises.holds(pod):
                yield pod

    def snapshot(self, now: datetime) -> ClusterSnapshot:
        """Return the whole cluster at this instant, and the pools that can buy.

        Pods that stand for room in buffers wait, too.
        """
        usable = [pool for pool in self._mirror.pools() if is_usable(pool)]
        types = {pool.name: self._cloud.instance_types(pool) for pool in usable}
        return self._picture.snapshot(
            now,
            pending=(*sorted(self.waiting(), key=lambda pod: pod.key), *self._buffers.pods()),
            pools=[pool for pool in usable if types[pool.name]],
            types={name: found for name, found in types.items() if found},
        )
