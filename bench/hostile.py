"""Measure how long an ordinary pod waits beside pods that are expensive to plan.

Run as ``python -m bench.hostile``: one JSON line. A simulated cluster has 100 NodePools and
62 pods of ``tests.support.kube.hostile_objects``. Ten ordinary pods follow, one after the
other. The wait of a pod is the virtual time until its NodeClaim exists plus the processor
time of all plans meanwhile: virtual time stands still during a plan.
"""

import argparse
import json
import time
from datetime import timedelta
from typing import Any

from bench.memory import peak_kib
from dovetail.controllers.provisioning import provisioner
from dovetail.core.scheduling.solver import solve
from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.model.plan import Plan
from dovetail.ports.api_resources import NODE_CLAIMS
from dovetail.simulator.cluster import SimulatedCluster
from tests.support.kube.hostile_objects import hostile_nodepools, hostile_pods
from tests.support.simulator.clusters import a_node_class, a_pool, build_scenario

_STEP = timedelta(milliseconds=100)
_MAX_WAIT = timedelta(minutes=2)


def main() -> None:
    """Run the benchmark; the numbers of objects are options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=62)
    parser.add_argument("--nodepools", type=int, default=100)
    parser.add_argument("--ordinary", type=int, default=10)
    options = parser.parse_args()
    print(json.dumps(measure(options.pods, options.nodepools, options.ordinary)))


def measure(pods: int, nodepools: int, ordinary: int) -> dict[str, float]:
    """Return waits of ordinary pods and processor time, in seconds, and peak memory."""
    scenario = build_scenario(objects=(a_node_class(), a_pool()))
    cluster = SimulatedCluster(scenario, catalog=bundled_catalog(), prices=bundled_prices())
    planning = _PlanningTime()
    cluster.clock.run(until=cluster.clock.now() + timedelta(seconds=30))
    before_mib = peak_kib() / 1024
    cluster.apply([*hostile_nodepools(nodepools), *hostile_pods(pods)])
    started, began = time.process_time(), cluster.clock.now()
    waits = [_measure_wait(cluster, planning, number) for number in range(ordinary)]
    return {
        "longest_wait_seconds": round(max(waits), 2),
        "mean_wait_seconds": round(sum(waits) / len(waits), 2),
        "longest_plan_seconds": round(planning.longest, 2),
        "planning_seconds": round(planning.total, 2),
        "processor_seconds": round(time.process_time() - started, 2),
        "virtual_seconds": round((cluster.clock.now() - began).total_seconds()),
        "peak_mib_before": round(before_mib),
        "peak_mib": round(peak_kib() / 1024),
    }


class _PlanningTime:
    """Processor time of the provisioner's plans, in seconds."""

    def __init__(self) -> None:
        self.total = self.longest = 0.0
        setattr(provisioner, "solve", self._solve)  # noqa: B010 - not exported

    def _solve(self, *arguments: Any) -> Plan:
        started = time.process_time()
        plan = solve(*arguments)
        took = time.process_time() - started
        self.total, self.longest = self.total + took, max(self.longest, took)
        return plan


def _measure_wait(cluster: SimulatedCluster, planning: _PlanningTime, number: int) -> float:
    """Create an ordinary pod, wait for its NodeClaim, then run on for some seconds."""
    known = len(_ordinary_claims(cluster))
    cluster.apply([_an_ordinary_pod(number)])
    began, used = cluster.clock.now(), planning.total
    while len(_ordinary_claims(cluster)) == known:
        cluster.clock.run(until=cluster.clock.now() + _STEP)
        if cluster.clock.now() - began > _MAX_WAIT:
            break
    wait = (cluster.clock.now() - began).total_seconds() + planning.total - used
    cluster.clock.run(until=cluster.clock.now() + timedelta(seconds=7 * number))
    return wait


def _ordinary_claims(cluster: SimulatedCluster) -> list[dict[str, Any]]:
    claims = cluster.api.list(NODE_CLAIMS).items
    return [claim for claim in claims if claim["metadata"]["labels"]["karpenter.sh/nodepool"] == "default"]


def _an_ordinary_pod(number: int) -> dict[str, Any]:
    requests = {"cpu": "1850m", "memory": "1Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"ordinary-{number}", "namespace": "default", "labels": {"app": "ordinary"}},
        "spec": {"containers": [{"name": "app", "image": "app:1", "resources": {"requests": requests}}]},
    }


if __name__ == "__main__":
    main()
