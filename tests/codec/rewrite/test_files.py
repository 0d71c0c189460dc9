"""Older Karpenter objects rewritten as v1 objects, with remarks on what changed."""

from textwrap import dedent
from typing import Any

import pytest
import yaml

from dovetail.codec.rewrite.files import convert_files
from dovetail.codec.rewrite.rewritten_object import Rewritten
from dovetail.codec.rewrite.round_trip import read_documents
from dovetail.codec.text.field_path import show
from dovetail.errors import BadInput

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


def converted(*texts: str) -> list[Rewritten]:
    return convert_files([("m.yaml", "---\n".join(dedent(text) for text in texts).encode())])


def the_one(text: str, kind: str) -> Rewritten:
    return next(one for one in converted(text) if one.value["kind"] == kind)


def remarked(one: Rewritten) -> dict[str, str]:
    """Return the remarks by field, the one on where the object comes from left out."""
    return {show(path): said for path, said in one.remarks if path}


def wrong(*texts: str) -> list[str]:
    with pytest.raises(BadInput) as caught:
        converted(*texts)
    return [str(one) for one in caught.value.mistakes]


def disruption(fields: str) -> tuple[Any, dict[str, str]]:
    pool = the_one(PROVISIONER + fields, "NodePool")
    return pool.value["spec"]["disruption"], remarked(pool)


def test_seconds_after_empty_become_a_policy_of_empty_nodes_only() -> None:
    found, said = disruption("  ttlSecondsAfterEmpty: 30\n")

    assert found["consolidationPolicy"] == "WhenEmpty"
    assert found["consolidateAfter"] == "30s"
    assert "ttlSecondsAfterEmpty: 30" in said["spec.disruption.consolidateAfter"]


def test_all_empty_nodes_may_go_at_once_as_they_did() -> None:
    found, said = disruption("  ttlSecondsAfterEmpty: 30\n")

    assert found["budgets"][0] == {"nodes": "100%", "reasons": ["Empty"]}
    assert "10%" in said["spec.disruption.budgets"]


def test_consolidation_becomes_the_policy_of_that_meaning() -> None:
    found, said = disruption("  consolidation: {enabled: true}\n")

    assert found["consolidationPolicy"] == "WhenEmptyOrUnderutilized"
    assert found["consolidateAfter"] == "0s"
    assert "consolidation.enabled" in said["spec.disruption.consolidationPolicy"]


def test_a_provisioner_that_kept_its_nodes_keeps_them() -> None:
    found, said = disruption("")

    assert found == {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "Never"}
    assert "stayed even when empty" in said["spec.disruption.consolidationPolicy"]


def test_expiry_tells_that_it_is_forceful_today() -> None:
    pool = the_one(PROVISIONER + "  ttlSecondsUntilExpired: 3600\n", "NodePool")

    assert pool.value["spec"]["template"]["spec"]["expireAfter"] == "3600s"
    assert "forceful" in remarked(pool)["spec.template.spec.expireAfter"]


def test_nodes_that_never_expired_do_not_take_the_new_default() -> None:
    pool = the_one(PROVISIONER, "NodePool")

    assert pool.value["spec"]["template"]["spec"]["expireAfter"] == "Never"
    assert "720h" in remarked(pool)["spec.template.spec.expireAfter"]


def test_each_requirement_that_the_webhook_filled_in_says_so() -> None:
    pool = the_one(PROVISIONER, "NodePool")

    keys = [one["key"] for one in pool.value["spec"]["template"]["spec"]["requirements"]]
    assert keys[1:] == ["kubernetes.io/os", "kubernetes.io/arch", "karpenter.sh/capacity-type"]
    for at in (1, 2, 3):
        assert "webhook" in remarked(pool)[f"spec.template.spec.requirements[{at}]"]


def test_a_node_template_that_is_referred_to_is_an_ec2_node_class() -> None:
    pool = the_one(PROVISIONER, "NodePool")

    assert pool.value["spec"]["template"]["spec"]["nodeClassRef"] == {
        "group": "karpenter.k8s.aws",
        "kind": "EC2NodeClass",
        "name": "mine",
    }


