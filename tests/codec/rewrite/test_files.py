"""Legacy Karpenter objects are converted to v1, with notes on changes."""

from textwrap import dedent
from typing import Any

import pytest
import yaml

from dovetail.codec.rewrite.files import convert_files
from dovetail.codec.rewrite.rewritten_object import RewrittenObject
from dovetail.codec.rewrite.round_trip import read_documents
from dovetail.codec.text.field_path import format_path
from dovetail.errors import InvalidInputError

PROVISIONER = """
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: old}
spec:
  providerRef: {apiVersion: karpenter.k8s.aws/v1alpha1, kind: AWSNodeTemplate, name: mine}
  requirements:
    - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}
"""
TEMPLATE = """
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata: {name: mine}
spec:
  subnetSelector: {team: a}
  securityGroupSelector: {team: a}
"""
BETA_POOL = """
apiVersion: karpenter.sh/v1beta1
kind: NodePool
metadata: {name: beta}
spec:
  template:
    spec:
      nodeClassRef: {apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClass, name: mine}
      requirements: []
"""
BETA_CLASS = """
apiVersion: karpenter.k8s.aws/v1beta1
kind: EC2NodeClass
metadata: {name: mine}
spec:
  amiFamily: AL2023
  role: nodes
  subnetSelectorTerms: [{tags: {team: a}}]
  securityGroupSelectorTerms: [{id: sg-1}]
"""


def convert(*texts: str) -> list[RewrittenObject]:
    return convert_files([("m.yaml", "---\n".join(dedent(text) for text in texts).encode())])


def convert_one(text: str, kind: str) -> RewrittenObject:
    return next(rewritten for rewritten in convert(text) if rewritten.value["kind"] == kind)


def notes_by_field(obj: RewrittenObject) -> dict[str, str]:
    """Return the notes by field, without that on the origin of the object."""
    return {format_path(path): note for path, note in obj.notes if path}


def conversion_errors(*texts: str) -> list[str]:
    with pytest.raises(InvalidInputError) as caught:
        convert(*texts)
    return [str(error) for error in caught.value.errors]


def disruption(fields: str) -> tuple[Any, dict[str, str]]:
    pool = convert_one(PROVISIONER + fields, "NodePool")
    return pool.value["spec"]["disruption"], notes_by_field(pool)


def test_ttl_seconds_after_empty_becomes_the_policy_when_empty() -> None:
    rewritten, note = disruption("  ttlSecondsAfterEmpty: 30\n")

    assert rewritten["consolidationPolicy"] == "WhenEmpty"
    assert rewritten["consolidateAfter"] == "30s"
    assert "ttlSecondsAfterEmpty: 30" in note["spec.disruption.consolidateAfter"]


def test_budgets_allow_all_empty_nodes_at_once_as_in_v1alpha5() -> None:
    rewritten, note = disruption("  ttlSecondsAfterEmpty: 30\n")

    assert rewritten["budgets"][0] == {"nodes": "100%", "reasons": ["Empty"]}
    assert "10%" in note["spec.disruption.budgets"]


def test_consolidation_enabled_becomes_a_consolidation_policy() -> None:
    rewritten, note = disruption("  consolidation: {enabled: true}\n")

    assert rewritten["consolidationPolicy"] == "WhenEmptyOrUnderutilized"
    assert rewritten["consolidateAfter"] == "0s"
    assert "consolidation.enabled" in note["spec.disruption.consolidationPolicy"]


def test_a_provisioner_without_consolidation_keeps_its_nodes() -> None:
    rewritten, note = disruption("")

    assert rewritten == {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}
    assert "empty nodes were kept" in note["spec.disruption.consolidationPolicy"]


def test_expiry_is_noted_as_forceful() -> None:
    pool = convert_one(PROVISIONER + "  ttlSecondsUntilExpired: 3600\n", "NodePool")

    assert pool.value["spec"]["template"]["spec"]["expireAfter"] == "3600s"
    assert "forceful" in notes_by_field(pool)["spec.template.spec.expireAfter"]


