"""Workloads become the pods that they would create."""

import pytest

from dovetail.codec.inputs.cluster_inputs import Inputs
from dovetail.model.kube.selectors import LabelSelector
from tests.codec.sources import a_deployment, read_manifest

STATEFUL = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: db}}
  template:
    metadata: {labels: {app: db}}
    spec:
      containers: [{name: main, resources: {requests: {cpu: 1}}}]
  volumeClaimTemplates:
    - metadata: {name: data}
      spec: {storageClassName: gp3}
"""
JOB = """
apiVersion: batch/v1
kind: Job
metadata: {name: train, namespace: shop}
spec:
  template:
    metadata: {labels: {app: train}}
    spec: {containers: [{name: main}]}
"""
CRON = """
apiVersion: batch/v1
kind: CronJob
metadata: {name: report}
spec:
  schedule: "0 2 * * *"
  jobTemplate:
    spec:
      parallelism: 2
      template: {spec: {containers: [{name: main}]}}
"""
DAEMON = """
apiVersion: apps/v1
kind: DaemonSet
metadata: {name: agent, namespace: kube-system}
spec:
  selector: {matchLabels: {app: agent}}
  template:
    metadata: {labels: {app: agent}}
    spec: {containers: [{name: main, resources: {limits: {cpu: 100m}}}]}
"""


def names(inputs: Inputs) -> list[str]:
    return [pod.key for pod in inputs.pending]


def test_a_deployment_becomes_its_replicas_which_share_one_spec() -> None:
    inputs = read_manifest(a_deployment(3))

    assert names(inputs) == ["shop/web-1", "shop/web-2", "shop/web-3"]
    assert len({id(pod.spec) for pod in inputs.pending}) == 1
    assert len({id(pod.labels) for pod in inputs.pending}) == 1
    assert inputs.pending[0].spec.requests == {"cpu": 500, "pods": 1}


def test_pods_of_a_deployment_are_owned_by_a_replica_set_with_template_hash() -> None:
    inputs = read_manifest(a_deployment(1))

    pod = inputs.pending[0]
    hash_label = pod.labels["pod-template-hash"]
    assert pod.owner is not None
    assert (pod.owner.kind, pod.owner.name) == ("ReplicaSet", f"web-{hash_label}")
    assert inputs.controllers[0].name == pod.owner.name
    assert inputs.controllers[0].selector is not None
    assert inputs.controllers[0].selector.matches(pod.labels)


def test_the_hash_of_a_template_depends_on_nothing_but_the_template() -> None:
    first, again, other = (
        read_manifest(a_deployment(replicas, cpu)).pending[0].labels["pod-template-hash"]
        for replicas, cpu in ((1, "500m"), (2, "500m"), (1, "600m"))
    )

    assert first == again
    assert first != other


def test_replicas_default_to_one_and_can_be_zero() -> None:
    deployment = a_deployment(1).replace("  replicas: 1\n", "")

    assert names(read_manifest(deployment)) == ["shop/web-1"]
    assert names(read_manifest(a_deployment(0))) == []


def test_pods_of_a_stateful_set_are_numbered_from_zero_with_a_claim_each() -> None:
    inputs = read_manifest(STATEFUL)

    assert names(inputs) == ["shop/db-0", "shop/db-1", "shop/db-2"]
    assert [claim.key for claim in inputs.volume_claims] == [
        "shop/data-db-0",
        "shop/data-db-1",
        "shop/data-db-2",
    ]
    assert [pod.spec.volumes[0].claim for pod in inputs.pending] == ["data-db-0", "data-db-1", "data-db-2"]
    assert all(claim.storage_class == "gp3" and not claim.volume for claim in inputs.volume_claims)


def test_pods_of_a_stateful_set_start_at_ordinals_start() -> None:
    inputs = read_manifest(STATEFUL.replace("replicas: 3", "replicas: 1\n  ordinals: {start: 5}"))

    assert names(inputs) == ["shop/db-5"]


def test_without_storage_classes_those_named_are_assumed_to_bind_late() -> None:
    inputs = read_manifest(STATEFUL)

    assert [
        (storage_class.name, storage_class.binds_immediately) for storage_class in inputs.storage_classes
    ] == [("gp3", False)]
    assert any(
        "no StorageClass given; assumed EBS volumes" in note and "for gp3" in note for note in inputs.notes
    )


def test_a_claim_without_class_gets_the_newest_default_class() -> None:
    classes = "".join(
        f"""---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata:
  name: {name}
  creationTimestamp: {year}-01-01T00:00:00Z
  annotations: {{storageclass.kubernetes.io/is-default-class: "true"}}