def test_only_what_the_author_said_of_the_object_stays_of_its_metadata() -> None:
    text = PROVISIONER.replace(
        "{name: old}",
        "{name: old, uid: u, resourceVersion: '7', generation: 3, labels: {a: b}, finalizers: [f/f]"
        ", annotations: {karpenter.sh/provisioner-hash: '1', mine: x}}",
    )

    pool = the_one(text + "status: {resources: {cpu: 1}}\n", "NodePool")

    assert pool.value["metadata"] == {
        "name": "old",
        "labels": {"a": "b"},
        "finalizers": ["f/f"],
        "annotations": {"mine": "x"},
    }
    assert "status" not in pool.value


def test_an_inline_provider_becomes_a_class_named_like_its_provisioner() -> None:
    text = PROVISIONER.replace(
        "providerRef: {apiVersion: karpenter.k8s.aws/v1alpha1, kind: AWSNodeTemplate, name: mine}",
        "provider: {instanceProfile: p, subnetSelector: {a: b}, tags: {x: y}}",
    )

    pool, node_class = converted(text)

    assert pool.value["spec"]["template"]["spec"]["nodeClassRef"]["name"] == "old"
    assert node_class.name == "old"
    assert node_class.value["spec"]["instanceProfile"] == "p"
    assert node_class.value["spec"]["tags"] == {"x": "y"}
    assert node_class.value["spec"]["securityGroupSelectorTerms"] == [
        {"tags": {"kubernetes.io/cluster/$CLUSTER_NAME": "*"}}
    ]
    assert "Name your cluster" in remarked(node_class)["spec.securityGroupSelectorTerms"]


@pytest.mark.parametrize(
    ("old", "terms", "said"),
    [
        ("{aws-ids: 'subnet-1, subnet-2'}", [{"id": "subnet-1"}, {"id": "subnet-2"}], ""),
        ("{'aws::ids': subnet-1, team: a}", [{"id": "subnet-1"}], "stands alone"),
        ("{team: 'a,b'}", [{"tags": {"team": "a"}}, {"tags": {"team": "b"}}], "commas"),
        ("{team: '*', env: x}", [{"tags": {"team": "*", "env": "x"}}], ""),
    ],
)
def test_a_selector_becomes_terms(old: str, terms: list[Any], said: str) -> None:
    text = TEMPLATE.replace(
        "subnetSelector: {team: a}", f"subnetSelector: {old}\n  associatePublicIPAddress: true"
    )

    found = the_one(text, "EC2NodeClass")

    assert found.value["spec"]["subnetSelectorTerms"] == terms
    assert said in remarked(found).get("spec.subnetSelectorTerms", "")


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
def test_a_selector_of_images_becomes_the_product_of_its_parts(old: str, terms: list[Any]) -> None:
    found = the_one(TEMPLATE + f"  amiSelector: {old}\n  amiFamily: AL2\n", "EC2NodeClass")

    assert found.value["spec"]["amiSelectorTerms"] == terms
    assert found.value["spec"]["amiFamily"] == "AL2"


def test_a_family_alone_becomes_an_alias() -> None:
    found = the_one(TEMPLATE + "  amiFamily: Bottlerocket\n", "EC2NodeClass")

    assert found.value["spec"]["amiSelectorTerms"] == [{"alias": "bottlerocket@latest"}]
    assert "amiFamily" not in found.value["spec"]
    assert "alias" in remarked(found)["spec.amiSelectorTerms"]


def test_ubuntu_boots_as_al2_with_the_disk_it_had() -> None:
    text = TEMPLATE + "  amiFamily: Ubuntu\n  amiSelector: {aws-ids: ami-1}\n"

    found = the_one(text, "EC2NodeClass")

    spec = found.value["spec"]
    assert (spec["amiFamily"], spec["amiSelectorTerms"]) == ("AL2", [{"id": "ami-1"}])
    assert spec["blockDeviceMappings"] == [
        {
            "deviceName": "/dev/sda1",
            "rootVolume": True,
            "ebs": {"volumeSize": "20Gi", "volumeType": "gp3", "encrypted": True},
        }
    ]
    marks = found.value["metadata"]["annotations"]
    assert marks == {
        "compatibility.karpenter.k8s.aws/v1beta1-ubuntu": "amiFamily,blockDeviceMappings"
    }


