"""NodePools, NodeClaims and node classes of all versions are decoded."""

from datetime import timedelta

import pytest

from dovetail.model.karpenter.ec2nodeclass import CapacityReservation, EC2NodeClass
from dovetail.model.karpenter.nodepool import Budget, ConsolidationPolicy, NodePool
from dovetail.model.kube.requirements import Operator
from tests.codec.sources import POOL, error_messages, read_manifest, validation_errors

CLASS = """
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: default}
spec:
  role: nodes
  amiSelectorTerms: [{alias: bottlerocket@latest}]
  subnetSelectorTerms: [{tags: {a: b}}]
  securityGroupSelectorTerms: [{id: sg-1}]
"""


def the_pool(text: str) -> NodePool:
    return read_manifest(text).nodepools[0]


def the_class(text: str) -> EC2NodeClass:
    return read_manifest(text).node_classes[0]


def requirements(pool: NodePool) -> dict[str, tuple[Operator, tuple[str, ...]]]:
    return {spec.key: (spec.operator, spec.values) for spec in pool.template.requirements}


def test_unset_nodepool_fields_have_karpenters_defaults() -> None:
    pool = the_pool(POOL)

    assert pool.template.expire_after == timedelta(hours=720)
    assert pool.disruption.consolidate_after == timedelta()
    assert pool.disruption.policy is ConsolidationPolicy.WHEN_EMPTY_OR_UNDERUTILIZED
    assert pool.disruption.budgets == (Budget("10%"),)
    assert (pool.limits, pool.weight, pool.replicas, pool.ready) == (None, 0, None, True)


def test_every_nodepool_field_is_decoded() -> None:
    pool = the_pool("""
        apiVersion: karpenter.sh/v1
        kind: NodePool
        metadata: {name: p}
        spec:
          weight: 50
          limits: {cpu: 100, memory: 1Ti, nodes: 5}
          disruption:
            consolidateAfter: Never
            consolidationPolicy: WhenEmpty
            budgets:
              - {nodes: "5", schedule: "@daily", duration: 1h30m, reasons: [Drifted]}
          template:
            metadata: {labels: {team: a}, annotations: {b: c}}
            spec:
              nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: big}
              expireAfter: Never
              terminationGracePeriod: 10m
              taints: [{key: t, value: v, effect: NoSchedule}]
              startupTaints: [{key: s, effect: NoExecute}]
              requirements:
                - {key: karpenter.k8s.aws/instance-cpu, operator: Gte, values: [4]}
                - key: node.kubernetes.io/instance-type
                  operator: Exists
                  minValues: 10
    """)

    assert pool.weight == 50
    assert pool.limits == {"cpu": 100_000, "memory": 1 << 40, "nodes": 5}
    assert pool.disruption.consolidate_after is None
    assert pool.disruption.policy is ConsolidationPolicy.WHEN_EMPTY
    assert pool.disruption.budgets == (Budget("5", "@daily", timedelta(minutes=90), ("Drifted",)),)
    assert pool.template.labels == {"team": "a"}
    assert pool.template.expire_after is None
    assert pool.template.termination_grace_period == timedelta(minutes=10)
    assert str(pool.template.taints[0]) == "t=v:NoSchedule"
    assert str(pool.template.startup_taints[0]) == "s:NoExecute"
    assert pool.template.requirements[0].values == ("4",)
    assert pool.template.requirements[1].min_values == 10
    assert pool.template.node_class.name == "big"


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", False)])
def test_readiness_of_a_nodepool_is_its_ready_condition(status: str, ready: bool) -> None:
    text = POOL + f"status: {{conditions: [{{type: Ready, status: '{status}'}}]}}\n"

    assert the_pool(text).ready is ready


def test_the_alias_of_an_ami_term_determines_the_ami_family() -> None:
    assert the_class(CLASS).ami_family == "Bottlerocket"
    assert the_class(CLASS.replace("bottlerocket@latest", "al2023@v1")).ami_family == "AL2023"