def test_nodes_without_expiry_do_not_get_the_v1_default() -> None:
    pool = convert_one(PROVISIONER, "NodePool")

    assert pool.value["spec"]["template"]["spec"]["expireAfter"] == "Never"
    assert "720h" in notes_by_field(pool)["spec.template.spec.expireAfter"]


def test_each_requirement_added_by_the_webhook_has_a_note() -> None:
    pool = convert_one(PROVISIONER, "NodePool")

    keys = [requirement["key"] for requirement in pool.value["spec"]["template"]["spec"]["requirements"]]
    assert keys[1:] == ["kubernetes.io/os", "kubernetes.io/arch", "karpenter.sh/capacity-type"]
    for at in (1, 2, 3):
        assert "webhook" in notes_by_field(pool)[f"spec.template.spec.requirements[{at}]"]


def test_a_reference_to_a_node_template_becomes_one_to_an_ec2nodeclass() -> None:
    pool = convert_one(PROVISIONER, "NodePool")

    assert pool.value["spec"]["template"]["spec"]["nodeClassRef"] == {
        "group": "karpenter.k8s.aws",
        "kind": "EC2NodeClass",
        "name": "mine",
    }


def test_metadata_set_by_the_cluster_is_dropped() -> None:
    text = PROVISIONER.replace(
        "{name: old}",
        "{name: old, uid: u, resourceVersion: '7', generation: 3, labels: {a: b}, finalizers: [f/f]"
        ", annotations: {karpenter.sh/provisioner-hash: '1', mine: x}}",
    )

    pool = convert_one(text + "status: {resources: {cpu: 1}}\n", "NodePool")

    assert pool.value["metadata"] == {
        "name": "old",
        "labels": {"a": "b"},
        "finalizers": ["f/f"],
        "annotations": {"mine": "x"},
    }
    assert "status" not in pool.value


def test_an_inline_provider_becomes_a_node_class_named_after_the_provisioner() -> None:
    text = PROVISIONER.replace(
        "providerRef: {apiVersion: karpenter.k8s.aws/v1alpha1, kind: AWSNodeTemplate, name: mine}",
        "provider: {instanceProfile: p, subnetSelector: {a: b}, tags: {x: y}}",
    )

    pool, node_class = convert(text)

    assert pool.value["spec"]["template"]["spec"]["nodeClassRef"]["name"] == "old"
    assert node_class.name == "old"
    assert node_class.value["spec"]["instanceProfile"] == "p"
    assert node_class.value["spec"]["tags"] == {"x": "y"}
    assert node_class.value["spec"]["securityGroupSelectorTerms"] == [
        {"tags": {"kubernetes.io/cluster/$CLUSTER_NAME": "*"}}
    ]
    assert "Insert your cluster name" in notes_by_field(node_class)["spec.securityGroupSelectorTerms"]


@pytest.mark.parametrize(
    ("old", "terms", "note"),
    [
        ("{aws-ids: 'subnet-1, subnet-2'}", [{"id": "subnet-1"}, {"id": "subnet-2"}], ""),
        ("{'aws::ids': subnet-1, team: a}", [{"id": "subnet-1"}], "excludes other fields"),
        ("{team: 'a,b'}", [{"tags": {"team": "a"}}, {"tags": {"team": "b"}}], "comma-separated"),
        ("{team: '*', env: x}", [{"tags": {"team": "*", "env": "x"}}], ""),
    ],
)
def test_a_selector_becomes_terms(old: str, terms: list[Any], note: str) -> None:
    text = TEMPLATE.replace(
        "subnetSelector: {team: a}", f"subnetSelector: {old}\n  associatePublicIPAddress: true"
    )

    rewritten = convert_one(text, "EC2NodeClass")

    assert rewritten.value["spec"]["subnetSelectorTerms"] == terms
    assert note in notes_by_field(rewritten).get("spec.subnetSelectorTerms", "")


