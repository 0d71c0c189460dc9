"""Validation errors of manifests: location, message and suggestion."""

import json
import re
from pathlib import Path

import pytest

from dovetail.codec.inputs.cluster_inputs import read_inputs
from dovetail.errors import InvalidInputError
from tests.codec.sources import (
    POOL,
    a_deployment,
    a_pod,
    a_pool,
    dump,
    error_messages,
    read_manifest,
    validation_errors,
)

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_an_error_has_file_line_field_and_a_suggestion() -> None:
    text = a_pool("{key: karpenter.sh/capacity-type, operator: In, values: [on_demand]}")

    assert [str(error) for error in validation_errors(text)] == [
        "m.yaml:10 spec.template.spec.requirements[1].values: "
        "'on_demand' is not a capacity type; did you mean 'on-demand'?"
    ]


def test_an_error_in_a_json_list_has_its_line() -> None:
    text = dump(a_pod("a"), a_pod("b", spec={"nodeName": 5}))

    with pytest.raises(InvalidInputError) as caught:
        read_inputs([("pods.json", text.encode())])

    assert [str(error) for error in caught.value.errors] == [
        'pods.json:37 items[1].spec.nodeName: must be text, not 5; put it in quotes: "5"'
    ]
    assert text.splitlines()[36].strip() == '"nodeName": 5'


def test_a_missing_field_is_reported_at_the_line_of_its_parent() -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata:\n  labels: {a: b}\nspec: {containers: [{name: c}]}"

    assert [str(error) for error in validation_errors(text)] == ["m.yaml:4 metadata.name: is missing"]


