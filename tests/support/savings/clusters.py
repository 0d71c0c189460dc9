"""Dumps of node groups whose pods have rules: anti-affinity, spread, volumes, protection."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from bench.node_group_cluster import NOW, node_group_cluster

Object = dict[str, Any]
ChangeSpec = Callable[[Object, str], None]
"""Changes the spec of a pod of an app."""

OLD = "2026-09-01T00:00:00Z"
"""Creation time of nodes that fleet replacement may replace."""


def cluster_with_rules(nodes: int, pods: int, seed: int, rules: Iterable[str]) -> list[Object]:
    """Return an on-demand cluster; ``rules`` are functions of this module by name."""
    objects = node_group_cluster(nodes, pods, seed)
    for node in of_kind(objects, "Node"):
        node["metadata"]["labels"]["eks.amazonaws.com/capacityType"] = "ON_DEMAND"
    for rule in rules:
        objects = RULES[rule](objects)
    _count_replicas(objects)
    return objects


def of_kind(objects: Iterable[Object], kind: str) -> list[Object]:
    return [obj for obj in objects if obj["kind"] == kind]


def age_nodes(objects: list[Object]) -> list[Object]:
    """Return nodes that are old enough for fleet replacement."""
    for node in of_kind(objects, "Node"):
        node["metadata"]["creationTimestamp"] = OLD
    return objects


def drop_budgets(objects: list[Object]) -> list[Object]:
    """Return the cluster without PodDisruptionBudgets."""
    return [obj for obj in objects if obj["kind"] != "PodDisruptionBudget"]


def spread_over_zones(objects: list[Object]) -> list[Object]:
    """Spread every fourth app over zones."""

    def change(spec: Object, app: str) -> None:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 2,
                "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": app}},
            }
        ]

    _change_specs(objects, _list_apps(objects)[2::4], change)
    return objects


def separate_pods(objects: list[Object]) -> list[Object]:
    """Keep one pod per node of every fourth app, with anti-affinity to the others."""
    apps = set(_list_apps(objects)[1::4])
    seen: set[tuple[str, str]] = set()
    kept = []
    for obj in objects:
        app = _get_app(obj) if obj["kind"] == "Pod" else ""
        if app in apps:
            place = (app, obj["spec"]["nodeName"])
            if place in seen:
                continue
            seen.add(place)
        kept.append(obj)

    def change(spec: Object, app: str) -> None:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": app}}}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}

    _change_specs(kept, apps, change)
    return kept


def protect_pods(objects: list[Object]) -> list[Object]:
    """Annotate the first pod of every sixth app with do-not-disrupt."""
    apps = set(_list_apps(objects)[3::6])
    for pod in of_kind(objects, "Pod"):
        if _get_app(pod) in apps:
            apps.remove(_get_app(pod))
            pod["metadata"]["annotations"] = {"karpenter.sh/do-not-disrupt": "true"}
    return objects


def add_volumes(objects: list[Object]) -> list[Object]:
    """Add a StatefulSet with a zonal volume and a pod on every third node."""
    nodes = of_kind(objects, "Node")[::3]
    spec = {
        "containers": [
            {
                "name": "main",
                "image": "redis:7",
                "resources": {"requests": {"cpu": "300m", "memory": "512Mi"}},
            }
        ]
    }
    stateful_set = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": _meta("db", "data"),
        "spec": {
            "replicas": len(nodes),
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": spec},
            "volumeClaimTemplates": [
                {"metadata": {"name": "data"}, "spec": {**_VOLUME, "resources": _STORAGE}}
            ],
        },
    }
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": _meta("gp3"),
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    added: list[Object] = [stateful_set, storage_class]
    for number, node in enumerate(nodes):
        zone = node["metadata"]["labels"]["topology.kubernetes.io/zone"]
        added += [*_volume(number, zone), _stateful_pod(number, node["metadata"]["name"], spec)]
    return [*objects, *added]


RULES: dict[str, Callable[[list[Object]], list[Object]]] = {
    "old": age_nodes,
    "no-budgets": drop_budgets,
    "spread": spread_over_zones,
    "separate": separate_pods,
    "protect": protect_pods,
    "volumes": add_volumes,
}

_VOLUME: Object = {"accessModes": ["ReadWriteOnce"], "storageClassName": "gp3"}
_STORAGE: Object = {"requests": {"storage": "10Gi"}}


def _volume(number: int, zone: str) -> list[Object]:
    claim, volume = f"data-db-{number}", f"pv-{number}"
    in_zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": [zone]}
    return [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": _meta(volume),
            "spec": {
                **_VOLUME,
                "capacity": {"storage": "10Gi"},
                "csi": {"driver": "ebs.csi.aws.com", "volumeHandle": f"vol-{number:017x}"},
                "claimRef": {"kind": "PersistentVolumeClaim", "namespace": "data", "name": claim},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [in_zone]}]}},
            },
            "status": {"phase": "Bound"},
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {**_meta(claim, "data"), "annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {**_VOLUME, "volumeName": volume, "resources": _STORAGE},
            "status": {"phase": "Bound"},
        },
    ]


def _stateful_pod(number: int, node: str, spec: Object) -> Object:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "controller": True}
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": f"data-db-{number}"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **_meta(f"db-{number}", "data"),
            "labels": {"app": "db", "statefulset.kubernetes.io/pod-name": f"db-{number}"},
            "ownerReferences": [{**owner, "uid": _meta("db", "data")["uid"]}],
        },
        "spec": {**spec, "nodeName": node, "volumes": [volume]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    }


def _meta(name: str, namespace: str = "") -> Object:
    scope = {"namespace": namespace} if namespace else {}
    return {"name": name, **scope, "uid": f"uid-{namespace}-{name}", "creationTimestamp": NOW}


def _get_app(obj: Object) -> str:
    return str((obj["metadata"].get("labels") or {}).get("app", ""))


def _list_apps(objects: Iterable[Object]) -> list[str]:
    """Return the apps with running pods."""
    apps = dict.fromkeys(_get_app(pod) for pod in of_kind(objects, "Pod"))
    return [app for app in apps if app.startswith("app-")]


def _change_specs(objects: Iterable[Object], apps: Iterable[str], change: ChangeSpec) -> None:
    """Change the pods of apps, and the templates of their controllers."""
    chosen = set(apps)
    for obj in objects:
        if obj["kind"] == "Pod" and _get_app(obj) in chosen:
            change(obj["spec"], _get_app(obj))
        elif obj["kind"] in ("Deployment", "ReplicaSet"):
            app = obj["spec"]["selector"]["matchLabels"]["app"]
            if app in chosen:
                change(obj["spec"]["template"]["spec"], app)


def _count_replicas(objects: Iterable[Object]) -> None:
    """Set replicas and the status of PodDisruptionBudgets to the number of running pods."""
    running = Counter(_get_app(pod) for pod in of_kind(objects, "Pod"))
    for obj in objects:
        if obj["kind"] in ("Deployment", "ReplicaSet"):
            obj["spec"]["replicas"] = running[obj["spec"]["selector"]["matchLabels"]["app"]]
        elif obj["kind"] == "PodDisruptionBudget":
            count = running[obj["metadata"]["name"]]
            desired = max(0, count - obj["spec"]["maxUnavailable"])
            obj["status"] |= {"currentHealthy": count, "expectedPods": count, "desiredHealthy": desired}
