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
REFERRING_ROLLOUT = """
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: canary, namespace: shop}
spec:
  replicas: 2
  workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}
"""
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


def test_a_rollout_of_a_deployment_has_pods_of_its_template(tmp_path: Path) -> None:
    idle = WEB.replace("replicas: 3", "replicas: 0")
    rollout = REFERRING_ROLLOUT.replace("replicas: 2", "replicas: 4")

    result = simulate(tmp_path, idle, rollout, POOL)

    assert result.exit_code == 0, result.output
    assert "canary × 4" in result.stdout
    assert "2.0/" in result.stdout, "four pods request 500m of CPU each"


def test_a_rollout_whose_deployment_is_missing_is_named(tmp_path: Path) -> None:
    result = simulate(tmp_path, REFERRING_ROLLOUT, POOL)

    assert result.exit_code == 0, result.output
    assert "Rollouts whose workloadRef is not given: shop/canary (Deployment web)" in result.stdout


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
    _, _, rest = refused.stdout.partition(f"A NodePool to add for {name}:\n")
    assert "&id" not in rest, "YAML anchors are hard to read and to edit"
    suggestion = rest.partition("\n\n")[0]  # pasted as it is printed
    planned = simulate(tmp_path, pod, POOL, suggestion, args=("-o", "json"))

    assert refused.exit_code == 2
    assert "NodePool" in [document["kind"] for document in yaml.safe_load_all(suggestion)]
    assert planned.exit_code == 0, planned.output
    (node,) = json.loads(planned.stdout)["nodes"]
    assert node["nodepool"] in ("gpu", "neuron", "windows")


def gpu_pod(name: str, resource: str, *fields: str) -> str:
    spec = "".join(f"  {field}\n" for field in fields)
    head = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}}}\nspec:\n{spec}"
    return f"{head}  containers: [{{name: main, image: app, resources: {{limits: {{{resource}: 1}}}}}}]\n"


def test_the_suggested_nodepools_are_for_all_pods_with_the_same_accelerator(tmp_path: Path) -> None:
    pods = [
        gpu_pod("tolerant", "nvidia.com/gpu", "tolerations: [{key: nvidia.com/gpu, operator: Exists}]"),
        gpu_pod("spot", "nvidia.com/gpu", "nodeSelector: {karpenter.sh/capacity-type: spot}"),
        gpu_pod("radeon", "amd.com/gpu"),
    ]

    refused = simulate(tmp_path, *pods, POOL)
    _, *sections = refused.stdout.split("A NodePool to add for ")
    suggestions = [section.partition("\n")[2].partition("\n\n")[0] for section in sections]
    planned = simulate(tmp_path, *pods, POOL, *suggestions, args=("-o", "json"))

    assert len(suggestions) == 2
    assert planned.exit_code == 0, planned.output
    assert {node["nodepool"] for node in json.loads(planned.stdout)["nodes"]} == {"gpu", "gpu-amd"}


WINDOWS_POD = """\
apiVersion: v1
kind: Pod
metadata: {name: win}
spec:
  nodeSelector: {kubernetes.io/os: windows, tier: back}
  containers: [{name: main, image: app}]
"""


def test_the_suggested_nodepools_have_the_labels_that_special_pods_select(tmp_path: Path) -> None:
    avoid = "matchExpressions: [{key: legacy, operator: DoesNotExist}]"
    affinity = f"requiredDuringSchedulingIgnoredDuringExecution: {{nodeSelectorTerms: [{{{avoid}}}]}}"
    pods = [
        gpu_pod(
            "train",
            "nvidia.com/gpu",
            "nodeSelector: {team: ml}",
            f"affinity: {{nodeAffinity: {{{affinity}}}}}",
        ),
        gpu_pod("serve", "nvidia.com/gpu", "nodeSelector: {team: web}"),
        WINDOWS_POD,
    ]

    refused = simulate(tmp_path, *pods, POOL)
    _, *sections = refused.stdout.split("A NodePool to add for ")
    suggestions = [section.partition("\n")[2].partition("\n\n")[0] for section in sections]
    planned = simulate(tmp_path, *pods, POOL, *suggestions, args=("-o", "json"))

    assert "even with a matching label: this NodePool allows no type with nvidia.com/gpu" in refused.stdout
    assert len(suggestions) == 2
    assert planned.exit_code == 0, planned.output
    assert {node["nodepool"] for node in json.loads(planned.stdout)["nodes"]} == {"gpu", "windows"}


def test_a_nodepool_with_gpus_that_lacks_only_a_label_is_not_suggested_again(tmp_path: Path) -> None:
    pool = POOL.replace("[m5]", "[g5]")

    refused = simulate(tmp_path, gpu_pod("train", "nvidia.com/gpu", "nodeSelector: {team: ml}"), pool)

    assert "would match if spec.template.metadata.labels of this NodePool had {team: ml}" in refused.stdout
    assert "even with a matching label" not in refused.stdout
    assert "A NodePool to add" not in refused.stdout
