"""The Kubernetes API of clusters in memory, and a Helm that installs into it.

Behind ``kube.connection.Connection``: discovery, lists with selectors, server-side
apply of one field manager, and deletion. Custom resources are served while their
definition exists. Charts own objects as Helm's do, so that a second release cannot
take over those of the first.
"""

import gzip
import json
from base64 import b64encode
from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from dovetail.eks.desired.charts import is_chart_directory
from dovetail.eks.kubernetes.api import ApiAccess, ApiEndpoint
from dovetail.eks.kubernetes.helm import HelmRelease
from dovetail.errors import DovetailError
from dovetail.kube.connection import no_fence
from dovetail.ports.kube_errors import NotFound

if TYPE_CHECKING:
    from tests.support.memory_aws.account import MemoryAccount

Object = dict[str, Any]
_CORE: Final = {
    "v1": (
        ("namespaces", "Namespace", False),
        ("configmaps", "ConfigMap", True),
        ("secrets", "Secret", True),
        ("services", "Service", True),
        ("serviceaccounts", "ServiceAccount", True),
        ("pods", "Pod", True),
        ("persistentvolumeclaims", "PersistentVolumeClaim", True),
    ),
    "apps/v1": (
        ("deployments", "Deployment", True),
        ("daemonsets", "DaemonSet", True),
        ("statefulsets", "StatefulSet", True),
    ),
    "batch/v1": (("jobs", "Job", True), ("cronjobs", "CronJob", True)),
    "rbac.authorization.k8s.io/v1": (
        ("clusterroles", "ClusterRole", False),
        ("clusterrolebindings", "ClusterRoleBinding", False),
        ("roles", "Role", True),
        ("rolebindings", "RoleBinding", True),
    ),
    "autoscaling/v2": (("horizontalpodautoscalers", "HorizontalPodAutoscaler", True),),
    "flowcontrol.apiserver.k8s.io/v1": (("flowschemas", "FlowSchema", False),),
    "networking.k8s.io/v1": (("ingresses", "Ingress", True), ("networkpolicies", "NetworkPolicy", True)),
    "policy/v1": (("poddisruptionbudgets", "PodDisruptionBudget", True),),
    "scheduling.k8s.io/v1": (("priorityclasses", "PriorityClass", False),),
    "storage.k8s.io/v1": (("storageclasses", "StorageClass", False),),
    "apiextensions.k8s.io/v1": (("customresourcedefinitions", "CustomResourceDefinition", False),),
}
DEFINITIONS: Final = {
    "karpenter.sh/v1": (("nodepools", "NodePool"), ("nodeclaims", "NodeClaim")),
    "karpenter.k8s.aws/v1": (("ec2nodeclasses", "EC2NodeClass"),),
}
_CRDS: Final = ("apiextensions.k8s.io/v1", "customresourcedefinitions")
_DEFAULT_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
_RELEASE: Final = ("meta.helm.sh/release-name", "meta.helm.sh/release-namespace")

Key = tuple[str, str, str, str]
"""apiVersion, plural, namespace, name."""


class MemoryKube:
    """Objects of every cluster."""

    def __init__(self, account: "MemoryAccount") -> None:
        self._account = account
        self.clusters: dict[str, dict[Key, Object]] = {}
        self.applied: dict[str, dict[Key, Object]] = {}
        """Last applied configuration of each object: the fields that the manager owns."""

    def start(self, cluster: str) -> None:
        self.clusters[cluster] = {}
        self.applied[cluster] = {}
        for name in _DEFAULT_NAMESPACES:
            self.put(cluster, ("v1", "namespaces", "", name), {"metadata": {"name": name}})

    def stop(self, cluster: str) -> None:
        del self.clusters[cluster], self.applied[cluster]

    def put(self, cluster: str, key: Key, manifest: Object) -> None:
        self.clusters[cluster][key] = manifest

    def remove(self, cluster: str, key: Key) -> None:
        """Delete an object, and what a namespace or a definition contains."""
        objects = self.clusters[cluster]
        gone = [key]
        if key[:2] == ("v1", "namespaces"):
            gone += [other for other in objects if other[2] == key[3]]
        if key[:2] == _CRDS:
            plural, _, group = key[3].partition(".")
            gone += [other for other in objects if other[0] == f"{group}/v1" and other[1] == plural]
        for other in gone:
            objects.pop(other, None)
            self.applied[cluster].pop(other, None)

    def served(self, cluster: str, api_version: str) -> list[Object]:
        kinds = list(_CORE.get(api_version, ()))
        group = api_version.partition("/")[0]
        kinds += [
            (plural, kind, False)
            for plural, kind in DEFINITIONS.get(api_version, ())
            if (*_CRDS, "", f"{plural}.{group}") in self.clusters[cluster]
        ]
        return [{"name": plural, "kind": kind, "namespaced": bound} for plural, kind, bound in kinds]

    def apply(self, cluster: str, key: Key, manifest: Object) -> Object:
        if key[2] and ("v1", "namespaces", "", key[2]) not in self.clusters[cluster]:
            raise NotFound(f'namespaces "{key[2]}" not found')
        live = self.clusters[cluster].get(key, {})
        owned = self.applied[cluster].get(key, {})
        self.clusters[cluster][key] = _merge(_without(live, owned, manifest), manifest)
        self.applied[cluster][key] = deepcopy(manifest)
        return self.clusters[cluster][key]


