"""Objects as Karpenter 1.14 and its chart write them, in wire format."""

from copy import deepcopy
from datetime import datetime, timedelta
from typing import Any

from dovetail.codec.crds.definitions import DEFINITIONS
from tests.support.karpenter.hashes import NODECLASS, NODEPOOL

Object = dict[str, Any]
CLUSTER, REGION, NAMESPACE = "live", "us-east-1", "kube-system"
LEASE, FINALIZER = "karpenter-leader-election", "karpenter.sh/termination"
ROLE_ARN = "arn:aws:iam::123456789012:role/KarpenterControllerRole-live"
AMI = "ami-0123456789abcdef0"
_LABELS = {"app.kubernetes.io/name": "karpenter", "app.kubernetes.io/instance": "karpenter"}
_NODECLASS_CONDITIONS = (
    "AMIsReady",
    "CapacityReservationsReady",
    "InstanceProfileReady",
    "PlacementGroupReady",
    "SecurityGroupsReady",
    "SubnetsReady",
    "ValidationSucceeded",
    "Ready",
)


def timestamp(when: datetime) -> str:
    return f"{when:%Y-%m-%dT%H:%M:%SZ}"


def conditions(*types: str, since: datetime) -> list[Object]:
    """Return true conditions; the reason is the type, and the message is empty."""
    return [
        {
            "type": kind,
            "status": "True",
            "reason": kind,
            "message": "",
            "lastTransitionTime": timestamp(since),
            "observedGeneration": 1,
        }
        for kind in types
    ]


def nodeclass(*, now: datetime, hash_version: str = NODECLASS.version, **spec: Any) -> Object:
    """Return an EC2NodeClass with hash, finalizer and a resolved status."""
    discovery = {"tags": {"karpenter.sh/discovery": CLUSTER}}
    obj: Object = {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default", "finalizers": ["karpenter.k8s.aws/termination"]},
        "spec": {
            "role": "KarpenterNodeRole-live",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [discovery],
            "securityGroupSelectorTerms": [discovery],
            **spec,
        },
        "status": {
            "subnets": [{"id": "subnet-1", "zone": f"{REGION}a", "zoneID": "use1-az1"}],
            "securityGroups": [{"id": "sg-1", "name": "nodes"}],
            "amis": [{"id": AMI, "name": "al2023", "requirements": [_in("kubernetes.io/arch", "amd64")]}],
            "instanceProfile": "live_4067990795380418201",
            "conditions": conditions(*_NODECLASS_CONDITIONS, since=now - timedelta(days=9)),
        },
    }
    annotations = {**NODECLASS.annotations_for(obj), NODECLASS.version_key: hash_version}
    obj["metadata"]["annotations"] = annotations
    return obj


def nodepool(*, now: datetime, name: str = "default", **disruption: Any) -> Object:
    """Return a NodePool of on-demand amd64 nodes with hash and status."""
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    requirements = [
        _in("kubernetes.io/arch", "amd64"),
        _in("kubernetes.io/os", "linux"),
        _in("karpenter.sh/capacity-type", "on-demand"),
        _in("karpenter.k8s.aws/instance-category", "c", "m", "r"),
    ]
    types = ("ValidationSucceeded", "NodeClassReady", "NodeRegistrationHealthy", "Ready")
    obj: Object = {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "metadata": {"labels": {"team": "platform"}},
                "spec": {"nodeClassRef": reference, "requirements": requirements, "expireAfter": "720h"},
            },
            "disruption": {
                "consolidationPolicy": "WhenEmpty",
                "consolidateAfter": "300s",
                "budgets": [{"nodes": "100%"}],
                **disruption,
            },
        },
        "status": {"conditions": conditions(*types, since=now - timedelta(days=9)), "nodes": 0},
    }
    obj["metadata"]["annotations"] = NODEPOOL.annotations_for(obj)
    return obj