@pytest.mark.parametrize(
    ("old", "terms"),
    [
        ("{aws-ids: ami-1, team: a}", [{"id": "ami-1"}]),
        (
            "{'aws::name': 'x,y', 'aws::owners': self}",
            [{"name": "x", "owner": "self"}, {"name": "y", "owner": "self"}],
        ),
        ("{team: a, 'aws::owners': '1,2'}", [
            {"tags": {"team": "a"}, "owner": "1"},
            {"tags": {"team": "a"}, "owner": "2"},
        ]),
    ],
)  # fmt: skip
def test_an_ami_selector_becomes_one_term_per_combination(old: str, terms: list[Any]) -> None:
    rewritten = convert_one(TEMPLATE + f"  amiSelector: {old}\n  amiFamily: AL2\n", "EC2NodeClass")

    assert rewritten.value["spec"]["amiSelectorTerms"] == terms
    assert rewritten.value["spec"]["amiFamily"] == "AL2"


def test_an_ami_family_without_selector_becomes_an_alias() -> None:
    rewritten = convert_one(TEMPLATE + "  amiFamily: Bottlerocket\n", "EC2NodeClass")

    assert rewritten.value["spec"]["amiSelectorTerms"] == [{"alias": "bottlerocket@latest"}]
    assert "amiFamily" not in rewritten.value["spec"]
    assert "alias" in notes_by_field(rewritten)["spec.amiSelectorTerms"]


def test_ubuntu_becomes_al2_with_the_ubuntu_block_device() -> None:
    text = TEMPLATE + "  amiFamily: Ubuntu\n  amiSelector: {aws-ids: ami-1}\n"

    rewritten = convert_one(text, "EC2NodeClass")

    spec = rewritten.value["spec"]
    assert (spec["amiFamily"], spec["amiSelectorTerms"]) == ("AL2", [{"id": "ami-1"}])
    assert spec["blockDeviceMappings"] == [
        {
            "deviceName": "/dev/sda1",
            "rootVolume": True,
            "ebs": {"volumeSize": "20Gi", "volumeType": "gp3", "encrypted": True},
        }
    ]
    marks = rewritten.value["metadata"]["annotations"]
    assert marks == {"compatibility.karpenter.k8s.aws/v1beta1-ubuntu": "amiFamily,blockDeviceMappings"}


@pytest.mark.parametrize("text", [TEMPLATE + "  amiFamily: Ubuntu\n", BETA_CLASS])
def test_ubuntu_without_ami_gets_a_placeholder(text: str) -> None:
    rewritten = convert_one(text.replace("AL2023", "Ubuntu"), "EC2NodeClass")

    assert rewritten.value["spec"]["amiSelectorTerms"] == [{"id": "ami-placeholder"}]
    assert "insert the ID of your AMI" in notes_by_field(rewritten)["spec.amiSelectorTerms[0]"]


@pytest.mark.parametrize("text", [TEMPLATE, BETA_CLASS])
@pytest.mark.parametrize("options", ["", "  metadataOptions: {httpTokens: optional}\n"])
def test_the_hop_limit_of_the_metadata_service_stays_two(text: str, options: str) -> None:
    rewritten = convert_one(text + options, "EC2NodeClass")

    assert rewritten.value["spec"]["metadataOptions"]["httpPutResponseHopLimit"] == 2
    assert "in v1 it is 1" in notes_by_field(rewritten)["spec.metadataOptions.httpPutResponseHopLimit"]


def test_a_given_hop_limit_is_kept() -> None:
    text = TEMPLATE + "  metadataOptions: {httpPutResponseHopLimit: 1}\n"

    rewritten = convert_one(text, "EC2NodeClass")

    assert rewritten.value["spec"]["metadataOptions"] == {"httpPutResponseHopLimit": 1}


def test_a_node_class_without_profile_gets_a_role_placeholder() -> None:
    rewritten = convert_one(TEMPLATE, "EC2NodeClass")

    assert rewritten.value["spec"]["role"] == "$KARPENTER_NODE_ROLE"
    assert "insert the IAM role" in notes_by_field(rewritten)["spec.role"]


