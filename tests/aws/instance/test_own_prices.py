"""Where a user pays other prices than EC2 knows, ours decide what is bought."""

from typing import Any

import pytest

from dovetail.aws.instance.launcher import Buyer
from dovetail.model.karpenter.ec2nodeclass import NodeClass
from tests.simulator.ec2.place import ON_DEMAND, POOL, SPOT, a_claim
from tests.support.moto.process import CLUSTER, AwsProcess


@pytest.mark.parametrize(
    ("own_prices", "kind", "options", "strategy"),
    [
        (True, ON_DEMAND, "OnDemandOptions", "prioritized"),
        (False, ON_DEMAND, "OnDemandOptions", "lowest-price"),
        (True, SPOT, "SpotOptions", "price-capacity-optimized"),
    ],
)
def test_ec2_is_told_our_order_of_on_demand_types_when_discounts_are_known(
    process: AwsProcess, own_prices: bool, kind: str, options: str, strategy: str
) -> None:
    asked: list[dict[str, Any]] = []
    process.ec2.meta.events.register(
        "provide-client-params.ec2.CreateFleet", lambda params, **_: asked.append(params)
    )
    buyer = Buyer(
        aws=process.aws,
        ec2=process.ec2,
        templates=process.templates,
        addresses=process.addresses,
        scarcity=process.scarcity,
        clock=process.loop,
        cluster=CLUSTER,
        own_prices=own_prices,
    )
    claim = a_claim("one", kinds=(kind,))
    types = process.cloud.instance_types(POOL)

    process.do(buyer.buy([claim], process.classes.launchable(NodeClass()), lambda: types))

    (request,) = asked
    assert request[options] == {"AllocationStrategy": strategy}
    overrides = [one for config in request["LaunchTemplateConfigs"] for one in config["Overrides"]]
    assert [one["Priority"] for one in overrides] == sorted(one["Priority"] for one in overrides)
