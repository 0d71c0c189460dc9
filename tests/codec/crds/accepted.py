"""Objects and changes that are right, some of them only just."""

from typing import NamedTuple

from dovetail.model import labels as keys
from tests.codec.crds.objects import (
    CLASS_REF,
    Object,
    a_buffer,
    a_claim,
    a_class,
    a_pool,
    an_overlay,
    requirement,
    with_amis,
    with_budget,
    with_disks,
    with_interfaces,
    with_labels,
    with_requirements,
    with_template,
)

_TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}
_FAMILIES = ("AL2", "AL2023", "Bottlerocket", "Windows2019", "Windows2022", "Windows2025")
_AWS = sorted(label for label in keys.WELL_KNOWN if label.startswith("karpenter.k8s.aws/"))

POOLS: dict[str, Object] = {
    "the least": a_pool(),
    "every duration": a_pool(disruption={"consolidateAfter": "1h30m20s"}),
    "never": a_pool(disruption={"consolidateAfter": "Never", "budgets": []}),
    "each policy": a_pool(disruption={"consolidationPolicy": "Balanced"}),
    "a budget for two reasons": with_budget(nodes="0", reasons=["Empty", "Drifted"]),
    "a budget at night": with_budget(nodes="100%", schedule="0 22 * * 1-5", duration="8h30m"),
    "a budget each day": with_budget(schedule="@daily", duration="1h0m0s"),
    "limits": a_pool(limits={"cpu": 100, "memory": "1.5Ti", "nvidia.com/gpu": "8"}, weight=100),
    "a static pool": a_pool(replicas=0, limits={"nodes": "10"}),
    "a static pool without limits": a_pool(replicas=3, limits={}),
    "labels": with_labels(
        {"team": "", "kubernetes.io/role": "a", "kops.k8s.io/x": "a", "karpenter.sh/capacity-type": "spot"}
    ),
    "labels of AWS": with_labels({"karpenter.k8s.aws/instance-category": "c"}),
    "taints": with_template(
        taints=[_TAINT, {**_TAINT, "effect": "NoExecute"}, {"key": "a/b", "effect": "NoSchedule"}],
        startupTaints=[{"key": "cilium", "value": "", "effect": "NoExecute"}],
        expireAfter="Never",
        terminationGracePeriod="0s",
    ),
    "another kind of AWS": with_template(nodeClassRef={**CLASS_REF, "kind": "NewNodeClass"}),
    "another cloud": with_template(nodeClassRef={"group": "example.com", "kind": "A", "name": "b"}),
    "60 values": with_requirements(requirement("team", "In", *(f"a{n}" for n in range(60)))),
    "well-known labels": with_requirements(*(requirement(key, "Exists") for key in _AWS)),
    "known and unknown capacity types": with_requirements(
        requirement("karpenter.sh/capacity-type", "In", "spot", "on_demand"),
        requirement("karpenter.k8s.aws/instance-tenancy", "In", "dedicated", "host"),
        requirement("karpenter.sh/capacity-type", "NotIn", "none"),
    ),
    "labels of Kubernetes": with_requirements(
        *(
            requirement(key, "In", "a")
            for key in (
                "kubernetes.io/arch",
                "beta.kubernetes.io/arch",
                "node.kubernetes.io/instance-type",
                "topology.kubernetes.io/zone",
                "failure-domain.beta.kubernetes.io/zone",
                "node-restriction.kubernetes.io/x",
                "k8s.io/x",
            )
        )
    ),
    "numbers": with_requirements(
        requirement("karpenter.k8s.aws/instance-cpu", "Gt", "0"),
        requirement("karpenter.k8s.aws/instance-cpu", "Lte", "64"),
        requirement("karpenter.k8s.aws/instance-memory", "Gte", "1024", minValues=1),
        requirement("karpenter.k8s.aws/instance-memory", "Lt", "999999999"),
        requirement("karpenter.k8s.aws/instance-family", "Exists", minValues=50),
        requirement("karpenter.k8s.aws/instance-size", "In", "a", "b", minValues=2),
    ),
}
CLAIMS: dict[str, Object] = {
    "the least": a_claim(),
    "a claim of a pool": a_claim(
        requirements=[
            requirement("karpenter.sh/nodepool", "In", "default"),
            requirement("node.kubernetes.io/instance-type", "In", *(f"m{n}.large" for n in range(1000))),
        ],
        resources={"requests": {"cpu": "150m", "memory": "1Gi", "pods": "3"}},
        taints=[_TAINT],
    ),
}
CLASSES: dict[str, Object] = {
    "the least": a_class(),
    "a profile": a_class(role=None, instanceProfile="p"),
    **{f"{family} by id": with_amis({"id": "ami-1"}, family=family) for family in (*_FAMILIES, "Custom")},
    **{
        f"{family} by alias": with_amis({"alias": f"{family.lower()}@latest"}, family=beside)
        for family in _FAMILIES
        for beside in (family, None, "Custom")
    },
    "a version": with_amis({"alias": "bottlerocket@v1.20.0"}, family=None),
    "names and owners": with_amis(
        {"name": "a*", "owner": "self"},
        {"owner": "012345678901", "tags": {"a": "*"}},
        {"ssmParameter": "/my/image"},
    ),
    "tags": a_class(tags={"karpenter.sh/custom-key": "a", "kubernetes.io/role/key": "", "Name": "a"}),
    "some terms mixed": a_class(
        subnetSelectorTerms=[{"id": "subnet-1"}, {"id": "subnet-2", "tags": {"a": "b"}}],
        securityGroupSelectorTerms=[{"name": "a"}, {"id": "sg-2", "name": "b"}],
    ),
    "reservations": a_class(
        capacityReservationSelectorTerms=[
            {"id": "cr-1"},
            {"ownerID": "012345678901", "tags": {"a": "*"}},
            {"instanceMatchCriteria": "targeted"},
        ]
    ),
    "no reservations": a_class(capacityReservationSelectorTerms=[]),
    "a placement group": a_class(placementGroupSelector={"id": "pg-0a1b"}),
    **{
        f"a disk of {size}": with_disks({"volumeSize": size})
        for size in ("1Gi", "59000Gi", "1G", "64000G", "18Ti", "58Ti", "64T")
    },
    "a disk of a snapshot": with_disks(
        {"snapshotID": "snap-1", "volumeInitializationRate": 300, "volumeType": "io2", "iops": 100}
    ),
    "no disk": a_class(blockDeviceMappings=[{"deviceName": "/dev/xvda", "rootVolume": True}]),
    "interfaces": with_interfaces(
        (0, 0, "interface"), (0, 1, "efa-only"), (1, 0, "interface"), (1, 1, "efa-only")
    ),
    "no interfaces": a_class(networkInterfaces=[]),
    "the rest": a_class(
        context="a",
        userData="#!/bin/sh\n",
        instanceStorePolicy="RAID0",
        detailedMonitoring=True,
        associatePublicIPAddress=False,
        ipPrefixCount=0,
        connectionTracking={"tcpEstablishedTimeout": 60, "udpTimeout": 60},
        cpuOptions={"nestedVirtualization": "enabled"},
        metadataOptions={"httpPutResponseHopLimit": 64, "httpTokens": "optional"},
    ),
    "kubelet-expressions": a_class(
        kubelet={
            "maxPods": "-2 + min(110, default_enis * (ips_per_eni - 1))",
            "kubeReserved": {"cpu": "max(60, vcpus * 30)", "memory": "11 * max_pods + 255"},
            "systemReserved": {"ephemeral-storage": "instance_type.startsWith('m5') ? 2 : 1", "pid": 100},
        }
    ),
    "kubelet-open": a_class(kubelet={"shutdownGracePeriod": "30s", "aFieldOfTomorrow": {"deep": 1}}),
    "kubelet": a_class(
        kubelet={
            "clusterDNS": ["10.0.1.100"],
            "maxPods": 110,
            "podsPerCore": 0,
            "systemReserved": {"cpu": "100m", "memory": "1Gi", "pid": 100},
            "kubeReserved": {"ephemeral-storage": "3Gi"},
            "evictionHard": {"memory.available": "100.0%", "nodefs.available": "100Mi"},
            "evictionSoft": {"memory.available": "10.5%"},
            "evictionSoftGracePeriod": {"memory.available": "1m30.5s"},
            "evictionMaxPodGracePeriod": 60,
            "imageGCHighThresholdPercent": 85,
            "imageGCLowThresholdPercent": 80,
            "cpuCFSQuota": True,
            "topologyManagerPolicy": "single-numa-node",
        }
    ),
}
OVERLAYS: dict[str, Object] = {
    "the least": an_overlay(),
    "a price": an_overlay(price="0.25", weight=10_000),
    **{
        f"by {change}": an_overlay(priceAdjustment=change)
        for change in ("+10%", "-10%", "-99.5%", "-100%", "+0.5", "-3", "+.5")
    },
    "capacity": an_overlay(
        capacity={"smarter-devices/fuse": 1},
        requirements=[
            requirement("karpenter.sh/nodepool", "In", "default"),
            requirement("karpenter.k8s.aws/instance-family", "NotIn", "m5"),
        ],
    ),
}
BUFFERS: dict[str, Object] = {
    "of a template": a_buffer(podTemplateRef={"name": "a"}, replicas=3),
    "of a template, by limits": a_buffer(podTemplateRef={"name": "a"}, limits={"cpu": "10"}),
    "of a workload": a_buffer(
        scalableRef={"apiGroup": "apps", "kind": "Deployment", "name": "a"}, percentage=20
    ),
}

ACCEPTED: list[tuple[str, Object]] = [
    (f"{obj['kind']}, {what}", obj)
    for kind in (POOLS, CLAIMS, CLASSES, OVERLAYS, BUFFERS)
    for what, obj in kind.items()
]


class Change(NamedTuple):
    description: str
    before: Object
    after: Object


ALLOWED_CHANGES = [
    Change("a static pool grows", a_pool(replicas=1), a_pool(replicas=5)),
    Change(
        "a static pool gets another limit",
        a_pool(replicas=1, limits={"nodes": 1}),
        a_pool(replicas=1, limits={"nodes": 9}),
    ),
    Change("a pool gets another class", a_pool(), with_template(nodeClassRef={**CLASS_REF, "name": "b"})),
    Change("a class gets another role", a_class(), a_class(role="others")),
    Change("a class changes from role to profile", a_class(), a_class(role=None, instanceProfile="p")),
]