@pytest.mark.parametrize(
    ("requirement", "message"),
    [
        ("{key: a, operator: Inn, values: [b]}", "'Inn' is not an operator; did you mean 'In'?"),
        ("{key: a, operator: notin, values: [b]}", "did you mean 'NotIn'?"),
        ("{key: a, operator: '>=', values: ['4']}", "did you mean 'Gte'?"),
        ("{key: a, operator: Like, values: ['4']}", "'Like' is not an operator"),
        ("{key: a, operator: In}", "In needs at least one value"),
        ("{key: a, operator: Exists, values: [b]}", "Exists takes no values"),
        ("{key: a, operator: Gt, values: ['4', '5']}", "Gt needs exactly one whole number"),
        ("{key: a, operator: Lt, values: ['-4']}", "Lt needs exactly one whole number"),
        ("{key: a, operator: In, values: b}", "must be a list; write it as ['b']"),
        ("{key: a, operator: In, values: [4]}", 'must be text, not 4; put it in quotes: "4"'),
        ("{key: a, operator: In, values: [yes]}", 'put it in quotes: "true"'),
        ("{key: a, operator: In, values: [b], minValues: 0}", "is 0, but must be at least 1"),
        ("{key: a, operator: In, values: [b], minValues: 51}", "must be at most 50"),
        ("{key: a, operator: In, values: [b], minValues: 2}", "is 2, with only 1 value"),
        ("{key: a, operator: In, vales: [b]}", "no such field; did you mean 'values'?"),
        ("{operator: Exists}", "key: is missing"),
        ("{key: a b, operator: Exists}", "'a b' is not a label key"),
        ("{key: a, operator: In, values: ['x y']}", "'x y' is not a label value"),
        ("{key: karpenter.sh/nodepool, operator: In, values: [b]}", "is set by the NodePool itself"),
        ("{key: kubernetes.io/hostname, operator: Exists}", "unknown before the node exists"),
        ("{key: karpenter.sh/capacity_type, operator: Exists}", "did you mean 'karpenter.sh/capacity-type'?"),
        ("{key: karpenter.k8s.aws/instance-cpus, operator: Exists}", "instance-cpu'?"),
        ("{key: karpenter.sh/capacity-type, operator: In, values: [OnDemand]}", "did you mean 'on-demand'?"),
        ("{key: karpenter.sh/capacity-type, operator: NotIn, values: [Spot]}", "did you mean 'spot'?"),
        (
            "{key: karpenter.sh/capacity-type, operator: In, values: [cheap]}",
            "known are on-demand, spot, reserved",
        ),
        ("{key: kubernetes.io/arch, operator: In, values: [x86_64]}", "did you mean 'amd64'?"),
        (
            "{key: karpenter.k8s.aws/instance-pods, operator: Gt, values: ['10']}",
            "'karpenter.k8s.aws/instance-pods' was removed in v1beta1",
        ),
        ("{key: beta.kubernetes.io/arch, operator: In, values: [aarch64]}", "'arm64'?"),
        ("{key: kubernetes.io/os, operator: In, values: [Linux]}", "did you mean 'linux'?"),
        (
            "{key: topology.kubernetes.io/zone, operator: In, values: [use1-az2]}",
            "use 'topology.k8s.aws/zone-id' for it",
        ),
    ],
)
def test_an_invalid_requirement_of_a_nodepool_is_reported(requirement: str, message: str) -> None:
    errors = error_messages(a_pool(requirement))

    assert len(errors) == 1
    assert message in errors[0]
    assert errors[0].startswith("spec.template.spec.requirements[1]")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  template:", "  weight: 0\n  template:", "weight: is 0, but must be at least 1"),
        ("  template:", "  weight: 101\n  template:", "weight: is 101, but must be at most 100"),
        ("  template:", "  replicas: 2\n  weight: 3\n  template:", "cannot be combined with replicas"),
        ("  template:", "  replicas: 2\n  limits: {cpu: 1}\n  template:", "'nodes' only"),
        ("  template:", "  limits: {memory: 100GB}\n  template:", "did you mean '100Gi'?"),
        ("  template:", "  limits: {cpu: -1}\n  template:", "-1 is negative"),
        ("  template:", "  limts: {cpu: 1}\n  template:", "did you mean 'limits'?"),
        ("  template:", "  taints: []\n  template:", "belongs to spec.template.spec"),
        ("requirements:", "requirments:", "did you mean 'requirements'?"),
        ("requirements:", "expireAfter: 30d\n      requirements:", "the hour: '720h'"),
        ("requirements:", "expireAfter: never\n      requirements:", "did you mean 'Never'?"),
        ("requirements:", "expireAfter: 300\n      requirements:", "did you mean '300s'?"),
        ("requirements:", "expireAfter: soon\n      requirements:", "write it as in 30s"),
        ("requirements:", "terminationGracePeriod: Never\n      requirements:", "not a duration"),
        ("group: karpenter.k8s.aws,", "", "nodeClassRef.group: is missing"),
        ("kind: EC2NodeClass", "kind: Ec2Nodeclass", "did you mean 'EC2NodeClass'?"),
        ("group: karpenter.k8s.aws,", "group: karpenter.k8s.aws/v1,", "has a version"),
        ("group: karpenter.k8s.aws,", "apiVersion: karpenter.k8s.aws/v1beta1,", "write 'group:"),
        (
            "requirements:",
            "taints: [{key: a, effect: noschedule}]\n      requirements:",
            "did you mean 'NoSchedule'?",
        ),
        ("requirements:", "taints: [{key: a}]\n      requirements:", "taints[0].effect: is missing"),
        (
            "requirements:",
            "taints: [{key: a, effect: NoExecute}]\n"
            "      startupTaints: [{key: a, effect: NoExecute, value: b}]\n      requirements:",
            "startupTaints[0]: duplicate taint a:NoExecute",
        ),
        (
            "  template:",
            "  disruption: {consolidationPolicy: WhenUnderutilized}\n  template:",
            "did you mean 'WhenEmptyOrUnderutilized'?",
        ),
        (
            "  template:",
            "  disruption: {consolidationPolicy: whenempty}\n  template:",
            "did you mean 'WhenEmpty'?",
        ),
        (
            "  template:",
            "  disruption: {budgets: [{nodes: 110%}]}\n  template:",
            "budgets[0].nodes: '110%' is neither a number of nodes nor a percentage",
        ),
        (
            "  template:",
            "  disruption: {budgets: [{nodes: '1', duration: 1h}]}\n  template:",
            "needs schedule and duration together",
        ),
        (
            "  template:",
            "  disruption: {budgets: [{schedule: often, duration: 1h}]}\n  template:",
            "'often' is not a cron schedule",
        ),
        (
            "  template:",
            "  disruption: {budgets: [{schedule: '@daily', duration: 90s}]}\n  template:",
            "a budget supports hours and minutes only",
        ),
        (
            "  template:",
            "  disruption: {budgets: [{reasons: [Drift]}]}\n  template:",
            "did you mean 'Drifted'?",
        ),
    ],
)
def test_an_invalid_nodepool_field_is_reported(old: str, new: str, message: str) -> None:
    errors = error_messages(POOL.replace(old, new, 1))

    assert any(message in error for error in errors)


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ("{requests: {cpu: -1}}", "-1 is negative; an amount is zero or more"),
        ("{requests: {memory: 100MB}}", "'100MB' is not a quantity; did you mean '100Mi'?"),
        ("{requests: {memory: a lot}}", "is not a quantity"),
        ("{requests: {memory: [1]}}", "is not a quantity"),
        ("{requests: {cpu: 1e99}}", "is out of range"),
        ("{requests: {cpu: 2}, limits: {cpu: 1}}", "is more than its limit"),
        ("{requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 2}}", "must equal the request"),
        ("{request: {cpu: 1}}", "no such field; did you mean 'requests'?"),
        ("[]", "must be a map, not a list"),
    ],
)
def test_an_invalid_quantity_of_a_container_is_reported(resources: str, message: str) -> None:
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
        f"spec: {{containers: [{{name: c, resources: {resources}}}]}}\n"
    )

    assert message in error_messages(text)[0]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("tolerations: [{operator: Equal}]", "required unless the operator is Exists"),
        ("tolerations: [{key: a, operator: Exist}]", "did you mean 'Exists'?"),
        ("tolerations: [{key: a, effect: NoSched}]", "did you mean 'NoSchedule'?"),
        ("tolerations: [{key: a, operator: Exists, value: b}]", "Exists takes no value"),
        ("nodeSelector: {gpu: true}", 'must be text, not true; put it in quotes: "true"'),
        ("nodeselector: {a: b}", "did you mean 'nodeSelector'?"),
        ("topologySpreadConstraints: [{maxSkew: 1}]", "topologyKey: is missing"),
        (
            "topologySpreadConstraints: [{maxSkew: 0, topologyKey: z, whenUnsatisfiable: DoNotSchedule}]",
            "maxSkew: is 0, but must be at least 1",
        ),
        (
            "topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyways}]",
            "did you mean 'ScheduleAnyway'?",
        ),
        (
            "topologySpreadConstraints: "
            "[{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway, minDomains: 2}]",
            "needs whenUnsatisfiable: DoNotSchedule",
        ),
        (
            "affinity: {podAntiAffinity: "
            "{requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {}}]}}",
            "topologyKey: is missing",
        ),
        (
            "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
            "{nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Gte, values: ['1']}]}]}}}",
            "'Gte' is not an operator",
        ),
        (
            "affinity: {nodeAffinity: {requiredDuringScheduling: {}}}",
            "did you mean 'requiredDuringSchedulingIgnoredDuringExecution'?",
        ),
        ("priority: high", "must be a whole number, not 'high'"),
    ],
)
def test_an_invalid_pod_field_is_reported(spec: str, message: str) -> None:
    text = f"apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n  containers: [{{name: c}}]\n  {spec}\n"

    assert any(message in error for error in error_messages(text))


