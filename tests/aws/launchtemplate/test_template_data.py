"""Launch templates: what is in them, and that there are as few as can be."""

from base64 import b64decode
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from dovetail.aws.errors import AwsError
from dovetail.aws.launchtemplate.launch_config import LaunchAmi, LaunchConfig, UserDataContext
from dovetail.aws.launchtemplate.launch_templates import LaunchTemplates
from dovetail.aws.launchtemplate.template_data import (
    NITRO_SANDBOX,
    TemplateVariant,
    encode_template_data,
    placement_labels,
    select_variant,
    template_name,
    user_data_context,
)
from dovetail.core.instancetypes.build import build_instance_types
from dovetail.core.instancetypes.launch_choices import LaunchChoice
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import CapacityReservation, EC2NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import (
    ConnectionTracking,
    LaunchSpec,
    NetworkInterface,
    PlacementGroup,
    ResolvedResources,
)
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.requirements import Operator, Requirement, Requirements, RequirementSpec
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import UNREGISTERED_TAINT, Taint, TaintEffect
from dovetail.model.labels import PLACEMENT_GROUP_ID, PLACEMENT_GROUP_PARTITION
from tests.simulator.ec2.harness import CATALOG, ON_DEMAND, PRICES, REGION, SPOT, A, a_claim
from tests.support.aws.launches import claims, launched
from tests.support.aws.provider_process import CLUSTER, AwsProcess
from tests.support.moto.middleware import ScriptedError
from tests.support.moto.server import MotoAws

TAGS = {"team": "a"}
VARIANT = TemplateVariant(ami=LaunchAmi(id="ami-1"), max_pods=29)


def a_launchable(ipv6: bool = False, **launch: Any) -> LaunchConfig:
    held = CapacityReservation(id="cr-1", instance_type="m5.large", zone=A, available_count=1)
    return LaunchConfig(
        node_class=EC2NodeClass(
            launch=LaunchSpec(**launch),
            capacity_reservations=(
                held,
                msgspec.structs.replace(held, id="cr-2", reservation_type="capacity-block"),
                msgspec.structs.replace(held, id="cr-3", interruptible=True),
            ),
        ),
        amis=(LaunchAmi(id="ami-1"),),
        subnets=(),
        security_groups=("sg-1", "sg-2"),
        instance_profile="nodes",
        user_data=lambda boot: f"pods={boot.max_pods}".encode(),
        template=FrozenDict({"Placement": {"GroupId": "pg-1"}, "Monitoring": {"Enabled": False}}),
        ipv6=ipv6,
    )


def data(
    launchable: LaunchConfig,
    *,
    variant: TemplateVariant = VARIANT,
    claim: NodeClaim | None = None,
    kind: str = ON_DEMAND,
) -> dict[str, Any]:
    return encode_template_data(
        variant, claim=claim or a_claim(), capacity_type=kind, launch_config=launchable, tags=TAGS
    )


def requiring(claim: NodeClaim, *specs: RequirementSpec) -> NodeClaim:
    return msgspec.structs.replace(claim, requirements=(*claim.requirements, *specs))


def test_a_template_contains_ami_profile_user_data_and_the_launch_config() -> None:
    created = data(a_launchable())

    assert created["ImageId"] == "ami-1"
    assert created["IamInstanceProfile"] == {"Name": "nodes"}
    assert b64decode(created["UserData"]) == b"pods=29"
    assert created["Monitoring"] == {"Enabled": False}
    assert created["Placement"] == {"GroupId": "pg-1", "Tenancy": "default"}
    assert "EnclaveOptions" not in created
    assert "SecurityGroupIds" not in created


def test_interfaces_are_tagged_and_spot_requests_too() -> None:
    def tagged(kind: str) -> list[str]:
        return [entry["ResourceType"] for entry in data(a_launchable(), kind=kind)["TagSpecifications"]]

    assert tagged(ON_DEMAND) == ["network-interface"]
    assert tagged(SPOT) == ["network-interface", "spot-instances-request"]


def test_an_instance_has_one_interface_with_all_security_groups_by_default() -> None:
    assert data(a_launchable())["NetworkInterfaces"] == [{"DeviceIndex": 0, "Groups": ["sg-1", "sg-2"]}]


@pytest.mark.parametrize("public", [True, False])
@pytest.mark.parametrize("efas", [0, 2])
def test_a_public_address_follows_the_node_class(public: bool, efas: int) -> None:
    variant = msgspec.structs.replace(VARIANT, efas=efas)

    interfaces = data(a_launchable(associate_public_ip_address=public), variant=variant)["NetworkInterfaces"]

    assert [interface["AssociatePublicIpAddress"] for interface in interfaces] == [public] * max(1, efas)


def test_each_requested_efa_has_its_own_network_card() -> None:
    interfaces = data(a_launchable(), variant=msgspec.structs.replace(VARIANT, efas=3))["NetworkInterfaces"]

    places = [(interface["NetworkCardIndex"], interface["DeviceIndex"]) for interface in interfaces]
    assert places == [(0, 0), (1, 1), (2, 1)]
    assert {interface["InterfaceType"] for interface in interfaces} == {"efa"}


