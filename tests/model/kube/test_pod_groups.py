"""Groups of equivalent pods."""

import gc
import weakref

import pytest

from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Pod, PodSpec
from dovetail.model.kube.pod_groups import equivalence_key, group_pods
from dovetail.model.kube.resources import Resources


def a_pod(name: str, *, app: str = "web", cpu: str = "1") -> Pod:
    spec = PodSpec(requests=Resources.parse({"cpu": cpu}))
    return Pod(name=name, namespace="default", uid=name, labels=FrozenDict({"app": app}), spec=spec)


def test_equivalent_pods_share_a_key() -> None:
    first, second, other = a_pod("a"), a_pod("b"), a_pod("c", cpu="2")

    assert equivalence_key(first) is equivalence_key(second)
    assert equivalence_key(first) != equivalence_key(other)
    assert [len(group.pods) for group in group_pods([first, other, second])] == [2, 1]


@pytest.mark.parametrize("grouped", [False, True])
def test_the_spec_of_a_deleted_pod_is_freed(grouped: bool) -> None:
    pod = a_pod("gone", app=f"grouped-{grouped}")
    spec = weakref.ref(pod.spec)
    groups = group_pods([pod]) if grouped else equivalence_key(pod)

    del pod, groups
    gc.collect()

    assert spec() is None
