"""The controllers in a living cluster, buying through boto3 from moto.

Everything is in real time; machines boot in a fraction of a second, from the user
data that they were launched with.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from dovetail.model import labels as label_keys
from dovetail.model.kube.taints import DISRUPTED
from dovetail.ports.api_resources import DEPLOYMENTS, EC2_NODE_CLASSES, NODE_CLAIMS, NODES
from dovetail.simulator.ec2.capacity import Shortage
from tests.aws.operating import Operation
from tests.support import warnings
from tests.support.living import until
from tests.support.moto.door import Fault
from tests.support.moto.server import MotoAws

pytestmark = pytest.mark.slow

NODE_CLASS = {
    "apiVersion": "karpenter.k8s.aws/v1",
    "kind": "EC2NodeClass",
    "metadata": {"name": "default"},
    "spec": {
        "role": "nodes",
        "amiSelectorTerms": [{"alias": "al2023@latest"}],
        "subnetSelectorTerms": [{"tags": {"team": "a"}}],
        "securityGroupSelectorTerms": [{"tags": {"team": "a"}}],
    },
}


def a_pool(*capacity_types: str, types: Sequence[str] = ()) -> dict[str, Any]:
    requirements = [
        {"key": label_keys.CAPACITY_TYPE, "operator": "In", "values": list(capacity_types)}
    ]
    if types:
        named = {"key": label_keys.INSTANCE_TYPE, "operator": "In", "values": list(types)}
        requirements.append(named)
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": "default"},
        "spec": {
            "template": {
                "spec": {
                    "nodeClassRef": {
                        "group": "karpenter.k8s.aws",
                        "kind": "EC2NodeClass",
                        "name": "default",
                    },
                    "requirements": requirements,
                }
            },
            "disruption": {
                "consolidationPolicy": "WhenEmpty",
                "consolidateAfter": "0s",
                "budgets": [{"nodes": "100%"}],
            },
        },
    }


def inflate(cpu: str = "1") -> dict[str, Any]:
    container = {
        "name": "inflate",
        "image": "pause",
        "resources": {"requests": {"cpu": cpu}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "inflate", "namespace": "default"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "inflate"}},
            "template": {
                "metadata": {"labels": {"app": "inflate"}},
                "spec": {"terminationGracePeriodSeconds": 0, "containers": [container]},
            },
        },
    }


def play(
    moto: MotoAws, story: Callable[[Operation], Awaitable[None]], *, errors: str = "none"
) -> None:
    """Let a story happen in a cluster of its own; all errors told must be of one kind."""

    async def run() -> None:
        async with Operation(moto) as operation:
            await story(operation)
            told = operation.log.said("reconciler error")
            assert [one for one in told if errors not in one["error"]] == []

    asyncio.run(run())


def cordoned(operation: Operation, node: str) -> bool:
    found = operation.cluster.get(NODES, node)
    taints = found["spec"].get("taints") or () if found else ()
    return any(one["key"] == DISRUPTED.key for one in taints)


def zone_of(claim: Any) -> str:
    return str(claim["metadata"]["labels"][label_keys.ZONE])


async def grown(operation: Operation, pods: int) -> None:
    cluster = operation.cluster
    cluster.scale(DEPLOYMENTS, "inflate", pods)
    await until(lambda: len(cluster.running()) == pods, within=60)


def test_ten_pods_come_and_go_and_so_do_their_machines(moto: MotoAws) -> None:
    async def story(operation: Operation) -> None:
        cluster = operation.cluster
        cluster.apply(NODE_CLASS, a_pool("on-demand"), inflate())

        await grown(operation, 10)
        ours = {one["status"]["providerID"].rpartition("/")[2] for one in cluster.all(NODE_CLAIMS)}
        assert await operation.running() == ours
        cluster.scale(DEPLOYMENTS, "inflate", 0)
        await until(lambda: not cluster.all(NODE_CLAIMS), within=60)

        assert cluster.all(NODES) == []
        assert await operation.running() == set()
        assert set(await operation.instances()) == ours
        cluster.delete(EC2_NODE_CLASSES, "default")
        await until(lambda: not cluster.all(EC2_NODE_CLASSES), within=30)
        assert await operation.left_behind() == []

    play(moto, story)


async def interruption(operation: Operation) -> float:
    """Take a spot instance back; return the seconds until all that can be done was begun."""
    cluster = operation.cluster
    cluster.apply(NODE_CLASS, a_pool("spot"), inflate())
    await grown(operation, 3)
    old, *_ = cluster.all(NODE_CLAIMS)
    name, machine = old["metadata"]["name"], old["status"]["providerID"]
    instance = machine.rpartition("/")[2]
    before = set(cluster.claims())

    warning = asyncio.create_task(operation.warn(warnings.spot(instance)))
    took = await until(
        lambda: (
            name not in cluster.claims()
            and cordoned(operation, old["status"]["nodeName"])
            and set(cluster.claims()) - before
        ),
        within=30,
    )
    await warning
    await until(lambda: cluster.get(NODE_CLAIMS, name) is None, within=60)
    await until(lambda: len(cluster.running()) == 3, within=60)

    assert instance not in await operation.running()
    taken = (old["metadata"]["labels"][label_keys.INSTANCE_TYPE], machine.split("/")[3])
    assert taken not in {
        (one["metadata"]["labels"][label_keys.INSTANCE_TYPE], zone_of(one))
        for one in cluster.all(NODE_CLAIMS)
        if one["metadata"]["name"] not in before
    }
    return took


def test_a_spot_interruption_is_acted_on_before_the_drain_ends_and_survived(moto: MotoAws) -> None:
    async def story(operation: Operation) -> None:
        # How long it takes is measured in bench/aws.py.
        await interruption(operation)

    play(moto, story)


def test_what_is_sold_out_is_bought_in_another_way_at_once(moto: MotoAws) -> None:
    async def story(operation: Operation) -> None:
        cluster = operation.cluster
        moto.shop.stock.run_short(Shortage(capacity_type="spot"))
        cluster.apply(NODE_CLASS, a_pool("spot", "on-demand"), inflate())

        await grown(operation, 3)

        bought = await operation.instances()
        assert {one.get("InstanceLifecycle", "on-demand") for one in bought.values()} == {
            "on-demand"
        }
        assert len(bought) == len(cluster.claims())

    play(moto, story)


def test_pods_wait_while_their_only_choice_is_sold_out_and_run_once_they_have_another(
    moto: MotoAws,
) -> None:
    async def story(operation: Operation) -> None:
        cluster = operation.cluster
        moto.shop.stock.run_short(Shortage(instance_type="m5.*"))
        cluster.apply(NODE_CLASS, a_pool("on-demand", types=["m5.large"]), inflate())
        cluster.scale(DEPLOYMENTS, "inflate", 1)
        await until(lambda: moto.shop.requests, within=30)
        await until(lambda: not cluster.all(NODE_CLAIMS), within=30)
        asked = len(moto.shop.requests)

        await asyncio.sleep(3)

        assert len(moto.shop.requests) == asked
        assert cluster.all(NODE_CLAIMS) == []
        cluster.apply(a_pool("on-demand", types=["m5.large", "c5.xlarge"]))
        await until(lambda: len(cluster.running()) == 1, within=60)

    play(moto, story)


def test_a_throttled_account_serves_everybody_in_the_end_and_nobody_twice(moto: MotoAws) -> None:
    async def story(operation: Operation) -> None:
        cluster = operation.cluster
        cluster.apply(NODE_CLASS, a_pool("on-demand"), inflate())
        moto.door.script(Fault(operation="*", times=100))
        moto.door.script(Fault(operation="CreateFleet", times=5))

        await grown(operation, 10)
        ours = set(cluster.claims())
        moto.door.script(Fault(operation="*", times=100))
        cluster.scale(DEPLOYMENTS, "inflate", 0)
        await until(lambda: not cluster.all(NODE_CLAIMS), within=90)
        moto.door.reset()

        assert len(await operation.instances()) == len(ours)
        assert await operation.running() == set()

    play(moto, story, errors="RequestLimitExceeded")