def nodeclaim(
    name: str, pool: Object, node_class: Object, *, instance_types: tuple[str, ...] = ("m5.large",)
) -> Object:
    """Return a NodeClaim as the provisioner creates it, before its launch."""
    pool_name, template = pool["metadata"]["name"], pool["spec"]["template"]
    labels = {**template["metadata"]["labels"], "karpenter.sh/nodepool": pool_name}
    labels["karpenter.k8s.aws/ec2nodeclass"] = node_class["metadata"]["name"]
    requirements = [
        *(item for item in template["spec"]["requirements"]),
        _in("karpenter.sh/nodepool", pool_name),
        _in("node.kubernetes.io/instance-type", *instance_types),
    ]
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodeClaim",
        "metadata": {
            "name": name,
            "generateName": f"{pool_name}-",
            "labels": labels,
            "annotations": {
                **NODEPOOL.annotations_for(pool),
                "karpenter.sh/nodeclaim-min-values-relaxed": "false",
            },
            "finalizers": [FINALIZER],
            "ownerReferences": [
                {
                    "apiVersion": "karpenter.sh/v1",
                    "kind": "NodePool",
                    "name": pool_name,
                    "uid": pool["metadata"].get("uid", "1"),
                    "blockOwnerDeletion": True,
                }
            ],
        },
        "spec": {
            "nodeClassRef": template["spec"]["nodeClassRef"],
            "requirements": requirements,
            "resources": {"requests": {"cpu": "1", "pods": "2"}},
            "expireAfter": template["spec"]["expireAfter"],
        },
    }


def launched(
    claim: Object, node_class: Object, *, instance: str, zone: str, labels: dict[str, str]
) -> Object:
    """Return a NodeClaim with labels and annotations of its launch and registration."""
    claim = deepcopy(claim)
    meta = claim["metadata"]
    meta["labels"] |= {
        "karpenter.sh/capacity-type": "on-demand",
        "node.kubernetes.io/instance-type": instance,
        "topology.kubernetes.io/region": REGION,
        "topology.kubernetes.io/zone": zone,
        **labels,
    }
    versions = {NODECLASS.version_key: node_class["metadata"]["annotations"][NODECLASS.version_key]}
    meta["annotations"] |= NODECLASS.annotations_for(node_class) | versions
    meta["annotations"] |= {
        "karpenter.k8s.aws/instance-profile-name": node_class["status"].get("instanceProfile", ""),
        "karpenter.k8s.aws/tagged": "true",
    }
    return claim


def claim_status(
    provider_id: str,
    node: str,
    *,
    image: str,
    now: datetime,
    capacity: dict[str, str],
    allocatable: dict[str, str],
) -> Object:
    """Return the status of an initialized NodeClaim."""
    since = now - timedelta(hours=5)
    types = ("Launched", "Registered", "Initialized", "Ready", "ConsistentStateFound", "Consolidatable")
    return {
        "providerID": provider_id,
        "nodeName": node,
        "imageID": image,
        "capacity": capacity,
        "allocatable": allocatable,
        "conditions": conditions(*types, since=since),
        "lastPodEventTime": timestamp(since),
    }


