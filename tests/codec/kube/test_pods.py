"""Pods and pod templates are decoded with the semantics of Kubernetes."""

from typing import Any

import pytest

from dovetail.model.kube.pod import HostPort, NodeInclusionPolicy, PodPhase, PodSpec, PodVolume
from dovetail.model.kube.requirements import Operator
from dovetail.model.kube.taints import TaintEffect
from tests.codec.sources import a_pod, dump, read_manifest

GI = 1 << 30


def the_spec(**spec: Any) -> PodSpec:
    inputs = read_manifest("", cluster=dump(a_pod(spec=spec)))
    return inputs.pending[0].spec


def a_container(**resources: Any) -> dict[str, Any]:
    return {"name": "c", "resources": resources}


def test_requests_of_containers_add_up_and_the_pod_itself_counts() -> None:
    spec = the_spec(
        containers=[
            a_container(requests={"cpu": "500m", "memory": "1Gi"}),
            a_container(requests={"cpu": 1, "nvidia.com/gpu": "1"}, limits={"nvidia.com/gpu": 1}),
        ]
    )

    assert spec.requests == {"cpu": 1500, "memory": GI, "nvidia.com/gpu": 1, "pods": 1}


def test_a_missing_request_is_its_limit() -> None:
    spec = the_spec(containers=[a_container(requests={"cpu": "1"}, limits={"memory": "2Gi"})])

    assert spec.requests == {"cpu": 1000, "memory": 2 * GI, "pods": 1}


def test_init_containers_count_with_their_maximum_and_sidecars_add_up() -> None:
    spec = the_spec(
        initContainers=[
            {"restartPolicy": "Always", **a_container(requests={"cpu": "100m"})},
            a_container(requests={"cpu": "3"}),
        ],
        containers=[a_container(requests={"cpu": "1"})],
    )

    assert spec.requests["cpu"] == 3100


def test_overhead_and_pod_level_requests_count() -> None:
    spec = the_spec(
        containers=[a_container(requests={"cpu": "1", "memory": "1Gi"})],
        resources={"requests": {"cpu": "4"}},
        overhead={"cpu": "250m", "memory": "120Mi"},
    )

    assert spec.requests["cpu"] == 4250
    assert spec.requests["memory"] == GI + (120 << 20)


def test_a_pod_level_limit_replaces_requests_that_no_container_sets() -> None:
    spec = the_spec(
        containers=[a_container(requests={"memory": "1Gi"})],
        resources={"limits": {"cpu": "2", "memory": "8Gi"}},
    )

    assert spec.requests == {"cpu": 2000, "memory": GI, "pods": 1}


def resized(**status: Any) -> int:
    pod = a_pod(
        spec={"containers": [a_container(requests={"cpu": "1"})]},
        status={"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "2"}}], **status},
    )
    return read_manifest("", cluster=dump(pod)).pending[0].spec.requests["cpu"]


def test_during_a_resize_the_maximum_of_requested_and_allocated_counts() -> None:
    assert resized() == 2000


def test_an_infeasible_resize_does_not_count() -> None:
    pod = a_pod(
        spec={"containers": [a_container(requests={"cpu": "8"})]},
        status={
            "containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}],
            "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}],
        },
    )

    assert read_manifest("", cluster=dump(pod)).pending[0].spec.requests["cpu"] == 2000
    assert resized(resize="Infeasible") == 2000


def test_the_operating_system_of_a_pod_is_a_node_selector() -> None:
    assert the_spec(os={"name": "linux"}).node_selector == {"kubernetes.io/os": "linux"}
    assert the_spec(os={"name": "windows"}, nodeSelector={"team": "a"}).node_selector == {
        "kubernetes.io/os": "windows",
        "team": "a",
    }
    assert the_spec(os={}).node_selector == {}


def test_every_term_of_node_affinity_is_decoded() -> None:
    spec = the_spec(
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
                        {"matchFields": [{"key": "f", "operator": "In", "values": ["n"]}]},
                    ]
                },
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 7,
                        "preference": {"matchExpressions": [{"key": "g", "operator": "Gt", "values": ["3"]}]},
                    }
                ],
            }
        }
    )

    first, second = spec.node_terms
    assert first.expressions[0].values == ("b",)
    assert second.fields[0].key == "f"
    assert spec.preferred_node_terms[0].weight == 7
    assert spec.preferred_node_terms[0].term.expressions[0].operator is Operator.GT