def test_node_class_fields_that_change_capacity_are_decoded() -> None:
    node_class = the_class(
        CLASS.replace("bottlerocket@latest", "al2023@latest")
        + """
  instanceStorePolicy: RAID0
  kubelet:
    maxPods: 110
    podsPerCore: 10
    kubeReserved: {cpu: 200m, memory: 1Gi}
    systemReserved: {memory: 100Mi}
    evictionHard: {memory.available: 5%}
  blockDeviceMappings:
    - {deviceName: /dev/xvda, ebs: {volumeSize: 4Gi}}
    - {deviceName: /dev/xvdb, ebs: {volumeSize: 100G}, rootVolume: true}
status:
  subnets:
    - {id: s2, zone: us-east-1b, zoneID: use1-az2}
    - {id: s1, zone: us-east-1a, zoneID: use1-az1}
  capacityReservations:
    - id: cr-1
      instanceType: p5.48xlarge
      availabilityZone: us-east-1a
      availableInstanceCount: 3
      reservationType: capacity-block
      state: expiring
"""
    )

    assert node_class.raid0
    assert node_class.kubelet.max_pods == 110
    assert node_class.kubelet.pods_per_core == 10
    assert node_class.kubelet.kube_reserved == {"cpu": 200, "memory": 1 << 30}
    assert node_class.kubelet.eviction_hard == {"memory.available": "5%"}
    assert [device.volume_bytes for device in node_class.block_devices] == [4 << 30, 100 * 10**9]
    assert [device.root for device in node_class.block_devices] == [False, True]
    assert node_class.zones == {"us-east-1a": "use1-az1", "us-east-1b": "use1-az2"}
    assert node_class.capacity_reservations == (
        CapacityReservation(
            id="cr-1",
            instance_type="p5.48xlarge",
            zone="us-east-1a",
            available_count=3,
            reservation_type="capacity-block",
            expiring=True,
        ),
    )


def test_a_node_class_without_status_has_no_zones() -> None:
    assert the_class(CLASS).zones is None


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  role: nodes\n", "", "needs role or instanceProfile, exactly one: neither is there"),
        ("  role: nodes\n", "  role: a\n  instanceProfile: b\n", "not both"),
        ("alias: bottlerocket@latest", "alias: bottlerocket", "write it as 'al2023@latest'"),
        ("alias: bottlerocket@latest", "alias: al2032@latest", "did you mean 'al2023@latest'?"),
        ("alias: bottlerocket@latest", "id: ami-1", "amiFamily: is required"),
        ("alias: bottlerocket@latest", "id: i-1", "'i-1' is not a valid ID"),
        ("{id: sg-1}", "{}", "needs one of tags, id, name"),
        ("{tags: {a: b}}", "{tags: {a: ''}}", "'*' is for any value"),
        ("subnetSelectorTerms", "subnetSelectors", "did you mean 'subnetSelectorTerms'?"),
        ("  role: nodes", "  role: nodes\n  amiFamily: al2023", "did you mean 'AL2023'?"),
        ("  role: nodes", "  role: nodes\n  kubelet: {maxPod: 1}", "did you mean 'maxPods'?"),
        ("  role: nodes", "  role: nodes\n  kubelet: {maxPods: -1}", "must be at least 0"),
        ("  role: nodes", "  role: nodes\n  kubelet: {nodeLabels: {a: b}}", "no such field in the kubelet"),
        ("  role: nodes", "  role: nodes\n  kubelet: {registryPullQPS: '5'}", "must be a whole number"),
        ("  role: nodes", "  role: nodes\n  kubelet: {registryPullQPS: 5}", "only AL2023 supports it"),
        ("  role: nodes", "  role: nodes\n  kubelet: {kubeReserved: {gpu: 1}}", "'gpu' cannot be reserved"),
        (
            "  role: nodes",
            "  role: nodes\n  kubelet: {evictionHard: {memory: 5%}}",
            "'memory' is not an eviction signal",
        ),
        (
            "  role: nodes",
            "  role: nodes\n  blockDeviceMappings: [{ebs: {volumeSize: 20GB}}]",
            "did you mean '20Gi'?",
        ),
        ("  role: nodes", "  role: nodes\n  instanceStorePolicy: raid0", "did you mean 'RAID0'?"),
    ],
)
def test_an_invalid_node_class_field_is_reported(old: str, new: str, message: str) -> None:
    assert any(message in error for error in error_messages(CLASS.replace(old, new, 1)))