@pytest.mark.parametrize(
    ("replicas", "message"),
    [
        ("-1", "spec.replicas: is -1, but must be at least 0"),
        ("2.5", "spec.replicas: must be a whole number, not 2.5"),
        ("three", "spec.replicas: must be a whole number, not 'three'"),
        ("99999999999", "must be at most 1000000"),
    ],
)
def test_an_invalid_replica_count_is_reported(replicas: str, message: str) -> None:
    text = a_deployment(1).replace("replicas: 1", f"replicas: {replicas}")

    assert message in error_messages(text)[0]


def test_too_many_replicas_are_rejected_before_pods_are_created() -> None:
    text = "---".join(a_deployment(900_000, name=f"web-{n}") for n in range(5))

    assert "requests more than 2,000,000 pods" in error_messages(text)[0]


def test_a_selector_that_does_not_match_its_template_is_an_error() -> None:
    text = a_deployment(1).replace("matchLabels: {app: web}", "matchLabels: {app: wbe}", 1)

    assert error_messages(text) == ["spec.selector: does not select the labels of the template"]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("apiVersion: apps/v1\nkind: Deploymnet", "kind: 'Deploymnet' is not a kind; did you mean"),
        ("apiVersion: karpenter.sh/v1\nkind: Nodepool", "did you mean 'NodePool'?"),
        ("apiVersion: v1\nkind: Deployment", "'v1' has no Deployment; did you mean 'apps/v1'?"),
        ("apiVersion: extensions/v1beta1\nkind: Deployment", "did you mean 'apps/v1'?"),
        ("apiVersion: karpenter.sh/v2\nkind: NodePool", "did you mean 'karpenter.sh/v1'?"),
        ("apiVersion: app/v1\nkind: Deployment", "did you mean 'apps/v1'?"),
        ("apiVersion: v1", "kind: is missing"),
        ("kind: Pod", "apiVersion: is missing"),
        ("kind: 5\napiVersion: v1", "kind: must be text"),
        (
            "name: dev\nhome: fargate\nnodePools: []",
            "is a cluster.yaml, not a Kubernetes manifest; write its manifests with `dovetail cluster render",
        ),
        ("image: nginx", "has neither apiVersion nor kind; is this a Kubernetes manifest?"),
    ],
)
def test_a_misspelt_kind_is_an_error_with_a_suggestion(header: str, message: str) -> None:
    errors = error_messages(f"{header}\nmetadata: {{name: a}}\n")

    assert len(errors) == 1
    assert message in errors[0]


