"""Launch templates: what is in them, and that there are as few as can be."""

from base64 import b64decode
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from dovetail.aws.errors import AwsError
from dovetail.aws.launchtemplate.launch_config import Boot, Image, Launchable
from dovetail.aws.launchtemplate.launch_templates import LaunchTemplates
from dovetail.aws.launchtemplate.template_data import (
    NITRO_SANDBOX,
    Variant,
    boot_of,
    name_of,
    placement_labels,
    template_data,
    variant_of,
)
from dovetail.core.instancetypes.build import instance_types
from dovetail.core.instancetypes.launch_choices import Choice
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import CapacityReservation, NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import (
    ConnectionTracking,
    Found,
    Interface,
    LaunchSpec,
    PlacementGroup,
)
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.requirements import Operator, Requirement, Requirements, RequirementSpec
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import UNREGISTERED, Effect, Taint
from dovetail.model.labels import PLACEMENT_GROUP_ID, PLACEMENT_GROUP_PARTITION
from tests.aws.buying import bought, claims
from tests.simulator.ec2.place import CATALOG, ON_DEMAND, PRICES, REGION, SPOT, A, a_claim
from tests.support.moto.door import Fault
from tests.support.moto.process import CLUSTER, AwsProcess
from tests.support.moto.server import MotoAws

TAGS = {"team": "a"}
VARIANT = Variant(image=Image(id="ami-1"), max_pods=29)


def a_launchable(ipv6: bool = False, **launch: Any) -> Launchable:
    held = CapacityReservation(id="cr-1", instance_type="m5.large", zone=A, available=1)
    return Launchable(
        node_class=NodeClass(
            launch=LaunchSpec(**launch),
            reservations=(
                held,
                msgspec.structs.replace(held, id="cr-2", kind="capacity-block"),
                msgspec.structs.replace(held, id="cr-3", interruptible=True),
            ),
        ),
        images=(Image(id="ami-1"),),
        subnets=(),
        security_groups=("sg-1", "sg-2"),
        instance_profile="nodes",
        user_data=lambda boot: f"pods={boot.max_pods}".encode(),
        template=FrozenDict({"Placement": {"GroupId": "pg-1"}, "Monitoring": {"Enabled": False}}),
        ipv6=ipv6,
    )


def data(
    launchable: Launchable,
    *,
    variant: Variant = VARIANT,
    claim: NodeClaim | None = None,
    kind: str = ON_DEMAND,
) -> dict[str, Any]:
    return template_data(
        variant,
        claim=claim or a_claim(),
        capacity_type=kind,
        launchable=launchable,
        tags=TAGS,
    )


def requiring(claim: NodeClaim, *specs: RequirementSpec) -> NodeClaim:
    return msgspec.structs.replace(claim, requirements=(*claim.requirements, *specs))


def test_a_template_holds_image_profile_user_data_and_what_the_class_settles() -> None:
    made = data(a_launchable())

    assert made["ImageId"] == "ami-1"
    assert made["IamInstanceProfile"] == {"Name": "nodes"}
    assert b64decode(made["UserData"]) == b"pods=29"
    assert made["Monitoring"] == {"Enabled": False}
    assert made["Placement"] == {"GroupId": "pg-1", "Tenancy": "default"}
    assert "EnclaveOptions" not in made
    assert "SecurityGroupIds" not in made


def test_interfaces_are_tagged_and_spot_requests_too() -> None:
    def tagged(kind: str) -> list[str]:
        return [one["ResourceType"] for one in data(a_launchable(), kind=kind)["TagSpecifications"]]

    assert tagged(ON_DEMAND) == ["network-interface"]
    assert tagged(SPOT) == ["network-interface", "spot-instances-request"]


def test_a_machine_has_one_interface_with_all_security_groups_unless_told_otherwise() -> None:
    assert data(a_launchable())["NetworkInterfaces"] == [
        {"DeviceIndex": 0, "Groups": ["sg-1", "sg-2"]}
    ]


@pytest.mark.parametrize("public", [True, False])
@pytest.mark.parametrize("efas", [0, 2])
def test_a_public_address_is_given_or_refused_where_the_class_says_so(
    public: bool, efas: int
) -> None:
    variant = msgspec.structs.replace(VARIANT, efas=efas)

    interfaces = data(a_launchable(public_address=public), variant=variant)["NetworkInterfaces"]

    assert [one["AssociatePublicIpAddress"] for one in interfaces] == [public] * max(1, efas)


def test_each_adapter_that_is_asked_for_has_a_card_of_its_own() -> None:
    interfaces = data(a_launchable(), variant=msgspec.structs.replace(VARIANT, efas=3))[
        "NetworkInterfaces"
    ]

    places = [(one["NetworkCardIndex"], one["DeviceIndex"]) for one in interfaces]
    assert places == [(0, 0), (1, 1), (2, 1)]
    assert {one["InterfaceType"] for one in interfaces} == {"efa"}