def test_specified_interfaces_precede_efas_and_efa_only_has_no_address() -> None:
    listed = (NetworkInterface(), NetworkInterface(card=1, device=1, kind="efa-only"))
    launchable = a_launchable(
        network_interfaces=listed,
        ip_prefix_count=4,
        associate_public_ip_address=True,
        connection_tracking=ConnectionTracking(udp=45),
    )

    plain, only = data(launchable, variant=msgspec.structs.replace(VARIANT, efas=8))["NetworkInterfaces"]

    assert (plain["InterfaceType"], plain["Ipv4PrefixCount"]) == ("interface", 4)
    assert plain["ConnectionTrackingSpecification"] == {"UdpTimeout": 45}
    assert only == {
        "DeviceIndex": 1,
        "NetworkCardIndex": 1,
        "InterfaceType": "efa-only",
        "Groups": ["sg-1", "sg-2"],
    }


def test_an_ipv6_cluster_assigns_ipv6_addresses_and_prefixes() -> None:
    (interface,) = data(a_launchable(ipv6=True, ip_prefix_count=2))["NetworkInterfaces"]

    assert interface["PrimaryIpv6"] is True
    assert interface["Ipv6AddressCount"] == 1
    assert interface["Ipv6PrefixCount"] == 2
    assert "Ipv4PrefixCount" not in interface


def test_tenancy_is_dedicated_only_if_required() -> None:
    key = "karpenter.k8s.aws/instance-tenancy"
    either = requiring(a_claim(), RequirementSpec(key, Operator.IN, ("default", "dedicated")))
    dedicated = requiring(a_claim(), RequirementSpec(key, Operator.IN, ("dedicated",)))

    assert data(a_launchable(), claim=either)["Placement"]["Tenancy"] == "default"
    assert data(a_launchable(), claim=dedicated)["Placement"]["Tenancy"] == "dedicated"


def test_enclaves_are_enabled_only_if_requested() -> None:
    claim = msgspec.structs.replace(a_claim(), requests=Resources.parse({NITRO_SANDBOX: "1"}))

    assert data(a_launchable(), claim=claim)["EnclaveOptions"] == {"Enabled": True}


@pytest.mark.parametrize(
    ("reservation", "market"),
    [("cr-1", None), ("cr-2", "capacity-block"), ("cr-3", "interruptible-capacity-reservation")],
)
def test_reserved_launches_target_their_reservation(reservation: str, market: str | None) -> None:
    created = data(a_launchable(), variant=msgspec.structs.replace(VARIANT, reservation=reservation))

    assert created["CapacityReservationSpecification"] == {
        "CapacityReservationPreference": "capacity-reservations-only",
        "CapacityReservationTarget": {"CapacityReservationId": reservation},
    }
    assert created.get("InstanceMarketOptions", {}).get("MarketType") == market


def test_other_launches_never_use_a_reservation() -> None:
    assert data(a_launchable())["CapacityReservationSpecification"] == {
        "CapacityReservationPreference": "none"
    }


def test_without_reservation_support_templates_do_not_mention_them() -> None:
    left_to_ec2 = msgspec.structs.replace(a_launchable(), manages_reservations=False)

    assert "CapacityReservationSpecification" not in data(left_to_ec2)


def test_user_data_has_labels_with_capacity_type_and_all_taints() -> None:
    mine, starting = Taint("team", TaintEffect.NO_SCHEDULE), Taint("cni", TaintEffect.NO_EXECUTE)
    claim = a_claim(taints=(mine,), startup_taints=(starting,))

    boot = user_data_context(VARIANT, claim, SPOT)

    assert boot == UserDataContext(
        ami=VARIANT.ami,
        max_pods=29,
        labels=claim.labels.with_items({"karpenter.sh/capacity-type": "spot"}),
        taints=(mine, starting, UNREGISTERED_TAINT),
    )
    again = msgspec.structs.replace(claim, startup_taints=(UNREGISTERED_TAINT,))
    assert user_data_context(VARIANT, again, SPOT).taints == (mine, UNREGISTERED_TAINT)


def test_an_instance_type_gets_the_first_ami_that_supports_it() -> None:
    types = build_instance_types(
        CATALOG.instance_types, region=REGION, node_class=EC2NodeClass(), prices=PRICES
    )
    choice = LaunchChoice(instance_type=types[0], offering=types[0].offerings[0])
    arm, intel, older = (
        LaunchAmi(
            id=f"ami-{number}",
            requirements=Requirements.from_requirements([Requirement.one_of("kubernetes.io/arch", arch)]),
        )
        for number, arch in enumerate(("arm64", "amd64", "amd64"))
    )
    launchable = msgspec.structs.replace(a_launchable(), amis=(arm, intel, older))

    result = select_variant(choice, a_claim(), launchable)

    assert result is not None
    assert result.ami is intel
    only_arm = msgspec.structs.replace(launchable, amis=(arm,))
    assert select_variant(choice, a_claim(), only_arm) is None


