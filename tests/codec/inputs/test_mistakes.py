"""What users get wrong, where they are told so, and what they are told."""

from pathlib import Path

import pytest

from dovetail.codec.inputs.cluster_inputs import read_inputs
from dovetail.errors import BadInput
from tests.codec.sources import POOL, a_deployment, a_pod, a_pool, dump, mistakes, read, told

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_a_mistake_names_file_line_field_and_what_would_be_right() -> None:
    text = a_pool("{key: karpenter.sh/capacity-type, operator: In, values: [on_demand]}")

    assert [str(one) for one in mistakes(text)] == [
        "m.yaml:10 spec.template.spec.requirements[1].values: "
        "'on_demand' is no capacity type; did you mean 'on-demand'?"
    ]


def test_a_mistake_in_a_list_of_json_has_its_line_too() -> None:
    text = dump(a_pod("a"), a_pod("b", spec={"nodeName": 5}))

    with pytest.raises(BadInput) as caught:
        read_inputs([("pods.json", text.encode())])

    assert [str(one) for one in caught.value.mistakes] == [
        'pods.json:37 items[1].spec.nodeName: must be text, not 5; put it in quotes: "5"'
    ]
    assert text.splitlines()[36].strip() == '"nodeName": 5'


def test_a_missing_field_is_reported_at_the_line_of_what_lacks_it() -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata:\n  labels: {a: b}\nspec: {containers: [{name: c}]}"

    assert [str(one) for one in mistakes(text)] == ["m.yaml:4 metadata.name: is missing"]