def test_kubelet_settings_move_to_the_node_class() -> None:
    kubelet = "  kubeletConfiguration: {maxPods: 20, containerRuntime: dockerd}\n"

    pool, node_class = convert(PROVISIONER + kubelet, TEMPLATE)

    assert node_class.value["spec"]["kubelet"] == {"maxPods": 20}
    assert "Provisioner old" in notes_by_field(node_class)["spec.kubelet"]
    assert "containerd" in notes_by_field(pool)["spec"]


def test_a_node_class_shared_by_nodepools_is_copied_for_kubelet_settings() -> None:
    beta = BETA_POOL + "      kubelet: {maxPods: 20}\n"

    objects = convert(beta, TEMPLATE, PROVISIONER)

    classes = {rewritten.name: rewritten.value["spec"].get("kubelet") for rewritten in objects[1:3]}
    assert classes == {"mine": None, "mine-beta": {"maxPods": 20}}
    reference = objects[0].value["spec"]["template"]["spec"]["nodeClassRef"]
    assert reference["name"] == "mine-beta"


def test_kubelet_settings_without_their_node_class_cannot_be_converted() -> None:
    assert conversion_errors(PROVISIONER + "  kubeletConfiguration: {maxPods: 20}\n") == [
        "m.yaml:9 spec.kubeletConfiguration: belongs to EC2NodeClass 'mine' in v1, which is not in "
        "the files; convert both together"
    ]