def test_interfaces_by_list_come_before_adapters_and_efa_only_has_no_addresses() -> None:
    listed = (Interface(), Interface(card=1, device=1, kind="efa-only"))
    launchable = a_launchable(
        interfaces=listed,
        ip_prefixes=4,
        public_address=True,
        connection_tracking=ConnectionTracking(udp=45),
    )

    plain, only = data(launchable, variant=msgspec.structs.replace(VARIANT, efas=8))[
        "NetworkInterfaces"
    ]

    assert (plain["InterfaceType"], plain["Ipv4PrefixCount"]) == ("interface", 4)
    assert plain["ConnectionTrackingSpecification"] == {"UdpTimeout": 45}
    assert only == {
        "DeviceIndex": 1,
        "NetworkCardIndex": 1,
        "InterfaceType": "efa-only",
        "Groups": ["sg-1", "sg-2"],
    }


def test_a_cluster_with_long_addresses_gives_one_to_each_machine_and_counts_prefixes_so() -> None:
    (interface,) = data(a_launchable(ipv6=True, ip_prefixes=2))["NetworkInterfaces"]

    assert interface["PrimaryIpv6"] is True
    assert interface["Ipv6AddressCount"] == 1
    assert interface["Ipv6PrefixCount"] == 2
    assert "Ipv4PrefixCount" not in interface


def test_tenancy_is_dedicated_only_where_nothing_else_is_allowed() -> None:
    key = "karpenter.k8s.aws/instance-tenancy"
    either = requiring(a_claim(), RequirementSpec(key, Operator.IN, ("default", "dedicated")))
    dedicated = requiring(a_claim(), RequirementSpec(key, Operator.IN, ("dedicated",)))

    assert data(a_launchable(), claim=either)["Placement"]["Tenancy"] == "default"
    assert data(a_launchable(), claim=dedicated)["Placement"]["Tenancy"] == "dedicated"


def test_enclaves_are_on_only_where_a_pod_wants_them() -> None:
    claim = msgspec.structs.replace(a_claim(), requests=Resources.parse({NITRO_SANDBOX: "1"}))

    assert data(a_launchable(), claim=claim)["EnclaveOptions"] == {"Enabled": True}


@pytest.mark.parametrize(
    ("reservation", "market"),
    [
        ("cr-1", None),
        ("cr-2", "capacity-block"),
        ("cr-3", "interruptible-capacity-reservation"),
    ],
)
def test_what_is_reserved_is_taken_from_its_reservation_only(
    reservation: str, market: str | None
) -> None:
    made = data(a_launchable(), variant=msgspec.structs.replace(VARIANT, reservation=reservation))

    assert made["CapacityReservationSpecification"] == {
        "CapacityReservationPreference": "capacity-reservations-only",
        "CapacityReservationTarget": {"CapacityReservationId": reservation},
    }
    assert made.get("InstanceMarketOptions", {}).get("MarketType") == market


def test_nothing_else_ends_up_in_a_reservation_by_accident() -> None:
    assert data(a_launchable())["CapacityReservationSpecification"] == {
        "CapacityReservationPreference": "none"
    }


def test_where_reservations_are_switched_off_nothing_is_said_of_them() -> None:
    left_to_ec2 = msgspec.structs.replace(a_launchable(), reserved_capacity=False)

    assert "CapacityReservationSpecification" not in data(left_to_ec2)


def test_user_data_is_made_of_labels_with_the_capacity_type_and_all_taints() -> None:
    mine, starting = Taint("team", Effect.NO_SCHEDULE), Taint("cni", Effect.NO_EXECUTE)
    claim = a_claim(taints=(mine,), startup_taints=(starting,))

    boot = boot_of(VARIANT, claim, SPOT)

    assert boot == Boot(
        image=VARIANT.image,
        max_pods=29,
        labels=claim.labels.with_items({"karpenter.sh/capacity-type": "spot"}),
        taints=(mine, starting, UNREGISTERED),
    )
    again = msgspec.structs.replace(claim, startup_taints=(UNREGISTERED,))
    assert boot_of(VARIANT, again, SPOT).taints == (mine, UNREGISTERED)


def test_a_types_image_is_the_first_that_boots_it() -> None:
    types = instance_types(CATALOG.machines, region=REGION, node_class=NodeClass(), prices=PRICES)
    choice = Choice(instance_type=types[0], offering=types[0].offerings[0])
    arm, intel, older = (
        Image(
            id=f"ami-{number}",
            requirements=Requirements.of([Requirement.one_of("kubernetes.io/arch", arch)]),
        )
        for number, arch in enumerate(("arm64", "amd64", "amd64"))
    )
    launchable = msgspec.structs.replace(a_launchable(), images=(arm, intel, older))

    found = variant_of(choice, a_claim(), launchable)

    assert found is not None
    assert found.image is intel
    only_arm = msgspec.structs.replace(launchable, images=(arm,))
    assert variant_of(choice, a_claim(), only_arm) is None