@pytest.mark.parametrize("text", [TEMPLATE + "  amiFamily: Ubuntu\n", BETA_CLASS])
def test_ubuntu_without_an_image_gets_a_place_to_name_it(text: str) -> None:
    found = the_one(text.replace("AL2023", "Ubuntu"), "EC2NodeClass")

    assert found.value["spec"]["amiSelectorTerms"] == [{"id": "ami-placeholder"}]
    assert "put the id of yours here" in remarked(found)["spec.amiSelectorTerms[0]"]


@pytest.mark.parametrize("text", [TEMPLATE, BETA_CLASS])
@pytest.mark.parametrize("options", ["", "  metadataOptions: {httpTokens: optional}\n"])
def test_pods_reach_the_metadata_service_as_before(text: str, options: str) -> None:
    found = the_one(text + options, "EC2NodeClass")

    assert found.value["spec"]["metadataOptions"]["httpPutResponseHopLimit"] == 2
    assert "is 1 in v1" in remarked(found)["spec.metadataOptions.httpPutResponseHopLimit"]


def test_a_limit_of_hops_that_was_chosen_stays() -> None:
    text = TEMPLATE + "  metadataOptions: {httpPutResponseHopLimit: 1}\n"

    found = the_one(text, "EC2NodeClass")

    assert found.value["spec"]["metadataOptions"] == {"httpPutResponseHopLimit": 1}


def test_a_class_without_profile_gets_a_place_to_name_the_role() -> None:
    found = the_one(TEMPLATE, "EC2NodeClass")

    assert found.value["spec"]["role"] == "$KARPENTER_NODE_ROLE"
    assert "name the IAM role" in remarked(found)["spec.role"]


def test_kubelet_settings_move_to_the_class() -> None:
    kubelet = "  kubeletConfiguration: {maxPods: 20, containerRuntime: dockerd}\n"

    pool, node_class = converted(PROVISIONER + kubelet, TEMPLATE)

    assert node_class.value["spec"]["kubelet"] == {"maxPods": 20}
    assert "Provisioner old" in remarked(node_class)["spec.kubelet"]
    assert "containerd" in remarked(pool)["spec"]


def test_a_class_that_other_pools_share_is_copied_for_kubelet_settings() -> None:
    beta = BETA_POOL + "      kubelet: {maxPods: 20}\n"

    found = converted(beta, TEMPLATE, PROVISIONER)

    classes = {one.name: one.value["spec"].get("kubelet") for one in found[1:3]}
    assert classes == {"mine": None, "mine-beta": {"maxPods": 20}}
    reference = found[0].value["spec"]["template"]["spec"]["nodeClassRef"]
    assert reference["name"] == "mine-beta"


def test_kubelet_settings_without_their_class_cannot_be_converted() -> None:
    assert wrong(PROVISIONER + "  kubeletConfiguration: {maxPods: 20}\n") == [
        "m.yaml:9 spec.kubeletConfiguration: belongs to EC2NodeClass 'mine' today, which is not "
        "among the files; convert it together with this"
    ]


def test_a_beta_pool_keeps_its_meaning_under_todays_names() -> None:
    text = BETA_POOL.replace(
        "spec:\n  template", "spec:\n  disruption: {expireAfter: 24h}\n  template"
    )

    pool = the_one(text, "NodePool")

    spec = pool.value["spec"]
    assert spec["template"]["spec"]["expireAfter"] == "24h"
    assert spec["template"]["spec"]["nodeClassRef"]["group"] == "karpenter.k8s.aws"
    assert spec["disruption"] == {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "0s",
    }
    assert "forceful" in remarked(pool)["spec.template.spec.expireAfter"]
    assert "WhenUnderutilized" in remarked(pool)["spec.disruption.consolidationPolicy"]