def _without(live: Object, owned: Object, manifest: Object) -> Object:
    """Return the live object without fields that the manager owned and no longer applies."""
    kept: Object = {}
    for name, value in live.items():
        if name not in manifest:
            if name not in owned:
                kept[name] = value
            elif isinstance(value, dict) and isinstance(owned[name], dict):
                rest = _without(value, owned[name], {})
                if rest:
                    kept[name] = rest
        elif isinstance(value, dict) and isinstance(manifest[name], dict):
            inner = owned.get(name)
            kept[name] = _without(value, inner if isinstance(inner, dict) else {}, manifest[name])
        else:
            kept[name] = value
    return kept


def _merge(live: Object, manifest: Object) -> Object:
    merged = dict(live)
    for name, value in manifest.items():
        if isinstance(value, dict) and isinstance(merged.get(name), dict):
            merged[name] = _merge(merged[name], value)
        else:
            merged[name] = deepcopy(value)
    return merged


class MemoryConnection:
    """Requests to the API server of one cluster."""

    def __init__(
        self, account: "MemoryAccount", cluster: str, server: str, fence: Callable[[], None]
    ) -> None:
        self._account = account
        self._cluster = cluster
        self._fence = fence
        self.server = server

    async def close(self) -> None:
        pass

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: dict[str, str] | None = None,
        body: Any = None,
        content_type: str = "",
        **_: Any,
    ) -> Object:
        if path == "/version":
            return {"gitVersion": "v1.33.0"}
        kube = self._account.kube
        if self._cluster not in kube.clusters:
            raise NotFound(f"cluster {self._cluster} is gone")
        api_version, plural, namespace, name = _parse(path)
        if not plural:
            return self._discover(api_version)
        key = (api_version, plural, namespace, name)
        if method == "GET":
            return self._read(key, query or {})
        self._fence()
        with self._account.write():
            if method == "DELETE":
                if key not in kube.clusters[self._cluster]:
                    raise NotFound(f"{plural} {name} not found")
                kube.remove(self._cluster, key)
                return {"kind": "Status"}
            assert (method, content_type) == ("PATCH", "application/apply-patch+yaml"), path
            assert any(kind["name"] == plural for kind in kube.served(self._cluster, api_version)), plural
            return kube.apply(self._cluster, key, body)

    def _discover(self, api_version: str) -> Object:
        served = self._account.kube.served(self._cluster, api_version)
        if not served:
            raise NotFound(f"{api_version} is not served")
        return {"resources": served}

    def _read(self, key: Key, query: dict[str, str]) -> Object:
        api_version, plural, namespace, name = key
        objects = self._account.kube.clusters[self._cluster]
        if name:
            if key not in objects:
                raise NotFound(f"{plural} {name} not found")
            return deepcopy(objects[key])
        field, _, wanted = query.get("fieldSelector", "").partition("=")
        assert field in ("", "metadata.namespace"), field
        labels = [term.split("=") for term in query.get("labelSelector", "").split(",") if term]
        items = [
            deepcopy(item)
            for other, item in objects.items()
            if other[:2] == (api_version, plural)
            and (not wanted or other[2] == wanted)
            and (not namespace or other[2] == namespace)
            and all((item["metadata"].get("labels") or {}).get(label) == value for label, value in labels)
        ]
        return {"metadata": {"resourceVersion": "1"}, "items": items}


def _parse(path: str) -> Key:
    parts = path.strip("/").split("/")
    api_version = parts[1] if parts[0] == "api" else "/".join(parts[1:3])
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    if rest[:1] == ["namespaces"] and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    else:
        namespace = ""
    plural, name = [*rest, "", ""][:2]
    return api_version, plural, namespace, name


