"""From claims to an order."""

from typing import Any

import msgspec
import pytest

from dovetail.aws.instance.fleet_request import Plan, addresses_of, alike, plan_of
from dovetail.aws.launchtemplate.launch_config import Image, Launchable
from dovetail.core.instancetypes.build import instance_types
from dovetail.core.instancetypes.launch_choices import MOST_TYPES, Refused, choices_for
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.model import labels as label_keys
from dovetail.model.frozen import FrozenDict
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from dovetail.model.karpenter.ec2nodeclass_launch import LaunchSpec, Subnet
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.model.kube.requirements import Operator, RequirementSpec
from dovetail.model.kube.resources import Resources
from dovetail.model.kube.taints import Effect, Taint
from tests.simulator.ec2.place import ON_DEMAND, A, B, a_claim
from tests.support.moto.process import CountedAddresses

CATALOG = bundled_catalog()
REGION = CATALOG.regions["eu-west-1"]
CLASS = NodeClass(launch=LaunchSpec(context="ctx"))
TYPES = instance_types(
    CATALOG.machines_in(REGION.name), region=REGION, node_class=CLASS, prices=bundled_prices()
)
SUBNETS = {f"subnet-{zone}": zone for zone in REGION.zones}


def a_plan(*claims: NodeClaim, **node_class: Any) -> Plan:
    choices = choices_for(claims[0], TYPES)
    assert not isinstance(choices, Refused)
    launchable = Launchable(
        node_class=msgspec.structs.replace(CLASS, **node_class),
        images=(Image(id="ami-1"),),
        subnets=tuple(Subnet(id=one, zone=zone) for one, zone in SUBNETS.items()),
        security_groups=("sg-1",),
        instance_profile="nodes",
        user_data=lambda boot: str(boot.max_pods).encode(),
    )
    return plan_of(
        claims,
        launchable=launchable,
        choices=choices,
        addresses=CountedAddresses(SUBNETS),
        cluster="c",
    )


def named(plan: Plan) -> set[str]:
    return {one.instance_type.name for some in plan.variants.values() for one in some}


def test_an_order_names_at_most_sixty_types_and_a_template_for_each_number_of_pods() -> None:
    plan = a_plan(a_claim(kinds=[ON_DEMAND]))

    assert len(named(plan)) == MOST_TYPES
    pods = {variant.max_pods for variant in plan.variants}
    assert len(plan.templates()) == len(pods) == len({one.name for one in plan.templates()})


def test_metal_and_accelerators_are_ordered_only_where_variety_is_asked_for() -> None:
    variety = RequirementSpec("karpenter.k8s.aws/instance-category", Operator.EXISTS, min_values=2)
    claim = a_claim(cpu="40")

    assert not any("metal" in name for name in named(a_plan(claim)))
    varied = msgspec.structs.replace(claim, requirements=(*claim.requirements, variety))
    kinds = {name[0] for name in named(a_plan(varied))}
    assert len(kinds) >= 2


def test_the_context_is_left_out_where_a_pools_variety_was_undercut() -> None:
    relaxed = msgspec.structs.replace(
        a_claim(), annotations=FrozenDict({label_keys.MIN_VALUES_RELAXED: "true"})
    )

    plain, loose = a_plan(a_claim()), a_plan(relaxed)

    assert plain.order([one.name for one in plain.templates()]).context == "ctx"
    assert loose.order([one.name for one in loose.templates()]).context == ""


def test_a_user_with_many_tags_gets_smaller_orders() -> None:
    claims = [a_claim(f"claim-{number:03}") for number in range(150)]
    tags = FrozenDict({f"tag-{number}": "x" for number in range(42)})

    plan = a_plan(*claims, launch=LaunchSpec(tags=tags))

    assert 1 <= len(plan.claims) < 150
    order = plan.order([one.name for one in plan.templates()])
    assert order.count == len(plan.claims)
    assert len(order.tags) + len(order.lists) <= 50


def test_every_subnet_may_have_to_hold_all_the_machines() -> None:
    claims = [a_claim(f"claim-{number}", zones=[A, B], kinds=[ON_DEMAND]) for number in range(3)]
    plan = a_plan(*claims)

    needed = addresses_of(plan.order([one.name for one in plan.templates()]))

    assert set(needed) == {f"subnet-{A}", f"subnet-{B}"}
    assert min(needed.values()) > 0


@pytest.mark.parametrize(
    "change",
    [
        {"requests": Resources.parse({"cpu": "2"})},
        {"labels": FrozenDict({"team": "a"})},
        {"taints": (Taint("team", Effect.NO_SCHEDULE),)},
        {"startup_taints": (Taint("team", Effect.NO_SCHEDULE),)},
        {"annotations": FrozenDict({label_keys.MIN_VALUES_RELAXED: "true"})},
        {"annotations": FrozenDict({"karpenter.sh/price-overlay-applied": "mine"})},
    ],
)
def test_claims_are_alike_until_they_need_another_machine(change: dict[str, Any]) -> None:
    claim = a_claim()

    assert alike(claim) == alike(msgspec.structs.replace(claim, name="other", uid="other"))
    assert alike(claim) != alike(msgspec.structs.replace(claim, **change))