def test_match_label_keys_are_merged_into_the_selector() -> None:
    term = {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": "web"}},
        "matchLabelKeys": ["pod-template-hash", "not-there"],
        "mismatchLabelKeys": ["tenant"],
    }
    pod = a_pod(
        metadata={"labels": {"app": "web", "pod-template-hash": "1", "tenant": "x"}},
        spec={"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}},
    )

    spec = read_manifest("", cluster=dump(pod)).pending[0].spec

    selector = spec.anti_affinity[0].selector
    assert selector is not None
    assert selector.matches({"app": "web", "pod-template-hash": "1", "tenant": "y"})
    assert not selector.matches({"app": "web", "pod-template-hash": "2", "tenant": "y"})
    assert not selector.matches({"app": "web", "pod-template-hash": "1", "tenant": "x"})


def test_a_spread_keeps_its_label_keys_and_policies() -> None:
    spec = the_spec(
        topologySpreadConstraints=[
            {
                "topologyKey": "zone",
                "maxSkew": 2,
                "whenUnsatisfiable": "DoNotSchedule",
                "minDomains": 3,
                "matchLabelKeys": ["pod-template-hash"],
                "nodeTaintsPolicy": "Honor",
            }
        ]
    )

    spread = spec.spreads[0]
    assert (spread.max_skew, spread.min_domains, spread.required) == (2, 3, True)
    assert spread.match_label_keys == ("pod-template-hash",)
    assert spread.node_taints_policy is NodeInclusionPolicy.HONOR
    assert spread.selector is None


def test_host_network_makes_every_container_port_a_host_port() -> None:
    ports = [{"containerPort": 80, "hostPort": 8080, "protocol": "UDP"}, {"containerPort": 81}]
    containers = [{"name": "c", "ports": ports}]

    assert the_spec(containers=containers).host_ports == (HostPort(8080, "UDP"),)
    assert the_spec(containers=containers, hostNetwork=True).host_ports == (
        HostPort(8080, "UDP"),
        HostPort(81),
    )


def test_only_volumes_with_claims_are_decoded() -> None:
    spec = the_spec(
        volumes=[
            {"name": "a", "emptyDir": {}},
            {"name": "b", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "c", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}},
        ]
    )

    assert spec.volumes == (
        PodVolume("data"),
        PodVolume("web-c", ephemeral=True, template_storage_class="fast"),
    )


def test_tolerations_are_read_with_their_defaults() -> None:
    spec = the_spec(tolerations=[{"key": "a", "value": "b"}, {"operator": "Exists"}])

    assert [toleration.operator for toleration in spec.tolerations] == ["Equal", "Exists"]
    assert spec.tolerations[0].effect is None


def test_resource_claims_are_detected() -> None:
    assert the_spec(resourceClaims=[{"name": "gpu"}]).needs_devices


def test_a_bound_pod_is_decoded_with_its_status() -> None:
    pod = a_pod(
        metadata={
            "annotations": {
                "karpenter.sh/do-not-disrupt": "true",
                "kubectl.kubernetes.io/last-applied-configuration": "{}" * 1000,
            },
            "creationTimestamp": "2026-01-31T12:00:00Z",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Other", "name": "x"},
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "controller": True},
            ],
        },
        spec={"nodeName": "n", "priorityClassName": "system-node-critical"},
        status={"phase": "Running", "conditions": [{"type": "Ready", "status": "False"}]},
    )
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}

    read_pod = read_manifest("", cluster=dump(pod, node)).pods[0]

    assert read_pod.phase is PodPhase.RUNNING
    assert not read_pod.ready
    assert read_pod.priority == 2_000_001_000
    assert dict(read_pod.annotations) == {"karpenter.sh/do-not-disrupt": "true"}
    assert read_pod.owner is not None
    assert read_pod.owner.kind == "ReplicaSet"
    assert read_pod.created is not None
    assert read_pod.created.year == 2026


@pytest.mark.parametrize("effect", list(TaintEffect))
def test_every_effect_of_a_toleration_is_decoded(effect: TaintEffect) -> None:
    spec = the_spec(tolerations=[{"operator": "Exists", "effect": str(effect)}])

    assert spec.tolerations[0].effect is effect


def test_pods_of_one_template_share_one_spec() -> None:
    pods = [
        a_pod(
            f"web-{number}",
            spec={
                "containers": [{"name": "c", "env": [{"name": "N", "value": str(number)}]}],
                "volumes": [{"name": f"token-{number}", "projected": {}}],
            },
        )
        for number in range(50)
    ]

    inputs = read_manifest("", cluster=dump(*pods))

    assert len({id(pod.spec) for pod in inputs.pending}) == 1
