"""``dovetail simulate`` reads autoscalers and Rollouts, and prices Jobs by their duration."""

import json
from pathlib import Path
from textwrap import dedent

import pytest
import yaml

from tests.cli.runs import POOL, WEB, simulate

HPA = """
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web, namespace: shop}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  minReplicas: 2
  maxReplicas: 12
"""
SCALED_OBJECT = """
apiVersion: keda.sh/v1alpha1
kind: ScaledObject
metadata: {name: web, namespace: shop}
spec: {scaleTargetRef: {name: web}, maxReplicaCount: 7, triggers: [{type: cron}]}
"""
ROLLOUT = WEB.replace("apps/v1", "argoproj.io/v1alpha1").replace("kind: Deployment", "kind: Rollout")
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: report}
spec:
  activeDeadlineSeconds: 1800
  template:
    spec:
      restartPolicy: Never
      containers: [{name: report, image: report, resources: {requests: {cpu: 3, memory: 8Gi}}}]
"""


def planned_pods(tmp_path: Path, *texts: str, replicas: str = "spec") -> int:
    result = simulate(tmp_path, *texts, POOL, args=("-o", "json", "--replicas", replicas))
    assert result.exit_code == 0, result.output
    return int(json.loads(result.stdout)["totals"]["pods"])


@pytest.mark.parametrize(("replicas", "pods"), [("spec", 3), ("min", 2), ("max", 12)])
def test_the_range_of_a_horizontal_pod_autoscaler_counts(tmp_path: Path, replicas: str, pods: int) -> None:
    assert planned_pods(tmp_path, WEB, HPA, replicas=replicas) == pods


@pytest.mark.parametrize(("replicas", "pods"), [("spec", 3), ("min", 0), ("max", 7)])
def test_the_range_of_a_scaled_object_counts(tmp_path: Path, replicas: str, pods: int) -> None:
    assert planned_pods(tmp_path, WEB, SCALED_OBJECT, replicas=replicas) == pods


def test_replicas_below_the_minimum_are_planned_as_the_minimum(tmp_path: Path) -> None:
    result = simulate(tmp_path, WEB, HPA.replace("minReplicas: 2", "minReplicas: 5"), POOL)

    assert "web × 5" in result.stdout
    assert "web 5 (5 to 12)" in result.stdout
    assert "ignored" not in result.stdout


def test_a_rollout_has_pods_like_a_deployment(tmp_path: Path) -> None:
    assert planned_pods(tmp_path, ROLLOUT) == 3


def test_an_autoscaler_without_its_target_is_named(tmp_path: Path) -> None:
    result = simulate(tmp_path, WEB, HPA.replace("name: web}\n  min", "name: other}\n  min"), POOL)

    assert "autoscalers whose target is not given: HorizontalPodAutoscaler shop/web" in result.stdout


def test_a_wrong_range_is_an_error_with_its_line(tmp_path: Path) -> None:
    result = simulate(tmp_path, WEB, HPA.replace("minReplicas: 2", "minReplicas: 20"), POOL)

    assert result.exit_code == 1
    assert "spec.maxReplicas: is 12, but the minimum is 20" in result.stderr


def test_nodes_of_jobs_are_priced_for_a_run_and_not_for_a_month(tmp_path: Path) -> None:
    table = simulate(tmp_path, JOB, POOL)
    totals = json.loads(simulate(tmp_path, JOB, POOL, args=("-o", "json")).stdout)["totals"]

    assert totals["price_per_month"] == 0
    assert totals["jobs"]["hours"] == 0.5
    assert totals["jobs"]["price_per_run"] == pytest.approx(totals["price_per_hour"] / 2, rel=1e-3)
    assert "per month" not in table.stdout
    assert "1 node for Jobs only: $" in table.stdout


def test_jobs_on_nodes_with_other_pods_are_named_because_the_month_counts_them(tmp_path: Path) -> None:
    small = JOB.replace("cpu: 3, memory: 8Gi", "cpu: 100m, memory: 64Mi")

    shared = simulate(tmp_path, small, WEB, POOL)

    assert "of Jobs on new nodes with other pods: " in shared.stdout
    assert "amounts per month count these nodes in full, also after the Jobs end" in shared.stdout


def test_the_duration_of_jobs_without_a_deadline_can_be_given(tmp_path: Path) -> None:
    open_ended = JOB.replace("  activeDeadlineSeconds: 1800\n", "")

    result = simulate(tmp_path, open_ended, POOL, args=("-o", "json", "--job-duration", "4h"))

    assert json.loads(result.stdout)["totals"]["jobs"]["hours"] == 4


@pytest.mark.parametrize(
    ("name", "special"),
    [
        ("nvidia.com/gpu", "resources: {limits: {nvidia.com/gpu: 1}}"),
        ("aws.amazon.com/neuron", "resources: {limits: {aws.amazon.com/neuron: 1}}"),
        ("Windows", ""),
    ],
)
def test_the_nodepool_that_is_suggested_for_special_pods_has_nodes_for_them(
    tmp_path: Path, name: str, special: str
) -> None:
    selector = "nodeSelector: {kubernetes.io/os: windows}" if name == "Windows" else ""
    pod = dedent(f"""
        apiVersion: v1
        kind: Pod
        metadata: {{name: special}}
        spec:
          {selector}
          containers:
            - name: main
              image: app
              {special}
        """)

    refused = simulate(tmp_path, pod, POOL)
    _, _, rest = refused.stdout.partition(f"A NodePool for {name} that would have nodes for them:\n")
    assert "&id" not in rest, "YAML anchors are hard to read and to edit"
    suggestion = dedent(rest.partition("\n\n")[0])
    planned = simulate(tmp_path, pod, POOL, suggestion, args=("-o", "json"))

    assert refused.exit_code == 2
    assert "NodePool" in [document["kind"] for document in yaml.safe_load_all(suggestion)]
    assert planned.exit_code == 0, planned.output
    (node,) = json.loads(planned.stdout)["nodes"]
    assert node["nodepool"] in ("gpu", "neuron", "windows")