@pytest.mark.parametrize(
    ("requirement", "message"),
    [
        ("{key: a, operator: Inn, values: [b]}", "'Inn' is no operator; did you mean 'In'?"),
        ("{key: a, operator: notin, values: [b]}", "did you mean 'NotIn'?"),
        ("{key: a, operator: '>=', values: ['4']}", "did you mean 'Gte'?"),
        ("{key: a, operator: Like, values: ['4']}", "'Like' is no operator"),
        ("{key: a, operator: In}", "In needs at least one value"),
        ("{key: a, operator: Exists, values: [b]}", "Exists takes no values"),
        ("{key: a, operator: Gt, values: ['4', '5']}", "Gt needs exactly one whole number"),
        ("{key: a, operator: Lt, values: ['-4']}", "Lt needs exactly one whole number"),
        ("{key: a, operator: In, values: b}", "must be a list; write it as ['b']"),
        ("{key: a, operator: In, values: [4]}", 'must be text, not 4; put it in quotes: "4"'),
        ("{key: a, operator: In, values: [yes]}", 'put it in quotes: "true"'),
        ("{key: a, operator: In, values: [b], minValues: 0}", "is 0, but must be at least 1"),
        ("{key: a, operator: In, values: [b], minValues: 51}", "must be at most 50"),
        ("{key: a, operator: In, values: [b], minValues: 2}", "there are only 1 values"),
        ("{key: a, operator: In, vales: [b]}", "no such field; did you mean 'values'?"),
        ("{operator: Exists}", "key: is missing"),
        ("{key: a b, operator: Exists}", "'a b' is no label key"),
        ("{key: a, operator: In, values: ['x y']}", "'x y' is no label value"),
        (
            "{key: karpenter.sh/nodepool, operator: In, values: [b]}",
            "is set by the pool itself",
        ),
        ("{key: kubernetes.io/hostname, operator: Exists}", "not known before a node is there"),
        (
            "{key: karpenter.sh/capacity_type, operator: Exists}",
            "did you mean 'karpenter.sh/capacity-type'?",
        ),
        ("{key: karpenter.k8s.aws/instance-cpus, operator: Exists}", "instance-cpu'?"),
        (
            "{key: karpenter.sh/capacity-type, operator: In, values: [OnDemand]}",
            "did you mean 'on-demand'?",
        ),
        (
            "{key: karpenter.sh/capacity-type, operator: NotIn, values: [Spot]}",
            "did you mean 'spot'?",
        ),
        (
            "{key: karpenter.sh/capacity-type, operator: In, values: [cheap]}",
            "known are on-demand, spot, reserved",
        ),
        ("{key: kubernetes.io/arch, operator: In, values: [x86_64]}", "did you mean 'amd64'?"),
        ("{key: beta.kubernetes.io/arch, operator: In, values: [aarch64]}", "'arm64'?"),
        ("{key: kubernetes.io/os, operator: In, values: [Linux]}", "did you mean 'linux'?"),
        (
            "{key: topology.kubernetes.io/zone, operator: In, values: [use1-az2]}",
            "ask for it with 'topology.k8s.aws/zone-id'",
        ),
    ],
)
def test_a_wrong_requirement_of_a_pool_is_explained(requirement: str, message: str) -> None:
    found = told(a_pool(requirement))

    assert len(found) == 1
    assert message in found[0]
    assert found[0].startswith("spec.template.spec.requirements[1]")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  template:", "  weight: 0\n  template:", "weight: is 0, but must be at least 1"),
        ("  template:", "  weight: 101\n  template:", "weight: is 101, but must be at most 100"),
        ("  template:", "  replicas: 2\n  weight: 3\n  template:", "goes with replicas never"),
        ("  template:", "  replicas: 2\n  limits: {cpu: 1}\n  template:", "'nodes' only"),
        ("  template:", "  limits: {memory: 100GB}\n  template:", "did you mean '100Gi'?"),
        ("  template:", "  limits: {cpu: -1}\n  template:", "-1 is negative"),
        ("  template:", "  limts: {cpu: 1}\n  template:", "did you mean 'limits'?"),
        ("  template:", "  taints: []\n  template:", "has its place in spec.template.spec"),
        ("requirements:", "requirments:", "did you mean 'requirements'?"),
        ("requirements:", "expireAfter: 30d\n      requirements:", "the hour: '720h'"),
        ("requirements:", "expireAfter: never\n      requirements:", "did you mean 'Never'?"),
        ("requirements:", "expireAfter: 300\n      requirements:", "did you mean '300s'?"),
        ("requirements:", "expireAfter: soon\n      requirements:", "write it as in 30s"),
        ("requirements:", "terminationGracePeriod: Never\n      requirements:", "no duration"),
        ("group: karpenter.k8s.aws,", "", "nodeClassRef.group: is missing"),
        ("kind: EC2NodeClass", "kind: Ec2Nodeclass", "did you mean 'EC2NodeClass'?"),
        ("group: karpenter.k8s.aws,", "group: karpenter.k8s.aws/v1,", "has a version"),
        ("group: karpenter.k8s.aws,", "apiVersion: karpenter.k8s.aws/v1beta1,", "write 'group:"),
        (
            "requirements:",
            "taints: [{key: a, effect: noschedule}]\n      requirements:",
            "did you mean 'NoSchedule'?",
        ),
        (
            "requirements:",
            "taints: [{key: a}]\n      requirements:",
            "taints[0].effect: is missing",
        ),
        (
            "requirements:",
            "taints: [{key: a, effect: NoExecute}]\n"
            "      startupTaints: [{key: a, effect: NoExecute, value: b}]\n      requirements:",
            "startupTaints[0]: the taint a:NoExecute is there twice",
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
            "budgets[0].nodes: '110%' is neither a number of nodes nor a share",
        ),
        (
            "  template:",
            "  disruption: {budgets: [{nodes: '1', duration: 1h}]}\n  template:",
            "needs schedule and duration together",
        ),
        (
            "  template:",
            "  disruption: {budgets: [{schedule: often, duration: 1h}]}\n  template:",
            "'often' is no cron schedule",
        ),
        (
            "  template:",
            "  disruption: {budgets: [{schedule: '@daily', duration: 90s}]}\n  template:",
            "a budget counts hours and minutes only",
        ),
        (
            "  template:",
            "  disruption: {budgets: [{reasons: [Drift]}]}\n  template:",
            "did you mean 'Drifted'?",
        ),
    ],
)
def test_a_wrong_field_of_a_pool_is_explained(old: str, new: str, message: str) -> None:
    found = told(POOL.replace(old, new, 1))

    assert any(message in one for one in found)


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ("{requests: {cpu: -1}}", "-1 is negative; an amount is zero or more"),
        ("{requests: {cpu: 100M}}", "did you mean '100m'?"),
        ("{requests: {cpu: 1e9}}", "more than any machine has"),
        ("{requests: {memory: 100MB}}", "'100MB' is no quantity; did you mean '100Mi'?"),
        ("{requests: {memory: 512m}}", "did you mean '512Mi'?"),
        ("{requests: {memory: 512}}", "'512' is 512 bytes; did you mean '512Mi'?"),
        ("{requests: {memory: 5Pi}}", "more memory than any machine has"),
        ("{requests: {memory: a lot}}", "is no quantity"),
        ("{requests: {memory: [1]}}", "is no quantity"),
        ("{requests: {cpu: 1e99}}", "is out of range"),
        ("{requests: {cpu: 2}, limits: {cpu: 1}}", "is more than its limit"),
        ("{requests: {nvidia.com/gpu: 1}, limits: {nvidia.com/gpu: 2}}", "must equal the request"),
        ("{request: {cpu: 1}}", "no such field; did you mean 'requests'?"),
        ("[]", "must be a map, not a list"),
    ],
)
def test_a_wrong_amount_of_a_container_is_explained(resources: str, message: str) -> None:
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
        f"spec: {{containers: [{{name: c, resources: {resources}}}]}}\n"
    )

    assert message in told(text)[0]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("tolerations: [{operator: Equal}]", "only operator Exists does without"),
        ("tolerations: [{key: a, operator: Exist}]", "did you mean 'Exists'?"),
        ("tolerations: [{key: a, effect: NoSched}]", "did you mean 'NoSchedule'?"),
        ("tolerations: [{key: a, operator: Exists, value: b}]", "Exists takes no value"),
        ("nodeSelector: {kubernetes.io/arch: x86_64}", "did you mean 'amd64'?"),
        ("nodeSelector: {gpu: true}", 'must be text, not true; put it in quotes: "true"'),
        ("nodeselector: {a: b}", "did you mean 'nodeSelector'?"),
        ("topologySpreadConstraints: [{maxSkew: 1}]", "topologyKey: is missing"),
        (
            "topologySpreadConstraints: "
            "[{maxSkew: 0, topologyKey: z, whenUnsatisfiable: DoNotSchedule}]",
            "maxSkew: is 0, but must be at least 1",
        ),
        (
            "topologySpreadConstraints: "
            "[{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyways}]",
            "did you mean 'ScheduleAnyway'?",
        ),
        (
            "topologySpreadConstraints: "
            "[{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway, minDomains: 2}]",
            "goes with whenUnsatisfiable: DoNotSchedule only",
        ),
        (
            "affinity: {podAntiAffinity: "
            "{requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {}}]}}",
            "topologyKey: is missing",
        ),
        (
            "affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: "
            "{nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Gte, values: ['1']}]}]}}}",
            "'Gte' is no operator",
        ),
        (
            "affinity: {nodeAffinity: {requiredDuringScheduling: {}}}",
            "did you mean 'requiredDuringSchedulingIgnoredDuringExecution'?",
        ),
        ("priority: high", "must be a whole number, not 'high'"),
    ],
)
def test_a_wrong_field_of_a_pod_is_explained(spec: str, message: str) -> None:
    text = (
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"
        f"spec:\n  containers: [{{name: c}}]\n  {spec}\n"
    )

    assert any(message in one for one in told(text))


