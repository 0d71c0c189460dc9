"""Objects of a soak: four NodePools, services, a database, batch work and jobs."""

from collections.abc import Mapping
from typing import Any

import msgspec

NAMESPACE = "soak"
BUDGET_PERCENT = 20
"""Of the nodes of every NodePool, outside the maintenance window."""
FREEZE_HOUR = 12
"""From 12:00 to 13:00 UTC no NodePool may begin a voluntary disruption."""
BATCH_LIMIT_CPUS = 48
BATCH_NODE_CPUS = 8
"""CPUs of the largest node that the batch pool may launch."""
BATCH_POOL = "batch"


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """A Deployment that follows the time of day."""

    name: str
    low: int
    """Replicas at night."""
    high: int
    """Replicas at noon."""
    least: int = 1
    """With fewer, the PodDisruptionBudget would allow no eviction."""

    def replicas(self, daily_load: float, share: float) -> int:
        """Return the replicas at a load of the day, for a share of the usual pods."""
        return max(self.least, round((self.low + (self.high - self.low) * daily_load) * share))


SERVICES = (
    Service(name="web", low=30, high=80, least=5),
    Service(name="api", low=30, high=70),
    Service(name="cache", low=10, high=14),
)


def soak_objects(*, load: float = 1.0) -> tuple[dict[str, Any], ...]:
    """Return all objects, in the order in which they are applied.

    With ``load``, services have that share of their replicas.
    """
    replicas = {service.name: service.replicas(0, load) for service in SERVICES}
    return (
        _NODE_CLASS,
        _pool("general", capacity_types=["spot", "on-demand"], consolidate_after="15m"),
        _pool("database", tainted=True, expire_after="36h", grace="10m", consolidate_after="5m"),
        _pool(BATCH_POOL, tainted=True, policy="WhenEmpty", limits={"cpu": str(BATCH_LIMIT_CPUS)}),
        static_pool(2),
        _DAEMON_SET,
        *_service("web", replicas, cpu="900m", memory="1Gi", budget={"minAvailable": "80%"}, spread="zone"),
        *_service("api", replicas, cpu="1400m", memory="2Gi", budget={"maxUnavailable": "20%"}),
        *_service("cache", replicas, cpu="600m", memory="3Gi", budget={"maxUnavailable": 1}, apart=True),
        *_DATABASE,
        _deployment(
            BATCH_POOL,
            _pod_spec(cpu="3300m", memory="4Gi", pool=BATCH_POOL, terminationGracePeriodSeconds=60),
            replicas=4,
        ),
        _cron_job(),
    )


def static_pool(replicas: int) -> dict[str, Any]:
    """Return the static NodePool."""
    pool = _pool("static", tainted=True, consolidate_after="Never")
    pool["spec"]["replicas"] = replicas
    del pool["spec"]["disruption"]["consolidationPolicy"]
    return pool


def burst_job(number: int, *, pods: int) -> dict[str, Any]:
    """Return a Job whose pods must not be disrupted while they run."""
    annotations = {"karpenter.sh/do-not-disrupt": "true"}
    spec = _pod_spec(cpu="1", memory="2Gi", restartPolicy="Never")
    template = {"metadata": {"labels": {"app": "burst"}, "annotations": annotations}, "spec": spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": f"burst-{number}", "namespace": NAMESPACE},
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "backoffLimit": 1000,
            "ttlSecondsAfterFinished": 600,
            "template": template,
        },
    }


