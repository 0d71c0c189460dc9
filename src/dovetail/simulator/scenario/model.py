"""Model of a scenario file."""

from datetime import timedelta

import msgspec

from dovetail.ports.kube_client import Object
from dovetail.simulator.latencies import DEFAULT_CLOUD_LATENCIES, CloudLatencies, KubeletLatencies

DEFAULT_LIMIT = timedelta(minutes=15)


class ManagedNodeGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes that exist before the first phase and belong to no NodePool (``home``)."""

    count: int
    instance_type: str


class Apply(msgspec.Struct, frozen=True):
    """Apply objects."""

    objects: tuple[Object, ...]


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """Scale an object to a number of replicas."""

    kind: str
    name: str
    namespace: str
    replicas: int


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """Set the load on the pods of a HorizontalPodAutoscaler's target."""

    name: str
    namespace: str
    metrics: dict[str, str]
    """Metric name, such as ``cpu`` → amount for all pods together."""


class Delete(msgspec.Struct, frozen=True, kw_only=True):
    """Delete an object; without a name the ``count`` oldest."""

    kind: str
    name: str = ""
    namespace: str = ""
    count: int = 1


class Interrupt(msgspec.Struct, frozen=True):
    """Interrupt a share of the running spot instances, all at once."""

    share: float


class CapacityOutage(msgspec.Struct, frozen=True, kw_only=True):
    """No capacity (``sellOut``) for globs of types, zones and capacity types.

    ``duration`` None means until the end.
    """

    types: str = "*"
    zones: str = "*"
    capacity_types: str = "*"
    duration: timedelta | None = None


class ScaleDown(msgspec.Struct, frozen=True):
    """Delete a share of the pods of every Deployment, at random (``thin``)."""

    share: float


class Release(msgspec.Struct, frozen=True):
    """Release new AMIs of a family; node classes that select ``@latest`` get them."""

    family: str


class NewImages(msgspec.Struct, frozen=True):
    """New AMIs appear for recorded node classes that select the latest image."""

    node_classes: tuple[str, ...] = ()
    """Names; empty: all of them."""


class Upgrade(msgspec.Struct, frozen=True):
    """Upgrade the control plane; AMIs selected by alias change with its version."""

    version: str
    """``1.35``."""


class ZoneOutage(msgspec.Struct, frozen=True):
    """A zone fails: no capacity there, and its instances are gone."""

    zone: str


class Wait(msgspec.Struct, frozen=True):
    """Wait."""

    duration: timedelta


Action = (
    Apply
    | Scale
    | Load
    | Delete
    | Interrupt
    | CapacityOutage
    | ScaleDown
    | Release
    | NewImages
    | Upgrade
    | ZoneOutage
    | Wait
)


class Until(msgspec.Struct, frozen=True, kw_only=True):
    """Goal of a phase; None means any value."""

    running: int | None = None
    """Number of running pods, with none pending or terminating, DaemonSets excluded."""
    nodes: int | None = None
    """Number of instances that are billed or launching."""
    drifted: int | None = None
    """Number of drifted NodeClaims."""
    quiet: timedelta | None = None
    """Time without a launch or termination."""


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """Actions, and the goal that the cluster must reach after them."""

    name: str
    actions: tuple[Action, ...] = ()
    until: Until = Until()
    limit: timedelta = DEFAULT_LIMIT
    """A phase that takes longer has failed."""


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """A scenario; equal seeds give equal runs."""

    name: str
    about: str
    region: str = "us-east-1"
    seed: int = 1
    node_group: ManagedNodeGroup | None = None
    objects: tuple[Object, ...] = ()
    """Applied before the first phase."""
    phases: tuple[Phase, ...] = ()
    cloud: CloudLatencies = DEFAULT_CLOUD_LATENCIES
    kubelet: KubeletLatencies = KubeletLatencies()