def test_machines_become_claims_with_todays_labels() -> None:
    [claim] = converted("""
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


def test_workloads_ask_by_todays_names() -> None:
    [web] = converted(WORKLOAD)

    template = web.value["spec"]["template"]
    assert template["metadata"]["annotations"] == {"karpenter.sh/do-not-disrupt": "true"}
    assert template["spec"]["nodeSelector"] == {"karpenter.sh/nodepool": "old"}
    assert template["spec"]["tolerations"] == [
        {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
    ]
    spread = template["spec"]["topologySpreadConstraints"][0]
    assert spread["topologyKey"] == "karpenter.sh/nodepool"
    assert len(web.remarks) == 4


def test_two_old_annotations_of_one_meaning_become_one() -> None:
    text = WORKLOAD.replace(
        '{karpenter.sh/do-not-evict: "true"}',
        '{karpenter.sh/do-not-evict: "true", karpenter.sh/do-not-consolidate: "true"}',
    )

    [web] = converted(text)

    annotations = web.value["spec"]["template"]["metadata"]["annotations"]
    assert annotations == {"karpenter.sh/do-not-disrupt": "true"}


def test_a_label_that_is_gone_cannot_be_asked_for() -> None:
    text = WORKLOAD.replace(
        "karpenter.sh/provisioner-name: old", "karpenter.k8s.aws/instance-pods: x"
    )

    [mistake] = wrong(text)

    assert mistake.startswith("m.yaml:12 spec.template.spec.nodeSelector")
    assert "no label of nodes since v1beta1" in mistake


def test_an_object_that_nothing_happens_to_keeps_its_own_text() -> None:
    own = "# about the cache\napiVersion: v1\nkind: Service  # mine\nmetadata: {name: cache}\n"

    found = converted(own, PROVISIONER, own.replace("cache", "other"))

    assert found[0].as_yaml() == own
    assert found[2].as_yaml() == own.replace("cache", "other")


def test_settings_of_the_old_controller_are_told_to_be_unread() -> None:
    [found] = converted("""
        apiVersion: v1
        kind: ConfigMap
        metadata: {name: karpenter-global-settings}
        data: {aws.clusterName: demo}
    """)

    assert "Nothing reads this ConfigMap" in found.as_yaml()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (PROVISIONER + "  ttlSecondsAfterEmtpy: 30\n", "did you mean 'ttlSecondsAfterEmpty'?"),
        (
            PROVISIONER + "  ttlSecondsAfterEmpty: 30\n  consolidation: {enabled: true}\n",
            "goes with consolidation.enabled never",
        ),
        (PROVISIONER + "  provider: {instanceProfile: p}\n", "goes with provider never"),
        (TEMPLATE + "  launchTemplate: mine\n", "launch templates of one's own"),
        (TEMPLATE.replace("subnetSelector: {team: a}", "amiFamily: AL2"), "is missing"),
        (TEMPLATE + "  amiFamily: AL3\n", "m.yaml:8 spec.amiFamily: 'al3@latest' is no alias"),
    ],
)
def test_what_the_old_webhooks_refused_is_refused(text: str, said: str) -> None:
    assert said in "\n".join(wrong(text))


def test_all_mistakes_are_told_at_once_with_their_places() -> None:
    bad_kubelet = "  kubeletConfiguration: {maxPods: many}\n  weight: 0\n"

    assert [
        one.split(": ")[0] for one in wrong(PROVISIONER + bad_kubelet, TEMPLATE + "  role: 7\n")
    ] == [
        "m.yaml:9 spec.kubeletConfiguration.maxPods",
        "m.yaml:10 spec.weight",
        "m.yaml:19 spec.role",
    ]


def test_a_class_of_a_provisioner_may_not_meet_a_template_of_the_same_name() -> None:
    inline = PROVISIONER.replace("name: old", "name: mine").replace(
        "providerRef: {apiVersion: karpenter.k8s.aws/v1alpha1, kind: AWSNodeTemplate, name: mine}",
        "provider: {subnetSelector: {a: b}, securityGroupSelector: {a: b}}",
    )

    assert ["there twice" in one for one in wrong(inline, TEMPLATE)] == [True]


@pytest.mark.parametrize("text", [PROVISIONER, TEMPLATE, BETA_POOL, BETA_CLASS, WORKLOAD])
def test_what_is_written_reads_as_v1_and_does_not_change_again(text: str) -> None:
    once = "---\n".join(one.as_yaml() for one in converted(text))

    again = convert_files([("n.yaml", once.encode())])

    assert read_documents([("n.yaml", once.encode())])
    assert "---\n".join(one.as_yaml() for one in again) == once
    assert all(yaml.safe_load_all(once))