def test_a_nodeclaim_is_decoded_with_its_status() -> None:
    text = """
        apiVersion: karpenter.sh/v1
        kind: NodeClaim
        metadata: {name: general-x, labels: {karpenter.sh/nodepool: general}}
        spec:
          nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
          resources: {requests: {cpu: 2}}
          requirements:
            - {key: karpenter.sh/nodepool, operator: In, values: [general]}
        status:
          providerID: aws:///us-east-1a/i-1
          capacity: {cpu: 4}
          allocatable: {cpu: 3900m}
    """

    claim = read_manifest(text).claims[0]

    assert claim.name == "general-x"
    assert claim.provider_id == "aws:///us-east-1a/i-1"
    assert claim.allocatable == {"cpu": 3900}
    assert claim.pool == "general"


PROVISIONER = """
apiVersion: karpenter.sh/v1alpha5
kind: Provisioner
metadata: {name: old}
spec:
  labels: {team: a}
  weight: 7
  limits: {resources: {cpu: 1000}}
  providerRef: {name: mine}
  taints: [{key: t, effect: NoSchedule}]
  requirements:
    - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
"""


def test_a_provisioner_becomes_a_nodepool_with_webhook_defaults() -> None:
    pool = the_pool(PROVISIONER)

    assert requirements(pool) == {
        "karpenter.sh/capacity-type": (Operator.IN, ("spot",)),
        "kubernetes.io/os": (Operator.IN, ("linux",)),
        "kubernetes.io/arch": (Operator.IN, ("amd64",)),
        "karpenter.k8s.aws/instance-category": (Operator.IN, ("c", "m", "r")),
        "karpenter.k8s.aws/instance-generation": (Operator.GT, ("2",)),
    }
    assert pool.template.labels == {"team": "a"}
    assert pool.template.node_class.name == "mine"
    assert pool.template.expire_after is None
    assert (pool.weight, pool.limits) == (7, {"cpu": 1_000_000})
    assert pool.disruption.policy is ConsolidationPolicy.WHEN_EMPTY
    assert pool.disruption.consolidate_after is None


def test_instance_category_defaults_are_not_added_if_types_are_selected() -> None:
    chosen = "    - {key: node.kubernetes.io/instance-type, operator: In, values: [m5.large]}\n"

    pool = the_pool(PROVISIONER + chosen)

    assert "karpenter.k8s.aws/instance-category" not in requirements(pool)


@pytest.mark.parametrize(
    ("fields", "policy", "after"),
    [
        ("consolidation: {enabled: true}", "WhenEmptyOrUnderutilized", timedelta()),
        ("ttlSecondsAfterEmpty: 30", "WhenEmpty", timedelta(seconds=30)),
        ("consolidation: {enabled: false}", "WhenEmpty", None),
    ],
)
def test_legacy_disruption_settings_keep_their_meaning(
    fields: str, policy: str, after: timedelta | None
) -> None:
    pool = the_pool(PROVISIONER + f"  ttlSecondsUntilExpired: 3600\n  {fields}\n")

    assert pool.disruption.policy == policy
    assert pool.disruption.consolidate_after == after
    assert pool.template.expire_after == timedelta(hours=1)