class MemoryApiAccess(ApiAccess):
    """Access to the API server of a cluster in memory."""

    account: "MemoryAccount"

    def __init__(self, aws: Any, *, fence: Callable[[], None] = no_fence) -> None:
        super().__init__(aws, fence=fence)
        self.account = aws.session.account

    def _connection_to(self, endpoint: ApiEndpoint) -> Any:
        return MemoryConnection(self.account, self._aws.cluster, endpoint.url, self._fence)


class HelmError(DovetailError):
    """Helm's own error."""


def _chart_version(release: HelmRelease) -> str:
    """Return the version that Helm installs: a directory has one, elsewhere the newest counts."""
    return "0.1.0" if is_chart_directory(release.chart) else release.version or "9.9.9"


class MemoryHelm:
    """Stores releases as Helm does, with a few objects of their charts."""

    def __init__(self, account: "MemoryAccount", cluster: str) -> None:
        self._account = account
        self._cluster = cluster

    async def install(self, release: HelmRelease) -> None:
        kube, namespace = self._account.kube, release.namespace
        objects = kube.clusters[self._cluster]
        if ("v1", "namespaces", "", namespace) not in objects:
            raise HelmError(f'namespaces "{namespace}" not found')
        owner = {_RELEASE[0]: release.name, _RELEASE[1]: namespace}
        keys = self._objects(release)
        for key in keys:
            annotations = objects.get(key, {"metadata": {"annotations": owner}})["metadata"].get(
                "annotations"
            )
            if any((annotations or {}).get(name) != value for name, value in owner.items()):
                raise HelmError(
                    f"{key[1]} {key[3]} exists and cannot be imported: invalid ownership metadata"
                )
        with self._account.write():
            for key in self._owned(release.name, namespace):
                if key not in keys and key[:2] != _CRDS:
                    kube.remove(self._cluster, key)
            for key, manifest in keys.items():
                labels = {"app.kubernetes.io/managed-by": "Helm"}
                metadata = {"name": key[3], "labels": labels, "annotations": owner}
                if key[2]:
                    metadata["namespace"] = key[2]
                kube.put(self._cluster, key, {**manifest, "metadata": metadata})
            self._store(release)

    def _owned(self, name: str, namespace: str) -> list[Key]:
        owner = {_RELEASE[0]: name, _RELEASE[1]: namespace}
        return [
            key
            for key, item in self._account.kube.clusters[self._cluster].items()
            if owner.items() <= (item["metadata"].get("annotations") or {}).items()
        ]

    def _objects(self, release: HelmRelease) -> dict[Key, Object]:
        """Return objects of the chart: definitions, or what every controller has."""
        chart = release.chart.rpartition("/")[2]
        if not chart.endswith("-crd"):
            role = ("rbac.authorization.k8s.io/v1", "clusterroles", "", release.name)
            account = str((release.values.get("serviceAccount") or {}).get("name") or release.name)
            return {role: {}, ("v1", "serviceaccounts", release.namespace, account): {}}
        definitions: dict[Key, Object] = {}
        for api_version, kinds in DEFINITIONS.items():
            group = api_version.partition("/")[0]
            for plural, kind in kinds:
                names = {"plural": plural, "kind": kind}
                spec = {"group": group, "names": names, "versions": [{"name": "v1", "served": True}]}
                definitions[(*_CRDS, "", f"{plural}.{group}")] = {"spec": spec}
        return definitions

    def _store(self, release: HelmRelease) -> None:
        chart = release.chart.rpartition("/")[2]
        revision = {
            "name": release.name,
            "namespace": release.namespace,
            "version": 1,
            "config": dict(release.values),
            "info": {"status": "deployed", "description": f"dovetail cluster {release.owner}"},
            "chart": {"metadata": {"name": chart, "version": _chart_version(release)}},
        }
        text = b64encode(b64encode(gzip.compress(json.dumps(revision).encode(), 1))).decode()
        name = f"sh.helm.release.v1.{release.name}.v1"
        metadata = {"name": name, "namespace": release.namespace, "labels": {"owner": "helm"}}
        secret = {"metadata": metadata, "type": "helm.sh/release.v1", "data": {"release": text}}
        self._account.kube.put(self._cluster, ("v1", "secrets", release.namespace, name), secret)

    async def uninstall(self, name: str, namespace: str) -> None:
        kube = self._account.kube
        with self._account.write():
            for key in self._owned(name, namespace):
                # Definitions carry helm.sh/resource-policy: keep.
                if key[:2] != _CRDS:
                    kube.remove(self._cluster, key)
            secret = ("v1", "secrets", namespace, f"sh.helm.release.v1.{name}.v1")
            if secret in kube.clusters[self._cluster]:
                kube.remove(self._cluster, secret)
