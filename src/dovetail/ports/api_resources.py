"""API resources that Dovetail reads and writes, and that its simulator serves."""

from typing import Final

import msgspec


class Resource(msgspec.Struct, frozen=True, cache_hash=True):
    """An API resource: its group, version and names, and how the API server treats it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ("status",)
    has_generation: bool = False
    is_custom: bool = False
    """Defined by a CustomResourceDefinition: no strategic merge, patches replace lists."""
    indexed_fields: tuple[str, ...] = ()
    """Field selectors that the simulator's API server has an index for."""
    singular: str = ""
    """Singular name, if it is not the kind in lower case."""
    categories: tuple[str, ...] = ()
    """Categories of ``kubectl get``, other than ``all``."""

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified_name(self) -> str:
        """Name in error messages: ``pods``, ``deployments.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources


def _custom(group: str, version: str, plural: str, kind: str, *short_names: str) -> Resource:
    """Return a cluster-scoped custom resource."""
    return Resource(group, version, plural, kind, False, short_names, has_generation=True, is_custom=True)


_NONE: Final = ()
_RBAC: Final = "rbac.authorization.k8s.io"
_SCALE: Final = ("status", "scale")
_OF_PODS: Final = ("status", "eviction", "binding")
_BY_NODE: Final = ("spec.nodeName",)

# Resource(group, version, plural, kind, namespaced, short_names, subresources, …)
NODES = Resource("", "v1", "nodes", "Node", False, ("no",))
PODS = Resource(
    "", "v1", "pods", "Pod", True, ("po",), _OF_PODS, has_generation=True, indexed_fields=_BY_NODE
)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", False, ("ns",))
PERSISTENT_VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", False, ("pv",))
PERSISTENT_VOLUME_CLAIMS = Resource(
    "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", True, ("pvc",)
)
EVENTS = Resource("", "v1", "events", "Event", True, ("ev",), _NONE)
SERVICES = Resource("", "v1", "services", "Service", True, ("svc",))
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap", True, ("cm",), _NONE)
LIMIT_RANGES = Resource("", "v1", "limitranges", "LimitRange", True, ("limits",), _NONE)
SECRETS = Resource("", "v1", "secrets", "Secret", subresources=_NONE)
SERVICE_ACCOUNTS = Resource("", "v1", "serviceaccounts", "ServiceAccount", True, ("sa",), _NONE)
ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints", True, ("ep",), _NONE)
DEPLOYMENTS = Resource(
    "apps", "v1", "deployments", "Deployment", True, ("deploy",), _SCALE, has_generation=True
)
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet", True, ("rs",), _SCALE, has_generation=True)
STATEFUL_SETS = Resource(
    "apps", "v1", "statefulsets", "StatefulSet", True, ("sts",), _SCALE, has_generation=True
)
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet", True, ("ds",), has_generation=True)
CONTROLLER_REVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision", subresources=_NONE)
JOBS = Resource("batch", "v1", "jobs", "Job", has_generation=True)
CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob", True, ("cj",), has_generation=True)
POD_DISRUPTION_BUDGETS = Resource(
    "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", True, ("pdb",), has_generation=True
)
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", False, ("sc",), _NONE)
CSI_DRIVERS = Resource(
    "storage.k8s.io", "v1", "csidrivers", "CSIDriver", False, (), _NONE, has_generation=True
)
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", False, subresources=_NONE)
VOLUME_ATTACHMENTS = Resource(
    "storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", False, indexed_fields=_BY_NODE
)
PRIORITY_CLASSES = Resource(
    "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", False, ("pc",), _NONE
)
RUNTIME_CLASSES = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", False, subresources=_NONE)
HORIZONTAL_POD_AUTOSCALERS = Resource(
    "autoscaling",
    "v2",
    "horizontalpodautoscalers",
    "HorizontalPodAutoscaler",
    True,
    ("hpa",),
    has_generation=True,
)
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota", True, ("quota",))
ROLES = Resource(_RBAC, "v1", "roles", "Role", subresources=_NONE)
ROLE_BINDINGS = Resource(_RBAC, "v1", "rolebindings", "RoleBinding", subresources=_NONE)
CLUSTER_ROLES = Resource(_RBAC, "v1", "clusterroles", "ClusterRole", False, subresources=_NONE)
CLUSTER_ROLE_BINDINGS = Resource(
    _RBAC, "v1", "clusterrolebindings", "ClusterRoleBinding", False, subresources=_NONE
)
INGRESSES = Resource("networking.k8s.io", "v1", "ingresses", "Ingress", True, ("ing",), has_generation=True)
INGRESS_CLASSES = Resource(
    "networking.k8s.io", "v1", "ingressclasses", "IngressClass", False, (), _NONE, has_generation=True
)
NETWORK_POLICIES = Resource(
    "networking.k8s.io",
    "v1",
    "networkpolicies",
    "NetworkPolicy",
    True,
    ("netpol",),
    _NONE,
    has_generation=True,
)
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True, (), _NONE, True)
VALIDATING_WEBHOOKS = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    False,
    (),
    _NONE,
    has_generation=True,
    categories=("api-extensions",),
)
MUTATING_WEBHOOKS = msgspec.structs.replace(
    VALIDATING_WEBHOOKS, plural="mutatingwebhookconfigurations", kind="MutatingWebhookConfiguration"
)
VALIDATING_POLICY_BINDINGS = msgspec.structs.replace(
    VALIDATING_WEBHOOKS, plural="validatingadmissionpolicybindings", kind="ValidatingAdmissionPolicyBinding"
)
VALIDATING_POLICIES = msgspec.structs.replace(
    VALIDATING_POLICY_BINDINGS,
    plural="validatingadmissionpolicies",
    kind="ValidatingAdmissionPolicy",
    subresources=("status",),
)
API_SERVICES = Resource(
    "apiregistration.k8s.io", "v1", "apiservices", "APIService", False, categories=("api-extensions",)
)
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "customresourcedefinitions",
    "CustomResourceDefinition",
    False,
    ("crd", "crds"),
    has_generation=True,
    categories=("api-extensions",),
)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease", subresources=_NONE)
NODE_POOLS = msgspec.structs.replace(
    _custom("karpenter.sh", "v1", "nodepools", "NodePool"), subresources=_SCALE
)
NODE_CLAIMS = _custom("karpenter.sh", "v1", "nodeclaims", "NodeClaim")
EC2_NODE_CLASSES = _custom("karpenter.k8s.aws", "v1", "ec2nodeclasses", "EC2NodeClass", "ec2nc", "ec2ncs")
NODE_OVERLAYS = _custom("karpenter.sh", "v1alpha1", "nodeoverlays", "NodeOverlay", "overlays")
CAPACITY_BUFFERS = msgspec.structs.replace(
    _custom("autoscaling.x-k8s.io", "v1beta1", "capacitybuffers", "CapacityBuffer", "cb"), namespaced=True
)
POD_TEMPLATES = Resource("", "v1", "podtemplates", "PodTemplate", subresources=_NONE, has_generation=True)

RESOURCES: Final = tuple(value for value in list(globals().values()) if isinstance(value, Resource))
"""All of the above, in their order."""
_BY_KIND: Final = {(resource.api_version, resource.kind): resource for resource in RESOURCES}


def find_resource(api_version: str, kind: str) -> Resource | None:
    """Return the resource of an apiVersion and kind, or None if it is not in the list."""
    return _BY_KIND.get((api_version, kind))