def test_a_v1beta1_nodepool_gets_v1_names() -> None:
    text = BETA_POOL.replace("spec:\n  template", "spec:\n  disruption: {expireAfter: 24h}\n  template")

    pool = convert_one(text, "NodePool")

    spec = pool.value["spec"]
    assert spec["template"]["spec"]["expireAfter"] == "24h"
    assert spec["template"]["spec"]["nodeClassRef"]["group"] == "karpenter.k8s.aws"
    assert spec["disruption"] == {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": "0s"}
    assert "forceful" in notes_by_field(pool)["spec.template.spec.expireAfter"]
    assert "WhenUnderutilized" in notes_by_field(pool)["spec.disruption.consolidationPolicy"]


def test_v1alpha5_claims_become_nodeclaims_with_v1_labels() -> None:
    [claim] = convert("""
        apiVersion: karpenter.sh/v1alpha5
        kind: Machine
        metadata: {name: old-x, labels: {karpenter.sh/provisioner-name: old}}
        spec:
          machineTemplateRef: {name: mine}
          requirements: [{key: karpenter.sh/provisioner-name, operator: In, values: [old]}]
    """)

    assert claim.value["kind"] == "NodeClaim"
    assert claim.value["metadata"]["labels"] == {"karpenter.sh/nodepool": "old"}
    assert claim.value["spec"]["requirements"][0]["key"] == "karpenter.sh/nodepool"
    assert claim.value["spec"]["nodeClassRef"]["name"] == "mine"


WORKLOAD = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata:
      labels: {app: web}
      annotations: {karpenter.sh/do-not-evict: "true"}
    spec:
      nodeSelector: {karpenter.sh/provisioner-name: old}
      tolerations: [{key: karpenter.sh/disruption, value: disrupting, effect: NoSchedule}]
      topologySpreadConstraints:
        - {topologyKey: karpenter.sh/provisioner-name, maxSkew: 1, whenUnsatisfiable: DoNotSchedule}
      containers: [{name: web, image: web}]
"""


def test_workloads_use_v1_names() -> None:
    [web] = convert(WORKLOAD)

    template = web.value["spec"]["template"]
    assert template["metadata"]["annotations"] == {"karpenter.sh/do-not-disrupt": "true"}
    assert template["spec"]["nodeSelector"] == {"karpenter.sh/nodepool": "old"}
    assert template["spec"]["tolerations"] == [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]
    spread = template["spec"]["topologySpreadConstraints"][0]
    assert spread["topologyKey"] == "karpenter.sh/nodepool"
    assert len(web.notes) == 4


def test_two_legacy_annotations_become_one() -> None:
    text = WORKLOAD.replace(
        '{karpenter.sh/do-not-evict: "true"}',
        '{karpenter.sh/do-not-evict: "true", karpenter.sh/do-not-consolidate: "true"}',
    )

    [web] = convert(text)

    annotations = web.value["spec"]["template"]["metadata"]["annotations"]
    assert annotations == {"karpenter.sh/do-not-disrupt": "true"}


def test_a_removed_label_is_an_error() -> None:
    text = WORKLOAD.replace("karpenter.sh/provisioner-name: old", "karpenter.k8s.aws/instance-pods: x")

    [mistake] = conversion_errors(text)

    assert mistake.startswith("m.yaml:12 spec.template.spec.nodeSelector")
    assert "was removed in v1beta1" in mistake


def test_an_unchanged_object_keeps_its_text() -> None:
    own = "# about the cache\napiVersion: v1\nkind: Service  # mine\nmetadata: {name: cache}\n"

    objects = convert(own, PROVISIONER, own.replace("cache", "other"))

    assert objects[0].as_yaml() == own
    assert objects[2].as_yaml() == own.replace("cache", "other")


def test_global_settings_are_noted_to_have_no_effect() -> None:
    [rewritten] = convert("""
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: karpenter-global-settings}
        data: {aws.clusterName: demo}
    """)

    assert "This ConfigMap has no effect" in rewritten.as_yaml()


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (PROVISIONER + "  ttlSecondsAfterEmtpy: 30\n", "did you mean 'ttlSecondsAfterEmpty'?"),
        (
            PROVISIONER + "  ttlSecondsAfterEmpty: 30\n  consolidation: {enabled: true}\n",
            "cannot be combined with consolidation.enabled",
        ),
        (PROVISIONER + "  provider: {instanceProfile: p}\n", "cannot be combined with provider"),
        (TEMPLATE + "  launchTemplate: mine\n", "custom launch templates"),
        (TEMPLATE.replace("subnetSelector: {team: a}", "amiFamily: AL2"), "is missing"),
        (TEMPLATE + "  amiFamily: AL3\n", "m.yaml:8 spec.amiFamily: 'al3@latest' is not an alias"),
    ],
)
def test_objects_that_legacy_webhooks_rejected_are_rejected(text: str, note: str) -> None:
    assert note in "\n".join(conversion_errors(text))


def test_all_errors_are_reported_at_once_with_file_line_and_field() -> None:
    bad_kubelet = "  kubeletConfiguration: {maxPods: many}\n  weight: 0\n"

    assert [
        message.split(": ")[0]
        for message in conversion_errors(PROVISIONER + bad_kubelet, TEMPLATE + "  role: 7\n")
    ] == ["m.yaml:9 spec.kubeletConfiguration.maxPods", "m.yaml:10 spec.weight", "m.yaml:19 spec.role"]


def test_an_inline_provider_and_a_node_template_of_one_name_are_an_error() -> None:
    inline = PROVISIONER.replace("name: old", "name: mine").replace(
        "providerRef: {apiVersion: karpenter.k8s.aws/v1alpha1, kind: AWSNodeTemplate, name: mine}",
        "provider: {subnetSelector: {a: b}, securityGroupSelector: {a: b}}",
    )

    assert ["would exist twice" in message for message in conversion_errors(inline, TEMPLATE)] == [True]


@pytest.mark.parametrize("text", [PROVISIONER, TEMPLATE, BETA_POOL, BETA_CLASS, WORKLOAD])
def test_converted_objects_are_v1_and_convert_to_themselves(text: str) -> None:
    once = "---\n".join(rewritten.as_yaml() for rewritten in convert(text))

    again = convert_files([("n.yaml", once.encode())])

    assert read_documents([("n.yaml", once.encode())])
    assert "---\n".join(rewritten.as_yaml() for rewritten in again) == once
    assert all(yaml.safe_load_all(once))