def test_other_kinds_are_ignored_and_counted() -> None:
    others = ["v1/ConfigMap", "v1/ConfigMap", "networking.k8s.io/v1/Ingress", "v1/PodTemplate"]
    others += ["apps.kruise.io/v1/StatefulSet", "monitoring.coreos.com/v1/PodMonitor"]
    text = "---\n".join(
        "apiVersion: {}\nkind: {}\nmetadata: {{name: a}}\n".format(*kind.rsplit("/", 1)) for kind in others
    )

    inputs = read_manifest(text)

    assert inputs.ignored["ConfigMap"] == 2
    assert inputs.notes[0].startswith("ignored 6 objects: 2 ConfigMap, 1 ")


NODE_CLASS = """\
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  amiSelectorTerms: [{alias: al2023@latest}]
  role: nodes
  subnetSelectorTerms: [{tags: {team: a}}]
  securityGroupSelectorTerms: [{tags: {team: a}}]
"""


@pytest.mark.parametrize(
    ("given", "written", "problem"),
    [
        (
            POOL,
            "spec:\n  disruption: {expireAfter: 1h}",
            "spec.disruption.expireAfter: no such field; it belongs to spec.template.spec",
        ),
        (
            POOL.replace("    spec:", "    spec:\n      kubelet: {maxPods: 20}"),
            "spec:",
            "spec.template.spec.kubelet: no such field; it belongs to spec of the EC2NodeClass",
        ),
        (
            POOL,
            "spec:\n  name: default",
            "spec.name: no such field; it belongs to spec.template.spec.nodeClassRef",
        ),
        (POOL, "specc: {}\nspec:", "specc: no such field"),
        (
            NODE_CLASS,
            "spec:\n  subnetSelectorTerm: []",
            "spec.subnetSelectorTerm: no such field; 'subnetSelectorTerms' is there as well",
        ),
    ],
)
def test_misspelt_and_moved_fields_of_karpenter_are_errors_with_their_place(
    given: str, written: str, problem: str
) -> None:
    (error,) = validation_errors(given.replace("spec:", written, 1))

    assert str(error).partition(" ")[2] == problem