def test_a_template_name_is_a_hash_of_contents_and_tags() -> None:
    first = template_name({"a": 1, "b": 2}, TAGS)

    assert first == template_name({"b": 2, "a": 1}, TAGS)
    assert first.startswith("karpenter.k8s.aws/")
    assert len({first, template_name({"a": 1}, TAGS), template_name({"a": 1, "b": 2}, {})}) == 3


def templates(process: AwsProcess) -> set[str]:
    answer = process.ec2.describe_launch_templates()
    return {entry["LaunchTemplateName"] for entry in answer["LaunchTemplates"]}


def test_equal_claims_share_templates_and_other_labels_need_others(
    moto: MotoAws, process: AwsProcess
) -> None:
    launched(process, claims(3, "first"))
    created = templates(process)
    launched(process, claims(3, "second"))
    assert templates(process) == created
    calls = moto.middleware.calls["CreateLaunchTemplate"]

    labelled = [
        msgspec.structs.replace(claim, labels=claim.labels.with_items({"team": "a"}))
        for claim in claims(1, "third")
    ]
    launched(process, labelled)

    assert calls == len(created)
    assert created < templates(process)


def test_templates_of_another_process_are_reused(moto: MotoAws, process: AwsProcess) -> None:
    launched(process, claims(1, "first"))
    created = templates(process)
    other = AwsProcess(process.account)

    launched(other, claims(1, "second"))

    other.stop()
    assert templates(process) == created


def test_a_deleted_template_is_created_again_within_the_launch(moto: MotoAws, process: AwsProcess) -> None:
    launched(process, claims(1, "first"))
    created = templates(process)
    for name in created:
        process.ec2.delete_launch_template(LaunchTemplateName=name)

    launched(process, claims(1, "second"))

    assert templates(process) == created


def test_unused_templates_are_deleted_and_used_ones_stay(moto: MotoAws, process: AwsProcess) -> None:
    launched(process, claims(1))
    process.do(process.templates.delete_unused())
    assert templates(process)
    impatient = LaunchTemplates(
        aws=process.aws, ec2=process.ec2, loop=process.loop, cluster=CLUSTER, retention=timedelta()
    )

    process.do(impatient.delete_unused())
    assert templates(process)
    process.do(impatient.load_existing())
    process.do(impatient.delete_unused())

    assert templates(process) == set()


def test_a_failed_template_deletion_is_retried(moto: MotoAws, process: AwsProcess) -> None:
    launched(process, claims(1))
    impatient = LaunchTemplates(
        aws=process.aws, ec2=process.ec2, loop=process.loop, cluster=CLUSTER, retention=timedelta()
    )
    process.do(impatient.load_existing())
    moto.middleware.add_error(
        ScriptedError(operation="DeleteLaunchTemplate", code="UnauthorizedOperation", status=403)
    )

    with pytest.raises(AwsError, match="DeleteLaunchTemplate"):
        process.do(impatient.delete_unused())
    process.do(impatient.delete_unused())

    assert templates(process) == set()


def test_deleting_a_node_class_deletes_its_launch_templates_only(moto: MotoAws, process: AwsProcess) -> None:
    launched(process, claims(1))
    process.ec2.create_launch_template(LaunchTemplateName="foreign", LaunchTemplateData={"ImageId": "ami-1"})
    other = AwsProcess(process.account)

    other.do(other.templates.delete_for("another-class"))
    assert len(templates(process)) > 1
    other.do(other.cloud.delete_nodeclass_resources({"metadata": {"name": "default"}}))

    other.stop()
    assert templates(process) == {"foreign"}


def in_partitions(*allowed: str) -> tuple[LaunchConfig, NodeClaim]:
    group = PlacementGroup(id="pg-1", strategy="partition", partition_count=3)
    created = a_launchable()
    node_class = msgspec.structs.replace(
        created.node_class, resolved=ResolvedResources(placement_group=group)
    )
    claim = a_claim()
    if allowed:
        wanted = RequirementSpec(PLACEMENT_GROUP_PARTITION, Operator.IN, allowed)
        claim = requiring(claim, wanted)
    return msgspec.structs.replace(created, node_class=node_class), claim


@pytest.mark.parametrize(
    ("allowed", "number"), [((), None), (("1", "2", "3"), None), (("3", "2"), 2), (("7",), None)]
)
def test_a_partition_is_set_only_for_claims_that_restrict_it(
    allowed: tuple[str, ...], number: int | None
) -> None:
    launchable, claim = in_partitions(*allowed)

    placement = data(launchable, claim=claim)["Placement"]
    labels = placement_labels(claim, launchable.node_class)

    assert placement.get("PartitionNumber") == number
    assert labels[PLACEMENT_GROUP_PARTITION] == ("" if number is None else str(number))
    assert labels[PLACEMENT_GROUP_ID] == "pg-1"


def test_other_placement_groups_have_no_partitions() -> None:
    plain = EC2NodeClass(
        resolved=ResolvedResources(placement_group=PlacementGroup(id="pg-1", strategy="cluster"))
    )

    assert placement_labels(a_claim(), plain) == {PLACEMENT_GROUP_ID: "pg-1"}
    assert placement_labels(a_claim(), EC2NodeClass()) == {}