def test_an_inline_provider_becomes_a_node_class() -> None:
    text = PROVISIONER.replace(
        "providerRef: {name: mine}",
        "provider: {subnetSelector: {a: b}, securityGroupSelector: {aws-ids: 'sg-1,sg-2'}}",
    )

    inputs = read_manifest(text)

    assert inputs.nodepools[0].template.node_class.name == "old"
    assert [node_class.name for node_class in inputs.node_classes] == ["old"]
    assert inputs.node_classes[0].ami_family == "AL2"


def test_an_error_in_a_legacy_object_has_the_path_of_the_legacy_field() -> None:
    text = PROVISIONER.replace("[spot]", "[sport]").replace("cpu: 1000", "cpu: lots")

    assert [str(error).split(": ")[0] for error in validation_errors(text)] == [
        "m.yaml:8 spec.limits.resources.cpu",
        "m.yaml:12 spec.requirements[0].values",
    ]


def test_kubelet_settings_of_a_legacy_nodepool_move_to_its_node_class() -> None:
    kubelet = "  kubeletConfiguration: {maxPods: 20, containerRuntime: dockerd}\n"
    other = PROVISIONER.replace("name: old", "name: other")

    inputs = read_manifest(
        PROVISIONER + kubelet + "---" + other + kubelet.replace("20", "30") + "---" + CLASS
    )

    classes = {node_class.name: node_class.kubelet.max_pods for node_class in inputs.node_classes}
    assert classes == {"default": None, "mine": 20, "mine-other": 30}
    assert {pool.name: pool.template.node_class.name for pool in inputs.nodepools} == {
        "old": "mine",
        "other": "mine-other",
    }


def test_a_v1beta1_nodepool_is_converted_to_v1() -> None:
    pool = the_pool("""
        apiVersion: karpenter.sh/v1beta1
        kind: NodePool
        metadata: {name: beta}
        spec:
          disruption: {consolidationPolicy: WhenUnderutilized, expireAfter: 24h}
          template:
            spec:
              nodeClassRef: {apiVersion: karpenter.k8s.aws/v1beta1, kind: EC2NodeClass, name: d}
              requirements: []
              kubelet: {maxPods: 10}
    """)

    assert pool.template.expire_after == timedelta(hours=24)
    assert pool.template.node_class.group == "karpenter.k8s.aws"
    assert pool.disruption.policy is ConsolidationPolicy.WHEN_EMPTY_OR_UNDERUTILIZED


@pytest.mark.parametrize(
    ("family", "expected"),
    [("AL2", "AL2"), ("Bottlerocket", "Bottlerocket"), ("Ubuntu", "AL2"), ("Custom", "Custom")],
)
def test_the_ami_family_of_a_legacy_node_class_is_kept(family: str, expected: str) -> None:
    beta = CLASS.replace("/v1\n", "/v1beta1\n").replace(
        "amiSelectorTerms: [{alias: bottlerocket@latest}]", f"amiFamily: {family}"
    )
    alpha = f"""
        apiVersion: karpenter.k8s.aws/v1alpha1
        kind: AWSNodeTemplate
        metadata: {{name: default}}
        spec:
          amiFamily: {family}
          amiSelector: {{aws-ids: ami-1}}
          subnetSelector: {{a: b}}
          securityGroupSelector: {{a: b}}
    """

    assert the_class(alpha).ami_family == expected
    if family != "Custom":  # Which needs terms of its own, then as now.
        assert the_class(beta).ami_family == expected


def test_a_custom_launch_template_cannot_be_converted() -> None:
    text = """
        apiVersion: karpenter.k8s.aws/v1alpha1
        kind: AWSNodeTemplate
        metadata: {name: default}
        spec: {launchTemplate: mine, subnetSelector: {a: b}, securityGroupSelector: {a: b}}
    """

    assert error_messages(text) == [
        "spec.launchTemplate: custom launch templates are not supported since v1beta1"
    ]