@pytest.mark.parametrize(
    ("replicas", "message"),
    [
        ("-1", "spec.replicas: is -1, but must be at least 0"),
        ("2.5", "spec.replicas: must be a whole number, not 2.5"),
        ("three", "spec.replicas: must be a whole number, not 'three'"),
        ("99999999999", "must be at most 1000000"),
    ],
)
def test_a_wrong_count_of_replicas_is_explained(replicas: str, message: str) -> None:
    text = a_deployment(1).replace("replicas: 1", f"replicas: {replicas}")

    assert message in told(text)[0]


def test_more_pods_than_memory_holds_are_refused_before_they_are_made() -> None:
    text = "---".join(a_deployment(900_000, name=f"web-{n}") for n in range(5))

    assert "asks for more than 2,000,000 pods" in told(text)[0]


def test_a_selector_that_misses_its_own_template_is_a_mistake() -> None:
    text = a_deployment(1).replace("matchLabels: {app: web}", "matchLabels: {app: wbe}", 1)

    assert told(text) == ["spec.selector: does not select the labels of the template"]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("apiVersion: apps/v1\nkind: Deploymnet", "kind: 'Deploymnet' is no kind; did you mean"),
        ("apiVersion: karpenter.sh/v1\nkind: Nodepool", "did you mean 'NodePool'?"),
        ("apiVersion: v1\nkind: Deployment", "'v1' has no Deployment; did you mean 'apps/v1'?"),
        ("apiVersion: extensions/v1beta1\nkind: Deployment", "did you mean 'apps/v1'?"),
        ("apiVersion: karpenter.sh/v2\nkind: NodePool", "did you mean 'karpenter.sh/v1'?"),
        ("apiVersion: app/v1\nkind: Deployment", "did you mean 'apps/v1'?"),
        ("apiVersion: v1", "kind: is missing"),
        ("kind: Pod", "apiVersion: is missing"),
        ("kind: 5\napiVersion: v1", "kind: must be text"),
        ("image: nginx", "has neither apiVersion nor kind; is this a Kubernetes manifest?"),
    ],
)
def test_a_kind_that_looks_like_one_of_ours_is_a_mistake(header: str, message: str) -> None:
    found = told(f"{header}\nmetadata: {{name: a}}\n")

    assert len(found) == 1
    assert message in found[0]


