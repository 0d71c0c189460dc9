"""What a scenario says."""

from datetime import timedelta

import msgspec

from dovetail.ports.kube_client import Object
from dovetail.simulator.ec2.latencies import USUAL as USUAL_CLOUD
from dovetail.simulator.ec2.latencies import Latencies as CloudLatencies
from dovetail.simulator.kubelet.latencies import Latencies as KubeletLatencies

USUAL_LIMIT = timedelta(minutes=15)


class Home(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that are there beforehand and belong to nobody's NodePool."""

    count: int
    instance_type: str


class Apply(msgspec.Struct, frozen=True):
    """Create objects, or change those that are there."""

    objects: tuple[Object, ...]


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """Ask for another number of replicas."""

    kind: str
    name: str
    namespace: str
    replicas: int


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    """Delete an object; without a name, as many as ``count`` says, oldest first."""

    kind: str
    name: str = ""
    namespace: str = ""
    count: int = 1


class Interrupt(msgspec.Struct, frozen=True):
    """Take spot instances back, all at once: this share of those that run."""

    share: float


class SellOut(msgspec.Struct, frozen=True, kw_only=True):
    """Have no capacity: patterns of types, zones and capacity types, and for how long."""

    types: str = "*"
    zones: str = "*"
    capacity_types: str = "*"
    lasts: timedelta | None = None


class Thin(msgspec.Struct, frozen=True):
    """Let a share of the pods of every Deployment go, picked at random."""

    share: float


class Release(msgspec.Struct, frozen=True):
    """Publish newer images of a family; node classes that ask for the latest get them."""

    family: str


class Wait(msgspec.Struct, frozen=True):
    """Let time pass."""

    lasts: timedelta


Action = Apply | Scale | Delete | Interrupt | SellOut | Thin | Release | Wait


class Until(msgspec.Struct, frozen=True, kw_only=True):
    """When a phase is over; what is None does not matter."""

    running: int | None = None
    """So many pods run, and none waits or stops (DaemonSets' aside)."""
    nodes: int | None = None
    """So many machines are paid for."""
    drifted: int | None = None
    """So many claims have drifted."""
    quiet: timedelta | None = None
    """Nothing was bought or given back for so long."""


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """Something happens, and the cluster answers."""

    name: str
    actions: tuple[Action, ...] = ()
    until: Until = Until()
    limit: timedelta = USUAL_LIMIT
    """A phase that takes longer has failed."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """A whole story, reproducible from its seed."""

    name: str
    about: str
    region: str = "us-east-1"
    seed: int = 1
    home: Home | None = None
    objects: tuple[Object, ...] = ()
    """Applied before the first phase."""
    phases: tuple[Phase, ...] = ()
    cloud: CloudLatencies = USUAL_CLOUD
    kubelet: KubeletLatencies = KubeletLatencies()