provisioner: kubernetes.io/aws-ebs
volumeBindingMode: WaitForFirstConsumer
"""
        for name, year in (("older", 2024), ("newer", 2025))
    )

    inputs = read_manifest(STATEFUL.replace("{storageClassName: gp3}", "{}") + classes)

    assert {claim.storage_class for claim in inputs.volume_claims} == {"newer"}
    assert {storage_class.provisioner for storage_class in inputs.storage_classes} == {"ebs.csi.aws.com"}


def test_a_volume_claim_with_empty_class_name_gets_no_class() -> None:
    claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: c}\nspec: "

    assert read_manifest(claim + "{storageClassName: ''}").volume_claims[0].storage_class == ""
    assert read_manifest(claim + "{}").volume_claims[0].storage_class == "default"


@pytest.mark.parametrize(
    ("fields", "count"),
    [
        ("", 1),
        ("parallelism: 4", 4),
        ("parallelism: 4\n  completions: 2", 2),
        ("parallelism: 2\n  completions: 9", 2),
        ("completions: 9", 1),
        ("parallelism: 0", 0),
        ("parallelism: 3\n  suspend: true", 0),
    ],
)
def test_a_job_has_as_many_pods_as_run_in_parallel(fields: str, count: int) -> None:
    inputs = read_manifest(JOB.replace("spec:\n", f"spec:\n  {fields}\n", 1))

    assert len(inputs.pending) == count


def test_a_finished_job_has_no_pods() -> None:
    done = JOB + "status: {conditions: [{type: Complete, status: 'True'}]}\n"

    assert read_manifest(done).pending == ()


def test_pods_of_a_job_have_the_job_name_labels() -> None:
    pod = read_manifest(JOB).pending[0]

    assert pod.labels["batch.kubernetes.io/job-name"] == "train"
    assert pod.labels["app"] == "train"


def test_a_cron_job_has_no_pods_without_cron_runs() -> None:
    assert read_manifest(CRON).pending == ()
    assert names(read_manifest(CRON, cron_runs=True)) == ["default/report-1", "default/report-2"]


def test_a_daemonset_adds_no_pending_pod_and_limits_set_its_requests() -> None:
    inputs = read_manifest(DAEMON)

    assert inputs.pending == ()
    assert inputs.daemon_sets[0].pod.spec.requests == {"cpu": 100, "pods": 1}
    assert inputs.daemon_sets[0].newest_pod is None


def test_a_replica_set_of_a_given_deployment_adds_no_pods() -> None:
    replica_set = """---
apiVersion: apps/v1
kind: ReplicaSet
metadata:
  name: web-123
  namespace: shop
  ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web, controller: true}]
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: web-123-abcde
  namespace: shop
  ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-123, controller: true}]