@pytest.mark.parametrize("given", [POOL, NODE_CLASS])
def test_fields_that_may_be_those_of_a_newer_karpenter_are_notes(given: str) -> None:
    (note,) = read_manifest(given.replace("spec:", "spec:\n  somethingNew: 1", 1)).notes

    assert note.endswith("spec.somethingNew: no such field in Karpenter 1.14; it is ignored")


def test_fields_of_a_newer_karpenter_are_no_errors_in_objects_of_a_cluster() -> None:
    text = POOL.replace("metadata: {name: general}", "metadata: {name: general, uid: abc}")

    assert validation_errors(text.replace("spec:", "spec:\n  somethingNew: 1", 1)) == ()


GENERATED = """\
apiVersion: batch/v1
kind: Job
metadata: {generateName: train-}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: a}]}}}
"""


def test_objects_with_generate_name_get_different_names_that_are_equal_in_each_run() -> None:
    names = [sorted(pod.name for pod in read_manifest(f"{GENERATED}---\n{GENERATED}").pending) for _ in "ab"]

    assert names[0] == names[1]
    assert len(set(names[0])) == 2
    assert all(re.fullmatch(r"train-[a-z0-9]{5}-1", name) for name in names[0])


def test_thousands_of_generated_names_all_differ() -> None:
    generated = GENERATED.replace("batch/v1", "v1").replace("Job", "Pod")
    text = generated.replace("{template: {spec: ", "").replace("]}}}", "]}")

    assert len({pod.name for pod in read_manifest("---\n".join([text] * 5000)).pending}) == 5000


def test_a_generate_name_that_is_no_text_is_named() -> None:
    (error,) = validation_errors(GENERATED.replace("train-", "5"))

    assert str(error).endswith("metadata.generateName: must be text")


def test_a_generated_name_is_checked_like_another() -> None:
    (error,) = validation_errors(GENERATED.replace("train-", "Train_"))

    assert "is not a valid name" in str(error)


def a_pod_text(resources: dict[str, dict[str, int]]) -> str:
    pod = a_pod(spec={"containers": [{"name": "main", "resources": resources}]})
    del pod["metadata"]["uid"]
    return json.dumps(pod)


@pytest.mark.parametrize(
    ("resource", "meant"),
    [("cpuu", "cpu"), ("mem", ""), ("gpu", "nvidia.com/gpu"), ("Memory", "memory"), ("pods", "")],
)
def test_a_resource_without_a_domain_is_an_error_with_the_likely_name(resource: str, meant: str) -> None:
    pod = a_pod_text({"requests": {resource: 1}})

    (error,) = validation_errors(pod)

    assert f"requests.{resource}: must be a standard resource type or fully qualified" in str(error)
    assert str(error).endswith(f"did you mean {meant!r}?" if meant else "qualified")


def test_a_qualified_resource_that_resembles_a_known_one_gets_a_note() -> None:
    inputs = read_manifest(a_pod_text({"limits": {"nvidia.com/gpus": 1, "nvidia.com/mig-1g.5gb": 1}}))

    (note,) = [note for note in inputs.notes if "did you mean" in note]
    assert "limits['nvidia.com/gpus']: no known resource; did you mean 'nvidia.com/gpu'?" in note