def test_a_name_is_made_of_the_contents_and_the_tags() -> None:
    first = name_of({"a": 1, "b": 2}, TAGS)

    assert first == name_of({"b": 2, "a": 1}, TAGS)
    assert first.startswith("karpenter.k8s.aws/")
    assert len({first, name_of({"a": 1}, TAGS), name_of({"a": 1, "b": 2}, {})}) == 3


def templates(process: AwsProcess) -> set[str]:
    answer = process.ec2.describe_launch_templates()
    return {one["LaunchTemplateName"] for one in answer["LaunchTemplates"]}


def test_the_same_needs_share_templates_and_other_labels_need_others(
    moto: MotoAws, process: AwsProcess
) -> None:
    bought(process, claims(3, "first"))
    made = templates(process)
    bought(process, claims(3, "second"))
    assert templates(process) == made
    calls = moto.door.calls["CreateLaunchTemplate"]

    labelled = [
        msgspec.structs.replace(claim, labels=claim.labels.with_items({"team": "a"}))
        for claim in claims(1, "third")
    ]
    bought(process, labelled)

    assert calls == len(made)
    assert made < templates(process)


def test_templates_of_another_process_are_used_as_they_are(
    moto: MotoAws, process: AwsProcess
) -> None:
    bought(process, claims(1, "first"))
    made = templates(process)
    other = AwsProcess(process.site)

    bought(other, claims(1, "second"))

    other.stop()
    assert templates(process) == made


def test_a_template_that_somebody_deleted_is_made_again_within_the_launch(
    moto: MotoAws, process: AwsProcess
) -> None:
    bought(process, claims(1, "first"))
    made = templates(process)
    for name in made:
        process.ec2.delete_launch_template(LaunchTemplateName=name)

    bought(process, claims(1, "second"))

    assert templates(process) == made


def test_what_is_unused_goes_whoever_made_it_and_what_is_used_stays(
    moto: MotoAws, process: AwsProcess
) -> None:
    bought(process, claims(1))
    process.do(process.templates.tidy())
    assert templates(process)
    impatient = LaunchTemplates(
        aws=process.aws, ec2=process.ec2, loop=process.loop, cluster=CLUSTER, kept=timedelta()
    )

    process.do(impatient.tidy())
    assert templates(process)
    process.do(impatient.adopt())
    process.do(impatient.tidy())

    assert templates(process) == set()


def test_a_template_that_cannot_be_deleted_now_is_deleted_later(
    moto: MotoAws, process: AwsProcess
) -> None:
    bought(process, claims(1))
    impatient = LaunchTemplates(
        aws=process.aws, ec2=process.ec2, loop=process.loop, cluster=CLUSTER, kept=timedelta()
    )
    process.do(impatient.adopt())
    moto.door.script(
        Fault(operation="DeleteLaunchTemplate", code="UnauthorizedOperation", status=403)
    )

    with pytest.raises(AwsError, match="DeleteLaunchTemplate"):
        process.do(impatient.tidy())
    process.do(impatient.tidy())

    assert templates(process) == set()


def test_a_class_takes_its_own_templates_along_and_no_others(
    moto: MotoAws, process: AwsProcess
) -> None:
    bought(process, claims(1))
    process.ec2.create_launch_template(
        LaunchTemplateName="somebody-elses", LaunchTemplateData={"ImageId": "ami-1"}
    )
    other = AwsProcess(process.site)

    other.do(other.templates.delete_of("another-class"))
    assert len(templates(process)) > 1
    other.do(other.cloud.forget({"metadata": {"name": "default"}}))

    other.stop()
    assert templates(process) == {"somebody-elses"}


def in_partitions(*allowed: str) -> tuple[Launchable, NodeClaim]:
    group = PlacementGroup(id="pg-1", strategy="partition", partitions=3)
    made = a_launchable()
    node_class = msgspec.structs.replace(made.node_class, found=Found(placement_group=group))
    claim = a_claim()
    if allowed:
        wanted = RequirementSpec(PLACEMENT_GROUP_PARTITION, Operator.IN, allowed)
        claim = requiring(claim, wanted)
    return msgspec.structs.replace(made, node_class=node_class), claim


@pytest.mark.parametrize(
    ("allowed", "number"),
    [((), None), (("1", "2", "3"), None), (("3", "2"), 2), (("7",), None)],
)
def test_a_partition_is_named_only_to_claims_that_do_not_take_any(
    allowed: tuple[str, ...], number: int | None
) -> None:
    launchable, claim = in_partitions(*allowed)

    placement = data(launchable, claim=claim)["Placement"]
    labels = placement_labels(claim, launchable.node_class)

    assert placement.get("PartitionNumber") == number
    assert labels[PLACEMENT_GROUP_PARTITION] == ("" if number is None else str(number))
    assert labels[PLACEMENT_GROUP_ID] == "pg-1"


def test_other_placement_groups_have_no_partitions() -> None:
    plain = NodeClass(found=Found(placement_group=PlacementGroup(id="pg-1", strategy="cluster")))

    assert placement_labels(a_claim(), plain) == {PLACEMENT_GROUP_ID: "pg-1"}
    assert placement_labels(a_claim(), NodeClass()) == {}
