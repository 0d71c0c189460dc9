"""Groups of running pods that will be rescheduled, over many snapshots."""

import gc
import weakref

from dovetail.core.scheduling.pods.pending import reschedulable_groups
from dovetail.model.frozen import FrozenDict
from dovetail.model.kube.pod import Pod
from dovetail.model.kube.selectors import LabelSelector
from dovetail.model.kube.workloads import PodDisruptionBudget
from tests.support.scheduling.builders import a_node, a_pod, cluster, owned_by

SNAPSHOTS = 250
"""More than twice as many as a group of pods is remembered for."""


def a_job_pod(job: str) -> Pod:
    """Return a pod whose labels name its Job, so that pods of two Jobs are never equivalent."""
    return a_pod(job, labels={"job-name": job}, owner=owned_by("Job", job))


def find_groups(*pods: Pod, blocked: str = "") -> list[str]:
    """Return the pods of a node that will be rescheduled; ``blocked`` ones have a budget of 0."""
    selector = LabelSelector(match_labels=FrozenDict({"job-name": blocked}))
    budget = PodDisruptionBudget(namespace="default", name="none", selector=selector, max_unavailable="0")
    node = a_node("n1", pods=pods)
    get_groups = reschedulable_groups(cluster(nodes=[node], pod_disruption_budgets=[budget]))
    return [pod.name for _, members in get_groups(node) for pod in members]


def test_pods_of_former_jobs_are_freed() -> None:
    pod = a_job_pod("former")
    spec = weakref.ref(pod.spec)
    assert find_groups(pod) == ["former"]

    del pod
    for _ in range(SNAPSHOTS):
        find_groups(a_job_pod("current"))
    gc.collect()

    assert spec() is None


def test_a_group_is_found_in_every_snapshot_and_one_that_a_budget_keeps_in_none() -> None:
    pods = a_job_pod("free"), a_job_pod("kept")

    outcomes = {tuple(find_groups(*pods, blocked="kept")) for _ in range(SNAPSHOTS)}

    assert outcomes == {("free",)}