spec: {containers: [{name: main}]}
"""

    assert len(read_manifest(a_deployment(3) + replica_set).pending) == 3
    assert len(read_manifest(replica_set).pending) == 3


def test_workloads_with_equal_names_have_pods_with_different_names() -> None:
    job = JOB.replace("name: train", "name: web")

    assert names(read_manifest(a_deployment(1) + "---" + job)) == ["shop/web-1", "shop/web-job-1"]


def test_a_replication_controller_selects_by_a_plain_map() -> None:
    inputs = read_manifest("""
        apiVersion: v1
        kind: ReplicationController
        metadata: {name: old}
        spec:
          replicas: 2
          selector: {app: old}
          template:
            metadata: {labels: {app: old}}
            spec: {containers: [{name: main}]}
    """)

    assert names(inputs) == ["default/old-1", "default/old-2"]
    assert inputs.controllers[0].selector == LabelSelector(inputs.pending[0].labels)


def test_an_ephemeral_volume_has_a_claim_named_after_its_pod() -> None:
    text = a_deployment(2).rstrip() + "\n      volumes: [{name: tmp, ephemeral: {}}]\n"
    text = text.replace("ephemeral: {}", "ephemeral: {volumeClaimTemplate: {spec: {storageClassName: gp3}}}")

    inputs = read_manifest(text)

    assert [pod.spec.volumes[0].claim for pod in inputs.pending] == ["web-1-tmp", "web-2-tmp"]
    assert inputs.storage_classes[0].name == "gp3"


BOUND = """\
apiVersion: v1
kind: Pod
metadata: {name: a}
spec: {nodeName: elsewhere, containers: [{name: c}]}
"""


def test_a_pod_of_a_cluster_that_is_bound_to_an_unknown_node_is_pending() -> None:
    inputs = read_manifest(BOUND.replace("name: a}", "name: a, uid: abc}", 1))

    assert [pod.node_name for pod in inputs.pending] == [""]


def test_a_new_pod_that_names_an_unknown_node_is_left_out_with_a_note() -> None:
    inputs = read_manifest(BOUND)

    assert not inputs.pending
    assert inputs.notes == ("1 pod left out: nodeName is of a node not given: default/a (elsewhere)",)


def test_services_pdbs_and_namespaces_are_decoded() -> None:
    inputs = read_manifest("""
        apiVersion: v1
        kind: Namespace
        metadata: {name: shop, labels: {team: a}}
        ---
        apiVersion: v1
        kind: Service
        metadata: {name: web, namespace: shop}
        spec: {selector: {app: web}}
        ---
        apiVersion: policy/v1
        kind: PodDisruptionBudget
        metadata: {name: web, namespace: shop}
        spec: {maxUnavailable: 0, selector: {}, unhealthyPodEvictionPolicy: AlwaysAllow}
        ---
        apiVersion: v1
        kind: Pod
        metadata: {name: a, namespace: elsewhere}
        spec: {containers: [{name: c}]}
    """)

    budget = inputs.pdbs[0]
    labels = {namespace.name: namespace.labels for namespace in inputs.namespaces}
    assert labels["shop"] == {"team": "a", "kubernetes.io/metadata.name": "shop"}
    assert labels["elsewhere"] == {"kubernetes.io/metadata.name": "elsewhere"}
    assert inputs.services[0].selector == {"app": "web"}
    assert budget.blocks_all_evictions
    assert budget.always_allow_unhealthy
    assert budget.selector == LabelSelector()


def test_workloads_without_pods_are_noted() -> None:
    run = "template: {spec: {containers: [{name: c}], restartPolicy: Never}}"
    nightly = (
        "---\napiVersion: batch/v1\nkind: CronJob\nmetadata: {name: nightly}\n"
        f"spec: {{schedule: '0 3 * * *', jobTemplate: {{spec: {{{run}}}}}}}\n"
    )

    inputs = read_manifest(a_deployment(0) + nightly)

    assert inputs.pending == ()
    assert inputs.notes == (
        "no replicas requested, so no pods planned: web",
        "CronJobs left out (--cron-runs plans one run of each): nightly",
    )


def test_a_claim_template_can_name_its_class_in_the_beta_annotation() -> None:
    text = """
        apiVersion: apps/v1
        kind: StatefulSet
        metadata: {name: db}
        spec:
          selector: {matchLabels: {app: db}}
          template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c}]}}
          volumeClaimTemplates:
            - metadata: {name: data, annotations: {volume.beta.kubernetes.io/storage-class: fast}}
    """

    [claim] = read_manifest(text).volume_claims

    assert (claim.name, claim.storage_class) == ("data-db-0", "fast")


def test_a_new_storage_class_with_immediate_binding_is_planned_with_late_binding() -> None:
    text = "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: fast}\n"

    applied, live = read_manifest(text), read_manifest("", cluster=text)

    assert [storage_class.binds_immediately for storage_class in applied.storage_classes] == [False]
    assert "StorageClass fast binds volumes before their pods have nodes" in applied.notes[0]
    assert [storage_class.binds_immediately for storage_class in live.storage_classes] == [True]
    assert live.notes == ()