def _pool(
    name: str,
    *,
    tainted: bool = False,
    capacity_types: list[str] | None = None,
    expire_after: str = "720h",
    grace: str | None = None,
    policy: str = "WhenEmptyOrUnderutilized",
    consolidate_after: str = "1m",
    limits: dict[str, str] | None = None,
) -> dict[str, Any]:
    values = {
        "kubernetes.io/arch": ["amd64"],
        "karpenter.sh/capacity-type": capacity_types or ["on-demand"],
        "karpenter.k8s.aws/instance-category": ["c", "m", "r"],
        "karpenter.k8s.aws/instance-cpu": ["2", "4", str(BATCH_NODE_CPUS)],
    }
    spec: dict[str, Any] = {
        "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
        "requirements": [{"key": key, "operator": "In", "values": value} for key, value in values.items()],
        "expireAfter": expire_after,
    }
    if tainted:
        spec["taints"] = [{"key": "dedicated", "value": name, "effect": "NoSchedule"}]
    if grace is not None:
        spec["terminationGracePeriod"] = grace
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {"metadata": {"labels": {"pool": name}}, "spec": spec},
            "disruption": {
                "consolidationPolicy": policy,
                "consolidateAfter": consolidate_after,
                "budgets": [
                    {"nodes": f"{BUDGET_PERCENT}%"},
                    {"nodes": "0", "schedule": f"0 {FREEZE_HOUR} * * *", "duration": "1h"},
                ],
            },
            **({"limits": limits} if limits else {}),
        },
    }


def _pod_spec(*, cpu: str, memory: str, pool: str = "general", **more: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    toleration = {"key": "dedicated", "value": pool, "effect": "NoSchedule"}
    return {"nodeSelector": {"pool": pool}, "tolerations": [toleration], "containers": [container], **more}


def _service(
    name: str,
    replicas: Mapping[str, int],
    *,
    cpu: str,
    memory: str,
    budget: dict[str, Any],
    spread: str = "",
    apart: bool = False,
) -> list[dict[str, Any]]:
    labels = {"matchLabels": {"app": name}}
    spec = _pod_spec(cpu=cpu, memory=memory)
    if spread:
        spec["topologySpreadConstraints"] = [
            {
                "maxSkew": 1,
                "topologyKey": f"topology.kubernetes.io/{spread}",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": labels,
            }
        ]
    if apart:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": labels}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return [_budget(name, budget), _deployment(name, spec, replicas=replicas[name])]


def _budget(name: str, budget: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {**budget, "selector": {"matchLabels": {"app": name}}},
    }


def _deployment(name: str, spec: dict[str, Any], *, replicas: int) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    }


def _cron_job() -> dict[str, Any]:
    spec = _pod_spec(cpu="500m", memory="1Gi", restartPolicy="OnFailure")
    template = {"metadata": {"labels": {"app": "report"}}, "spec": spec}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "report", "namespace": NAMESPACE},
        "spec": {"schedule": "*/20 * * * *", "jobTemplate": {"spec": {"template": template}}},
    }


_TERMS = [{"tags": {"karpenter.sh/discovery": "soak"}}]
_NODE_CLASS = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "default"},
    "spec": {
        "role": "KarpenterNodeRole",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": _TERMS,
        "securityGroupSelectorTerms": _TERMS,
    },
}
_DAEMON_SET = {
    "apiVersion": "apps/v1",
    "kind": "DaemonSet",
    "metadata": {"name": "agent", "namespace": NAMESPACE},
    "spec": {
        "selector": {"matchLabels": {"app": "agent"}},
        "template": {
            "metadata": {"labels": {"app": "agent"}},
            "spec": {
                "tolerations": [{"operator": "Exists"}],
                "containers": [
                    {
                        "name": "agent",
                        "image": "agent",
                        "resources": {"requests": {"cpu": "50m", "memory": "64Mi"}},
                    }
                ],
            },
        },
    },
}
_DATABASE = (
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "gp3"},
        "provisioner": "ebs.csi.aws.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    },
    _budget("database", {"maxUnavailable": 1}),
    {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "database", "namespace": NAMESPACE},
        "spec": {
            "replicas": 3,
            "serviceName": "database",
            "selector": {"matchLabels": {"app": "database"}},
            "template": {
                "metadata": {"labels": {"app": "database"}},
                "spec": _pod_spec(cpu="1500m", memory="4Gi", pool="database"),
            },
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "data"},
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "storageClassName": "gp3",
                        "resources": {"requests": {"storage": "20Gi"}},
                    },
                }
            ],
        },
    },
)
