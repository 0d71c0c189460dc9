"""Number of virtual pods of a CapacityBuffer: CB2 and X4 of the checklists."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.codec.karpenter.capacitybuffers import buffer_pods
from dovetail.core.capacitybuffer import count_buffer_pods
from dovetail.model.karpenter.capacitybuffer import CapacityBuffer, is_buffer_pod
from dovetail.model.kube.resources import Resources

POD = Resources.parse({"cpu": "500m", "memory": "1Gi"})


def a_buffer(**fields: Any) -> CapacityBuffer:
    if "limits" in fields:
        fields["limits"] = Resources.parse(fields["limits"])
    return CapacityBuffer(name="web", namespace="shop", uid="u", **fields)


@pytest.mark.parametrize(
    ("fields", "workload", "expected"),
    [
        ({"replicas": 3}, 10, 3),
        ({"percentage": 25}, 10, 3),
        ({"percentage": 1}, 1, 1),
        ({"percentage": 50}, 0, 0),
        ({"percentage": 0}, 10, 0),
        ({"replicas": 2, "percentage": 50}, 10, 5),
        ({"replicas": 8, "percentage": 50}, 10, 8),
        ({"replicas": 8, "limits": {"cpu": 2}}, 1, 4),
        ({"limits": {"cpu": 2, "memory": "3Gi"}}, 1, 3),
        ({"limits": {"nvidia.com/gpu": 1}}, 1, 0),
        ({"replicas": 8, "limits": {"nvidia.com/gpu": 1}}, 1, 8),
        ({"replicas": 0}, 5, 0),
    ],
)
def test_larger_of_replicas_and_percentage_counts_within_limits(
    fields: dict[str, Any], workload: int, expected: int
) -> None:
    assert count_buffer_pods(a_buffer(**fields), workload_pods=workload, requests=POD) == expected


@given(st.integers(0, 50), st.integers(0, 300), st.integers(0, 100), st.integers(0, 20))
def test_buffer_never_exceeds_its_limits(replicas: int, percentage: int, workload: int, cores: int) -> None:
    buffer = a_buffer(replicas=replicas, percentage=percentage, limits={"cpu": cores})

    count = count_buffer_pods(buffer, workload_pods=workload, requests=POD)

    assert count * POD["cpu"] <= buffer.limits["cpu"]
    assert count <= max(replicas, -(-workload * percentage // 100))


def test_virtual_pods_equal_the_template_without_owner_and_with_lowest_priority() -> None:
    template = {
        "metadata": {"labels": {"app": "web"}, "annotations": {"note": "x"}},
        "spec": {
            "nodeName": "somewhere",
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "500m"}}}],
            "volumes": [
                {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                {"name": "own", "ephemeral": {}},
                {"name": "settings", "configMap": {"name": "settings"}},
            ],
        },
    }

    first, second = buffer_pods(a_buffer(replicas=2), template, 2)

    assert (first.name, second.name) == ("capacity-buffer-web-1", "capacity-buffer-web-2")
    assert (first.uid, second.uid) == ("u-1", "u-2")
    assert first.labels == {"app": "web"}
    assert first.annotations["note"] == "x"
    assert first.spec == second.spec
    assert first.spec.volumes == ()
    assert first.node_name == ""
    assert first.priority == -(2**31)
    assert first.unschedulable
    assert is_buffer_pod(first)
