"""Every kind of Kubernetes object that we read, write or serve, in one list."""

from typing import Final

import msgspec


class Resource(msgspec.Struct, frozen=True, cache_hash=True):
    """One kind: where it is served and which of Kubernetes' rules apply to it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ("status",)
    counts_generations: bool = False
    custom: bool = False
    """Comes from a CustomResourceDefinition: no strategic merge, lists are replaced whole."""
    indexed_fields: tuple[str, ...] = ()
    """Fields that lists and watches select by so often that there is an index."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """The name errors use: ``pods``, ``deployments.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources


def _cluster_wide(resource: Resource) -> Resource:
    return msgspec.structs.replace(resource, namespaced=False)


_SCALED: Final = ("status", "scale")

NODES = _cluster_wide(Resource("", "v1", "nodes", "Node", short_names=("no",)))
PODS = Resource(
    "",
    "v1",
    "pods",
    "Pod",
    short_names=("po",),
    subresources=("status", "eviction", "binding"),
    counts_generations=True,
    indexed_fields=("spec.nodeName",),
)
NAMESPACES = _cluster_wide(Resource("", "v1", "namespaces", "Namespace", short_names=("ns",)))
PERSISTENT_VOLUMES = _cluster_wide(
    Resource("", "v1", "persistentvolumes", "PersistentVolume", short_names=("pv",))
)
PERSISTENT_VOLUME_CLAIMS = Resource(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", short_names=("pvc",)
)
EVENTS = Resource("", "v1", "events", "Event", short_names=("ev",), subresources=())
SERVICES = Resource("", "v1", "services", "Service", short_names=("svc",))
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", short_names=("cm",), subresources=())
SECRETS = Resource("", "v1", "secrets", "Secret", subresources=())
SERVICE_ACCOUNTS = Resource(
    "", "v1", "serviceaccounts", "ServiceAccount", short_names=("sa",), subresources=()
)
DEPLOYMENTS = Resource(
    "apps", "v1", "deployments", "Deployment", True, ("deploy",), _SCALED, counts_generations=True
)
REPLICA_SETS = Resource(
    "apps", "v1", "replicasets", "ReplicaSet", True, ("rs",), _SCALED, counts_generations=True
)
STATEFUL_SETS = Resource(
    "apps", "v1", "statefulsets", "StatefulSet", True, ("sts",), _SCALED, counts_generations=True
)
DAEMON_SETS = Resource(
    "apps", "v1", "daemonsets", "DaemonSet", short_names=("ds",), counts_generations=True
)
CONTROLLER_REVISIONS = Resource(
    "apps", "v1", "controllerrevisions", "ControllerRevision", subresources=()
)
JOBS = Resource("batch", "v1", "jobs", "Job", counts_generations=True)
CRON_JOBS = Resource(
    "batch", "v1", "cronjobs", "CronJob", short_names=("cj",), counts_generations=True
)
POD_DISRUPTION_BUDGETS = Resource(
    "policy",
    "v1",
    "poddisruptionbudgets",
    "PodDisruptionBudget",
    short_names=("pdb",),
    counts_generations=True,
)
STORAGE_CLASSES = _cluster_wide(
    Resource(
        "storage.k8s.io",
        "v1",
        "storageclasses",
        "StorageClass",
        short_names=("sc",),
        subresources=(),
    )
)
CSI_NODES = _cluster_wide(Resource("storage.k8s.io", "v1", "csinodes", "CSINode", subresources=()))
VOLUME_ATTACHMENTS = _cluster_wide(
    Resource(
        "storage.k8s.io",
        "v1",
        "volumeattachments",
        "VolumeAttachment",
        indexed_fields=("spec.nodeName",),
    )
)
PRIORITY_CLASSES = _cluster_wide(
    Resource(
        "scheduling.k8s.io",
        "v1",
        "priorityclasses",
        "PriorityClass",
        short_names=("pc",),
        subresources=(),
    )
)
HORIZONTAL_POD_AUTOSCALERS = Resource(
    "autoscaling",
    "v2",
    "horizontalpodautoscalers",
    "HorizontalPodAutoscaler",
    short_names=("hpa",),
    counts_generations=True,
)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", subresources=())
NODE_POOLS = _cluster_wide(
    Resource(
        "karpenter.sh",
        "v1",
        "nodepools",
        "NodePool",
        subresources=_SCALED,
        counts_generations=True,
        custom=True,
    )
)
NODE_CLAIMS = _cluster_wide(
    Resource("karpenter.sh", "v1", "nodeclaims", "NodeClaim", counts_generations=True, custom=True)
)
EC2_NODE_CLASSES = _cluster_wide(
    Resource(
        "karpenter.k8s.aws",
        "v1",
        "ec2nodeclasses",
        "EC2NodeClass",
        short_names=("ec2nc", "ec2ncs"),
        counts_generations=True,
        custom=True,
    )
)
NODE_OVERLAYS = _cluster_wide(
    Resource(
        "karpenter.sh",
        "v1alpha1",
        "nodeoverlays",
        "NodeOverlay",
        short_names=("overlays",),
        counts_generations=True,
        custom=True,
    )
)
CAPACITY_BUFFERS = Resource(
    "autoscaling.x-k8s.io",
    "v1beta1",
    "capacitybuffers",
    "CapacityBuffer",
    short_names=("cb",),
    counts_generations=True,
    custom=True,
)
POD_TEMPLATES = Resource("", "v1", "podtemplates", "PodTemplate", subresources=())

RESOURCES: Final = (
    NODES,
    PODS,
    NAMESPACES,
    PERSISTENT_VOLUMES,
    PERSISTENT_VOLUME_CLAIMS,
    EVENTS,
    SERVICES,
    CONFIG_MAPS,
    SECRETS,
    SERVICE_ACCOUNTS,
    DEPLOYMENTS,
    REPLICA_SETS,
    STATEFUL_SETS,
    DAEMON_SETS,
    CONTROLLER_REVISIONS,
    JOBS,
    CRON_JOBS,
    POD_DISRUPTION_BUDGETS,
    STORAGE_CLASSES,
    CSI_NODES,
    VOLUME_ATTACHMENTS,
    PRIORITY_CLASSES,
    HORIZONTAL_POD_AUTOSCALERS,
    LEASES,
    NODE_POOLS,
    NODE_CLAIMS,
    EC2_NODE_CLASSES,
    NODE_OVERLAYS,
    CAPACITY_BUFFERS,
    POD_TEMPLATES,
)

_BY_KIND: Final = {(one.api_version, one.kind): one for one in RESOURCES}


def resource_of_kind(api_version: str, kind: str) -> Resource | None:
    """Return the resource that serves objects of this apiVersion and kind."""
    return _BY_KIND.get((api_version, kind))