def test_a_duplicate_object_is_an_error_with_both_locations() -> None:
    text = POOL + "---" + POOL

    assert [str(error) for error in validation_errors(text)] == [
        "m.yaml:14 metadata.name: NodePool general is defined twice; first in m.yaml:4"
    ]


def test_objects_with_a_uid_are_not_checked_for_misspelt_fields() -> None:
    pod = a_pod(spec={"containers": [{"name": "c", "resources": {"requests": {"memory": "512m"}}}]})
    pod["spec"]["nodeselector"] = {}

    inputs = read_manifest("", cluster=dump(pod))

    assert inputs.pending[0].spec.requests["memory"] == 1


def test_the_invalid_example_has_an_error_for_nearly_every_line() -> None:
    file = EXAMPLES / "invalid" / "errors.yaml"

    with pytest.raises(InvalidInputError) as caught:
        read_inputs([(file.name, file.read_bytes())])

    errors = caught.value.errors
    assert len(errors) >= 25
    assert all(error.file == "errors.yaml" and error.line > 0 and error.field for error in errors)
    assert [error.line for error in errors] == sorted(error.line for error in errors)


def test_hundreds_of_errors_are_located_within_seconds() -> None:
    pods = [a_pod(f"p{n}", spec={"containers": 5}) for n in range(1000)]

    with pytest.raises(InvalidInputError) as caught:
        read_inputs([("many.json", dump(*pods).encode())])

    assert len(caught.value.errors) == 200


def test_a_name_that_yaml_parses_as_boolean_is_one_error() -> None:
    text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: no}\n"

    assert error_messages(text) == [
        'metadata.name: must be text, not false; put it in quotes: "false", "no" or "off"'
    ]


def test_a_too_long_name_is_one_error() -> None:
    text = f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {'a' * 300}}}\n"

    assert error_messages(text) == ["metadata.name: has 300 characters; the limit is 253"]


def test_text_in_place_of_a_map_is_one_error() -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata: web\nspec: web\n"

    assert error_messages(text) == ["metadata: must be a map", "spec: must be a map"]


def test_infinity_is_not_a_quantity() -> None:
    text = a_deployment(1, cpu=f"'{'9' * 6000}'")

    [message] = error_messages(text)

    assert message.endswith("'99999999999999999999…' is not a quantity: it has 6,000 characters")


def test_an_invalid_operator_does_not_hide_an_invalid_value() -> None:
    text = a_pool("{key: karpenter.sh/capacity-type, operator: in, values: [spot, ondemand]}")

    assert [message.partition(": ")[2] for message in error_messages(text)] == [
        "'in' is not an operator; did you mean 'In'?",
        "'ondemand' is not a capacity type; did you mean 'on-demand'?",
    ]


@pytest.mark.parametrize(
    ("header", "spec"),
    [
        ("apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner", "{provider: {instanceProfile: nodes}}"),
        ("apiVersion: v1\nkind: Pod", "{containers: [{name: a}]}"),
    ],
)
def test_a_name_beside_metadata_is_reported_once_with_its_place(header: str, spec: str) -> None:
    errors = validation_errors(f"{header}\nmetadata:\nname: default\nspec: {spec}\n")

    assert [str(error) for error in errors] == [
        "m.yaml:3 metadata.name: is missing; indent name, which is beside metadata, below it"
    ]


def test_an_error_in_a_provisioner_has_the_line_of_its_field() -> None:
    text = (
        "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: old}\n"
        "spec:\n  providerRef: {name: old}\n  ttlSecondsAfterEmpty: soon\n"
    )

    [mistake] = validation_errors(text)

    assert (mistake.line, mistake.field) == (6, "spec.ttlSecondsAfterEmpty")
