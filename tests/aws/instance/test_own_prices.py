"""With discounts, our prices rank on-demand offerings."""

from typing import Any

import pytest

from dovetail.aws.instance.launcher import CREATE_FLEET_TIMEOUT, InstanceLauncher
from dovetail.model.karpenter.ec2nodeclass import EC2NodeClass
from tests.simulator.ec2.harness import ON_DEMAND, POOL, SPOT, a_claim
from tests.support.aws.provider_process import CLUSTER, AwsProcess


@pytest.mark.parametrize(
    ("own_prices", "kind", "options", "strategy"),
    [
        (True, ON_DEMAND, "OnDemandOptions", "prioritized"),
        (False, ON_DEMAND, "OnDemandOptions", "lowest-price"),
        (True, SPOT, "SpotOptions", "price-capacity-optimized"),
    ],
)
def test_with_discounts_our_prices_rank_on_demand_types(
    process: AwsProcess, own_prices: bool, kind: str, options: str, strategy: str
) -> None:
    asked: list[dict[str, Any]] = []
    process.aws.ec2(read_timeout=CREATE_FLEET_TIMEOUT).meta.events.register(
        "provide-client-params.ec2.CreateFleet", lambda params, **_: asked.append(params)
    )
    buyer = InstanceLauncher(
        aws=process.aws,
        templates=process.templates,
        addresses=process.addresses,
        unavailable=process.unavailable_offerings,
        clock=process.loop,
        cluster=CLUSTER,
        use_own_prices=own_prices,
    )
    claim = a_claim("one", kinds=(kind,))
    types = process.cloud.instance_types(POOL)

    process.do(buyer.launch([claim], process.classes.launch_config(EC2NodeClass()), lambda: types))

    (request,) = asked
    assert request[options] == {"AllocationStrategy": strategy}
    overrides = [entry for config in request["LaunchTemplateConfigs"] for entry in config["Overrides"]]
    assert [override["Priority"] for override in overrides] == sorted(
        override["Priority"] for override in overrides
    )