def test_kinds_of_others_are_left_out_and_counted() -> None:
    others = ["v1/ConfigMap", "v1/ConfigMap", "networking.k8s.io/v1/Ingress", "v1/PodTemplate"]
    others += ["apps.kruise.io/v1/StatefulSet", "monitoring.coreos.com/v1/PodMonitor"]
    text = "---\n".join(
        "apiVersion: {}\nkind: {}\nmetadata: {{name: a}}\n".format(*one.rsplit("/", 1))
        for one in others
    )

    inputs = read(text)

    assert inputs.ignored["ConfigMap"] == 2
    assert inputs.notes[0].startswith("ignored 6 objects: 2 ConfigMap, 1 ")


def test_fields_that_look_like_nothing_we_know_are_no_mistake() -> None:
    text = POOL.replace("spec:", "spec:\n  somethingNewInKarpenter: {a: 1}\n  limitsFrom: x", 1)

    assert mistakes(text) == ()


def test_an_object_twice_in_the_manifests_is_a_mistake_that_names_both_places() -> None:
    text = POOL + "---" + POOL

    assert [str(one) for one in mistakes(text)] == [
        "m.yaml:14 metadata.name: NodePool general is there twice; the first is in m.yaml:4"
    ]


def test_what_a_live_cluster_has_taken_is_not_searched_for_misspellings() -> None:
    pod = a_pod(spec={"containers": [{"name": "c", "resources": {"requests": {"memory": "512m"}}}]})
    pod["spec"]["nodeselector"] = {}

    inputs = read("", cluster=dump(pod))

    assert inputs.pending[0].spec.requests["memory"] == 1


def test_the_broken_example_has_a_mistake_for_nearly_every_line() -> None:
    file = EXAMPLES / "broken" / "mistakes.yaml"

    with pytest.raises(BadInput) as caught:
        read_inputs([(file.name, file.read_bytes())])

    found = caught.value.mistakes
    assert len(found) >= 25
    assert all(one.file == "mistakes.yaml" and one.line > 0 and one.field for one in found)
    assert [one.line for one in found] == sorted(one.line for one in found)


def test_hundreds_of_mistakes_do_not_take_minutes() -> None:
    pods = [a_pod(f"p{n}", spec={"containers": 5}) for n in range(1000)]

    with pytest.raises(BadInput) as caught:
        read_inputs([("many.json", dump(*pods).encode())])

    assert len(caught.value.mistakes) == 200


def test_a_name_that_yaml_takes_for_a_truth_value_is_one_mistake() -> None:
    text = "apiVersion: v1\nkind: Namespace\nmetadata: {name: no}\n"

    assert told(text) == [
        'metadata.name: must be text, not false; put it in quotes: "false", "no" or "off"'
    ]


def test_a_name_that_is_too_long_is_not_blamed_for_its_letters() -> None:
    text = f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {'a' * 300}}}\n"

    assert told(text) == ["metadata.name: has 300 characters; the limit is 253"]


def test_text_where_a_map_belongs_is_said_once() -> None:
    text = "apiVersion: v1\nkind: Pod\nmetadata: web\nspec: web\n"

    assert told(text) == ["metadata: must be a map", "spec: must be a map"]


def test_an_endless_number_is_no_quantity() -> None:
    text = a_deployment(1, cpu=f"'{'9' * 6000}'")

    [message] = told(text)

    assert message.endswith("'99999999999999999999…' is no quantity: it has 6,000 characters")


def test_a_wrong_operator_does_not_hide_a_wrong_value() -> None:
    text = a_pool("{key: karpenter.sh/capacity-type, operator: in, values: [spot, ondemand]}")

    assert [message.partition(": ")[2] for message in told(text)] == [
        "'in' is no operator; did you mean 'In'?",
        "'ondemand' is no capacity type; did you mean 'on-demand'?",
    ]


def test_a_mistake_in_an_old_provisioner_is_shown_where_it_was_written() -> None:
    text = (
        "apiVersion: karpenter.sh/v1alpha5\nkind: Provisioner\nmetadata: {name: old}\n"
        "spec:\n  providerRef: {name: old}\n  ttlSecondsAfterEmpty: soon\n"
    )

    [mistake] = mistakes(text)

    assert (mistake.line, mistake.field) == (6, "spec.ttlSecondsAfterEmpty")
