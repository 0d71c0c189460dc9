"""Controllers in a simulated cluster that launch through boto3 from moto.

Everything is in real time; instances boot in a fraction of a second, from the user
data that they were launched with.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from dovetail.model import labels as label_keys
from dovetail.model.kube.taints import DISRUPTED_TAINT
from dovetail.ports.api_resources import DEPLOYMENTS, EC2_NODE_CLASSES, NODE_CLAIMS, NODES
from dovetail.simulator.ec2.capacity import CapacityLimit
from tests.support.aws import interruption_events
from tests.support.aws.operator_process import OperatorProcess
from tests.support.moto.middleware import ScriptedError
from tests.support.moto.server import MotoAws
from tests.support.simulator.realtime_cluster import until

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
    requirements = [{"key": label_keys.CAPACITY_TYPE, "operator": "In", "values": list(capacity_types)}]
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
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
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
    container = {"name": "inflate", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
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


def run_scenario(
    moto: MotoAws, scenario: Callable[[OperatorProcess], Awaitable[None]], *, errors: str = "none"
) -> None:
    """Run a scenario in a new cluster; all logged errors must be of one kind."""

    async def run() -> None:
        async with OperatorProcess(moto) as process:
            await scenario(process)
            entries = process.log.entries("reconciler error")
            assert [entry for entry in entries if errors not in entry["error"]] == []

    asyncio.run(run())


def is_cordoned(process: OperatorProcess, node: str) -> bool:
    result = process.cluster.get(NODES, node)
    taints = result["spec"].get("taints") or () if result else ()
    return any(taint["key"] == DISRUPTED_TAINT.key for taint in taints)


def zone_of(claim: Any) -> str:
    return str(claim["metadata"]["labels"][label_keys.ZONE])


async def scale_up(process: OperatorProcess, pods: int) -> None:
    cluster = process.cluster
    cluster.scale(DEPLOYMENTS, "inflate", pods)
    await until(lambda: len(cluster.running()) == pods, within=60)


def test_ten_pods_come_and_go_and_so_do_their_instances(moto: MotoAws) -> None:
    async def scenario(process: OperatorProcess) -> None:
        cluster = process.cluster
        cluster.apply(NODE_CLASS, a_pool("on-demand"), inflate())

        await scale_up(process, 10)
        ours = {entry["status"]["providerID"].rpartition("/")[2] for entry in cluster.all(NODE_CLAIMS)}
        assert await process.running() == ours
        cluster.scale(DEPLOYMENTS, "inflate", 0)
        await until(lambda: not cluster.all(NODE_CLAIMS), within=60)

        assert cluster.all(NODES) == []
        assert await process.running() == set()
        assert set(await process.instances()) == ours
        cluster.delete(EC2_NODE_CLASSES, "default")
        await until(lambda: not cluster.all(EC2_NODE_CLASSES), within=30)
        assert await process.leftovers() == []

    run_scenario(moto, scenario)


async def interruption(process: OperatorProcess) -> float:
    """Interrupt a spot instance; return the seconds until its replacement is created."""
    cluster = process.cluster
    cluster.apply(NODE_CLASS, a_pool("spot"), inflate())
    await scale_up(process, 3)
    old, *_ = cluster.all(NODE_CLAIMS)
    name, provider_id = old["metadata"]["name"], old["status"]["providerID"]
    instance = provider_id.rpartition("/")[2]
    before = set(cluster.claims())

    warning = asyncio.create_task(process.send_event(interruption_events.spot(instance)))
    elapsed = await until(
        lambda: (
            name not in cluster.claims()
            and is_cordoned(process, old["status"]["nodeName"])
            and set(cluster.claims()) - before
        ),
        within=30,
    )
    await warning
    await until(lambda: cluster.get(NODE_CLAIMS, name) is None, within=60)
    await until(lambda: len(cluster.running()) == 3, within=60)

    assert instance not in await process.running()
    taken = (old["metadata"]["labels"][label_keys.INSTANCE_TYPE], provider_id.split("/")[3])
    assert taken not in {
        (entry["metadata"]["labels"][label_keys.INSTANCE_TYPE], zone_of(entry))
        for entry in cluster.all(NODE_CLAIMS)
        if entry["metadata"]["name"] not in before
    }
    return elapsed


def test_a_spot_interruption_is_handled_before_the_drain_ends(moto: MotoAws) -> None:
    async def scenario(process: OperatorProcess) -> None:
        # How long it takes is measured in bench/aws.py.
        await interruption(process)

    run_scenario(moto, scenario)


def test_an_unavailable_offering_is_replaced_at_once(moto: MotoAws) -> None:
    async def scenario(process: OperatorProcess) -> None:
        cluster = process.cluster
        moto.capacity.pools.add_limit(CapacityLimit(capacity_type="spot"))
        cluster.apply(NODE_CLASS, a_pool("spot", "on-demand"), inflate())

        await scale_up(process, 3)

        launched = await process.instances()
        assert {entry.get("InstanceLifecycle", "on-demand") for entry in launched.values()} == {"on-demand"}
        assert len(launched) == len(cluster.claims())

    run_scenario(moto, scenario)


def test_pods_wait_without_capacity_and_run_with_another_offering(moto: MotoAws) -> None:
    async def scenario(process: OperatorProcess) -> None:
        cluster = process.cluster
        moto.capacity.pools.add_limit(CapacityLimit(instance_type="m5.*"))
        cluster.apply(NODE_CLASS, a_pool("on-demand", types=["m5.large"]), inflate())
        cluster.scale(DEPLOYMENTS, "inflate", 1)
        await until(lambda: moto.capacity.requests, within=30)
        await until(lambda: not cluster.all(NODE_CLAIMS), within=30)
        request = len(moto.capacity.requests)

        await asyncio.sleep(3)

        assert len(moto.capacity.requests) == request
        assert cluster.all(NODE_CLAIMS) == []
        cluster.apply(a_pool("on-demand", types=["m5.large", "c5.xlarge"]))
        await until(lambda: len(cluster.running()) == 1, within=60)

    run_scenario(moto, scenario)


def test_throttled_claims_all_get_exactly_one_instance(moto: MotoAws) -> None:
    async def scenario(process: OperatorProcess) -> None:
        cluster = process.cluster
        cluster.apply(NODE_CLASS, a_pool("on-demand"), inflate())
        moto.middleware.add_error(ScriptedError(operation="*", times=100))
        moto.middleware.add_error(ScriptedError(operation="CreateFleet", times=5))

        await scale_up(process, 10)
        ours = set(cluster.claims())
        moto.middleware.add_error(ScriptedError(operation="*", times=100))
        cluster.scale(DEPLOYMENTS, "inflate", 0)
        await until(lambda: not cluster.all(NODE_CLAIMS), within=90)
        moto.middleware.reset()

        assert len(await process.instances()) == len(ours)
        assert await process.running() == set()

    run_scenario(moto, scenario, errors="RequestLimitExceeded")
