"""Deployments that scale up and down, and two whose disruption budgets must hold."""

import threading
from typing import Any

from dovetail.host.clock import SystemClock
from dovetail.simulator.environment import SeededRandomSource
from tests.live.chaos.api import Api, ApiFailure
from tests.live.replicas import a_deployment, a_pool

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
PROBE_LABEL = "example.com/probe"
_ZONE = "topology.kubernetes.io/zone"
_HOST = "kubernetes.io/hostname"
_SIZES = {"web": 16, "batch": 8, "spread": 12}
"""Deployment → most replicas."""
PROTECTED = {"steady": (12, 11), "lone": (4, 3)}
"""Deployment → replicas, and how many its PodDisruptionBudget keeps available."""
_INTERVAL = (2.0, 8.0)
"""Seconds between two changes of scale."""


def node_pools() -> list[dict[str, Any]]:
    """Return the NodePool of the load, and one for probes whose nodes hold nothing else."""
    general = a_pool(consolidate_after="5s")
    general["spec"]["disruption"]["consolidationPolicy"] = "WhenEmptyOrUnderutilized"
    probes = a_pool("probes", consolidate_after="0s")
    template = probes["spec"]["template"]["spec"]
    template["requirements"].append({"key": PROBE_LABEL, "operator": "Exists"})
    template["taints"] = [{"key": PROBE_LABEL, "effect": "NoSchedule"}]
    return [general, probes]


def workloads() -> list[dict[str, Any]]:
    """Return the Deployments, without replicas, and the PodDisruptionBudgets."""
    spread = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **_term("spread", _ZONE)}
    apart = {"requiredDuringSchedulingIgnoredDuringExecution": [_term("lone", _HOST)]}
    return [
        a_deployment("web", 0),
        a_deployment("batch", 0, cpu="2"),
        a_deployment("spread", 0, cpu="500m", topologySpreadConstraints=[spread]),
        a_deployment("steady", 0, cpu="500m"),
        a_deployment("lone", 0, cpu="500m", affinity={"podAntiAffinity": apart}),
        *(_budget(name, available) for name, (_, available) in PROTECTED.items()),
    ]


def scale(api: Api, name: str, replicas: int) -> None:
    api.patch(f"{DEPLOYMENTS}/{name}/scale", {"spec": {"replicas": replicas}})


class Load(threading.Thread):
    """Changes the scale of a Deployment every few seconds, until stopped."""

    def __init__(self, api: Api, seed: int) -> None:
        super().__init__(name="load", daemon=True)
        self._api = api
        self._random = SeededRandomSource(seed)
        self._clock = SystemClock()
        self._active = threading.Event()
        self._ended = False
        self.changes = 0

    def begin(self) -> None:
        """Protect what is protected, and start or continue to change the rest."""
        for name, (replicas, _) in PROTECTED.items():
            scale(self._api, name, replicas)
        self._active.set()

    def pause(self) -> None:
        """Leave the scale as it is."""
        self._active.clear()

    def clear(self) -> None:
        """Scale everything to zero."""
        self._active.clear()
        for name in (*_SIZES, *PROTECTED):
            scale(self._api, name, 0)

    def surge(self) -> None:
        """Scale up to the most at once."""
        for name, size in _SIZES.items():
            scale(self._api, name, size)

    def end(self) -> None:
        self._ended = True
        self._active.set()
        self.join()

    def run(self) -> None:
        names = sorted(_SIZES)
        shortest, longest = _INTERVAL
        while not self._ended:
            self._active.wait()
            name = names[int(self._random.random() * len(names))]
            replicas = int(self._random.random() * (_SIZES[name] + 1))
            try:
                if self._active.is_set() and not self._ended:
                    scale(self._api, name, replicas)
                    self.changes += 1
            except ApiFailure:
                pass  # The API server is being attacked; the next change will do.
            self._clock.sleep(shortest + (longest - shortest) * self._random.random())


def _term(app: str, key: str) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def _budget(name: str, available: int) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minAvailable": available, "selector": {"matchLabels": {"app": name}}},
    }
