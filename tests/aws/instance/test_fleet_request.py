"""From claims to an order."""

from typing import Any

import msgspec
import pytest

from dovetail.aws.instance.fleet_request import FleetPlan, launch_batch_key, needed_addresses, plan_fleet
from dovetail.aws.launchtemplate.launch_config import LaunchAmi, LaunchConfig
from dovetail.core.instancetypes.build import build_instance_types
from dovetail.core.instancetypes.launch_choices import (
    MAX_TYPES,
    LaunchChoice,
    NoLaunchChoices,
    find_launch_choices,
)
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import LaunchSpec, Subnet
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import Taint, TaintEffect
from tests.simulator.ec2.harness import ON_DEMAND, A, B, a_claim
from tests.support.aws.provider_process import FakeFreeAddresses

CATALOG = bundled_catalog()
REGION = CATALOG.regions["eu-west-1"]
CLASS = EC2NodeClass(launch=LaunchSpec(context="ctx"))
TYPES = build_instance_types(
    CATALOG.instance_types_in(REGION.name), region=REGION, node_class=CLASS, prices=bundled_prices()
)
SUBNETS = {f"subnet-{zone}": zone for zone in REGION.zones}


def a_plan(
    *claims: NodeClaim, choices: tuple[LaunchChoice, ...] | None = None, **node_class: Any
) -> FleetPlan:
    found_choices = choices or find_launch_choices(claims[0], TYPES)
    assert not isinstance(found_choices, NoLaunchChoices)
    launchable = LaunchConfig(
        node_class=msgspec.structs.replace(CLASS, **node_class),
        amis=(LaunchAmi(id="ami-1"),),
        subnets=tuple(Subnet(id=entry, zone=zone) for entry, zone in SUBNETS.items()),
        security_groups=("sg-1",),
        instance_profile="nodes",
        user_data=lambda boot: str(boot.max_pods).encode(),
    )
    return plan_fleet(
        claims,
        launch_config=launchable,
        choices=found_choices,
        addresses=FakeFreeAddresses(SUBNETS),
        cluster="c",
    )


def named(plan: FleetPlan) -> set[str]:
    return {entry.instance_type.name for some in plan.variants.values() for entry in some}


def test_a_request_has_at_most_sixty_types_and_a_template_per_pod_limit() -> None:
    plan = a_plan(a_claim(kinds=[ON_DEMAND]))

    assert len(named(plan)) == MAX_TYPES
    pods = {variant.max_pods for variant in plan.variants}
    assert len(plan.templates()) == len(pods) == len({template.name for template in plan.templates()})


def test_a_request_has_at_most_fifty_templates_of_the_cheapest_choices() -> None:
    choices = find_launch_choices(a_claim(kinds=[ON_DEMAND]), TYPES)
    assert not isinstance(choices, NoLaunchChoices)
    reserved = tuple(
        msgspec.structs.replace(
            choice, offering=msgspec.structs.replace(choice.offering, reservation_id=f"cr-{number}")
        )
        for number, choice in enumerate(choices)
    )

    plan = a_plan(a_claim(kinds=[ON_DEMAND]), choices=reserved)

    assert len(reserved) > 50
    assert [variant.reservation for variant in plan.variants] == [f"cr-{number}" for number in range(50)]


def test_metal_and_accelerators_are_requested_only_with_min_values() -> None:
    min_categories = RequirementSpec("karpenter.k8s.aws/instance-category", Operator.EXISTS, min_values=2)
    claim = a_claim(cpu="40")

    assert not any("metal" in name for name in named(a_plan(claim)))
    varied = msgspec.structs.replace(claim, requirements=(*claim.requirements, min_categories))
    kinds = {name[0] for name in named(a_plan(varied))}
    assert len(kinds) >= 2


def test_the_context_is_omitted_with_relaxed_min_values() -> None:
    relaxed = msgspec.structs.replace(
        a_claim(), annotations=FrozenDict({label_keys.MIN_VALUES_RELAXED: "true"})
    )

    plain, loose = a_plan(a_claim()), a_plan(relaxed)

    assert plain.request([template.name for template in plain.templates()]).context == "ctx"
    assert loose.request([template.name for template in loose.templates()]).context == ""


def test_many_user_tags_make_requests_smaller() -> None:
    claims = [a_claim(f"claim-{number:03}") for number in range(150)]
    tags = FrozenDict({f"tag-{number}": "x" for number in range(42)})

    plan = a_plan(*claims, launch=LaunchSpec(tags=tags))

    assert 1 <= len(plan.claims) < 150
    order = plan.request([template.name for template in plan.templates()])
    assert order.count == len(plan.claims)
    assert len(order.tags) + len(order.claim_tags) <= 50


def test_addresses_are_needed_in_every_subnet_for_all_instances() -> None:
    claims = [a_claim(f"claim-{number}", zones=[A, B], kinds=[ON_DEMAND]) for number in range(3)]
    plan = a_plan(*claims)

    needed = needed_addresses(plan.request([template.name for template in plan.templates()]))

    assert set(needed) == {f"subnet-{A}", f"subnet-{B}"}
    assert min(needed.values()) > 0


@pytest.mark.parametrize(
    "change",
    [
        {"requests": Resources.parse({"cpu": "2"})},
        {"labels": FrozenDict({"team": "a"})},
        {"taints": (Taint("team", TaintEffect.NO_SCHEDULE),)},
        {"startup_taints": (Taint("team", TaintEffect.NO_SCHEDULE),)},
        {"annotations": FrozenDict({label_keys.MIN_VALUES_RELAXED: "true"})},
        {"annotations": FrozenDict({"karpenter.sh/price-overlay-applied": "mine"})},
    ],
)
def test_claims_share_a_batch_until_they_need_other_instances(change: dict[str, Any]) -> None:
    claim = a_claim()

    assert launch_batch_key(claim) == launch_batch_key(
        msgspec.structs.replace(claim, name="other", uid="other")
    )
    assert launch_batch_key(claim) != launch_batch_key(msgspec.structs.replace(claim, **change))