def deployment(*, version: str = "1.14.1", replicas: int = 2, **variables: str) -> Object:
    """Return the Deployment of Karpenter's chart."""
    gates = "ReservedCapacity=true,SpotToSpotConsolidation=false,NodeRepair=false"
    env = {
        "KUBERNETES_MIN_VERSION": "1.19.0-0",
        "KARPENTER_SERVICE": "karpenter",
        "LOG_LEVEL": "info",
        "LOG_OUTPUT_PATHS": "stdout",
        "LOG_ERROR_OUTPUT_PATHS": "stderr",
        "METRICS_PORT": "8080",
        "HEALTH_PROBE_PORT": "8081",
        "FEATURE_GATES": gates,
        "AWS_FEATURE_GATES": "NodeClassCEL=false",
        "BATCH_MAX_DURATION": "10s",
        "BATCH_IDLE_DURATION": "1s",
        "PREFERENCE_POLICY": "Respect",
        "MIN_VALUES_POLICY": "Strict",
        "CLUSTER_NAME": CLUSTER,
        "VM_MEMORY_OVERHEAD_PERCENT": "0.075",
        "INTERRUPTION_QUEUE": CLUSTER,
        "RESERVED_ENIS": "0",
        "IGNORE_DRA_REQUESTS": "true",
        "AMI_REFRESH_INTERVAL": "1m",
        "SUBNET_REFRESH_INTERVAL": "1m",
        **variables,
    }
    container = {
        "name": "controller",
        "image": f"public.ecr.aws/karpenter/controller:{version}@sha256:{'0' * 64}",
        "env": [{"name": name, "value": value} for name, value in env.items()],
    }
    labels = {**_LABELS, "app.kubernetes.io/version": version, "helm.sh/chart": f"karpenter-{version}"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": "karpenter",
            "namespace": NAMESPACE,
            "labels": labels,
            "annotations": {"meta.helm.sh/release-name": "karpenter"},
        },
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": _LABELS},
            "template": {
                "metadata": {"labels": _LABELS},
                "spec": {"serviceAccountName": "karpenter", "containers": [container]},
            },
        },
        "status": {"readyReplicas": replicas},
    }


def service_account() -> Object:
    annotations = {"eks.amazonaws.com/role-arn": ROLE_ARN}
    meta = {"name": "karpenter", "namespace": NAMESPACE, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}


def lease(holder: str, *, renewed: datetime) -> Object:
    """Return the leader's Lease; an empty holder has released it."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": LEASE, "namespace": NAMESPACE},
        "spec": {
            "holderIdentity": holder,
            "leaseDurationSeconds": 15 if holder else 1,
            "leaseTransitions": 4,
            "acquireTime": f"{renewed:%Y-%m-%dT%H:%M:%S.%fZ}",
            "renewTime": f"{renewed:%Y-%m-%dT%H:%M:%S.%fZ}",
        },
    }


def crds() -> list[Object]:
    """Return the CustomResourceDefinitions, owned by the release karpenter-crd."""
    definitions = [deepcopy(definition.encode()) for definition in DEFINITIONS]
    for crd in definitions:
        annotations = crd["metadata"].setdefault("annotations", {})
        annotations |= {
            "meta.helm.sh/release-name": "karpenter-crd",
            "meta.helm.sh/release-namespace": NAMESPACE,
        }
        crd["status"] = {"storedVersions": [crd["spec"]["versions"][0]["name"]]}
    return definitions


def a_cluster(*, now: datetime, claims: int = 2, version: str = "1.14.1") -> list[Object]:
    """Return all objects of a small cluster that Karpenter manages."""
    node_class, pool = nodeclass(now=now), nodepool(now=now)
    objects = [deployment(version=version), service_account(), node_class, pool, *crds()]
    objects.append(lease("karpenter-6d5f_0c1d", renewed=now))
    for number in range(claims):
        claim = launched(
            nodeclaim(f"default-{number}", pool, node_class),
            node_class,
            instance="m5.large",
            zone=f"{REGION}a",
            labels={"kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux", **_M5},
        )
        provider_id, node = f"aws:///{REGION}a/i-{number:017d}", f"ip-10-0-0-{number}.ec2.internal"
        size = {"cpu": "2", "memory": "8Gi", "pods": "29"}
        claim["status"] = claim_status(provider_id, node, image=AMI, now=now, capacity=size, allocatable=size)
        objects += [claim, _node(node, provider_id, claim)]
    return objects


_M5 = {"karpenter.k8s.aws/instance-category": "m", "karpenter.k8s.aws/instance-family": "m5"}


def _node(name: str, provider_id: str, claim: Object) -> Object:
    labels = {
        **claim["metadata"]["labels"],
        "karpenter.sh/registered": "true",
        "karpenter.sh/initialized": "true",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "finalizers": [FINALIZER]},
        "spec": {"providerID": provider_id},
        "status": {"conditions": [{"type": "Ready", "status": "True"}]},
    }


def _in(key: str, *values: str) -> Object:
    return {"key": key, "operator": "In", "values": list(values)}
