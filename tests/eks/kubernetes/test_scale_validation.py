"""``dovetail cluster validate`` on a simulated cluster: nodes come, nodes go, no leftovers."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from dovetail.eks.kubernetes.scale_validation import (
    NAME,
    RUN_LABEL,
    ScaleValidation,
    ValidationReport,
    ValidationSettings,
)
from dovetail.ports.api_resources import DEPLOYMENTS, NODE_CLAIMS, NODES, PODS
from dovetail.ports.kube_errors import Unavailable
from dovetail.simulator.cluster import SimulatedCluster
from dovetail.simulator.event_loop import VirtualEventLoop
from dovetail.simulator.kube_client import SimulatedKubeClient
from tests.support.simulator.clusters import a_node_class, a_pool, an_app, build_cluster, build_scenario, wait

TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}


class Run:
    """A validation of a simulated cluster, in virtual time."""

    def __init__(
        self, cluster: SimulatedCluster, kube: SimulatedKubeClient | None = None, **settings: Any
    ) -> None:
        self.cluster = cluster
        self.lines: list[str] = []
        self.stop_at: float | None = None
        self._start = cluster.clock.now()
        self._reports: list[ValidationReport] = []
        loop = VirtualEventLoop(cluster.clock)
        validation = ScaleValidation(
            kube or SimulatedKubeClient(cluster.api),
            loop,
            ValidationSettings(**settings),
            report=self.lines.append,
            is_stopped=self._is_stopped,
        )

        async def run() -> None:
            self._reports.append(await validation.run())

        self._run = run
        self._loop = loop

    def _is_stopped(self) -> bool:
        return self.stop_at is not None and self.seconds >= self.stop_at

    @property
    def seconds(self) -> float:
        return (self.cluster.clock.now() - self._start).total_seconds()

    def start(self) -> None:
        self._loop.spawn(self._run())

    def until_done(self, *, stop_at: float | None = None) -> ValidationReport:
        self.stop_at = stop_at
        self.start()
        return self.finish()

    def finish(self) -> ValidationReport:
        while not self._reports:
            wait(self.cluster, 1)
            assert self.seconds < 3600
        return self._reports[0]


def a_cluster(*objects: dict[str, Any]) -> SimulatedCluster:
    return build_cluster(build_scenario(objects=objects or (a_node_class(), a_pool())))


def launched(cluster: SimulatedCluster) -> list[str]:
    return [
        node["metadata"]["name"]
        for node in cluster.api.list(NODES).items
        if "karpenter.sh/nodepool" in node["metadata"]["labels"]
    ]


def deployments(cluster: SimulatedCluster) -> list[str]:
    return [item["metadata"]["name"] for item in cluster.api.list(DEPLOYMENTS).items]


def steps(report: ValidationReport) -> dict[str, bool]:
    return {step.name: step.ok for step in report.steps}


def test_nodes_come_and_go_and_nothing_is_left() -> None:
    cluster = a_cluster()

    report = Run(cluster).until_done()

    assert report.ok
    assert list(steps(report)) == [
        "NodePools are ready",
        "pods are created",
        "nodes come",
        "nodes go",
        "clean up",
    ]
    assert report.nodes
    for node in report.nodes:
        assert (node.node_pool, node.instance_type, node.capacity_type) == ("default", "m5.large", "spot")
        assert node.ready_seconds >= 8
        assert node.removed_seconds is not None
        assert node.removed_seconds >= 30
    assert deployments(cluster) == []
    assert launched(cluster) == []
    assert cluster.api.list(NODE_CLAIMS).items == []


def test_pods_tolerate_the_taints_of_nodepools_only() -> None:
    tainted = a_pool()
    tainted["spec"]["template"]["spec"]["taints"] = [TAINT]

    run = Run(a_cluster(a_node_class(), tainted))

    assert run.until_done().ok


def test_nodepool_that_is_named_launches_the_nodes() -> None:
    other = a_pool(weight=50)
    other["metadata"] = {"name": "other"}
    cluster = a_cluster(a_node_class(), a_pool(), other)

    report = Run(cluster, node_pool="default").until_done()

    assert report.ok
    assert {node.node_pool for node in report.nodes} == {"default"}


def test_empty_nodes_that_are_never_consolidated_are_deleted() -> None:
    pool = a_pool(disruption={"consolidateAfter": "Never"})
    cluster = a_cluster(a_node_class(), pool)
    run = Run(cluster)

    report = run.until_done()

    assert report.ok
    assert any("has consolidateAfter Never" in line for line in run.lines)
    assert launched(cluster) == []


def test_node_that_another_workload_uses_stays_and_is_reported() -> None:
    cluster = a_cluster()
    run = Run(cluster, replicas=1)
    run.start()
    while not launched(cluster):
        wait(cluster, 1)
    cluster.apply([an_app("web", replicas=1)])

    report = run.finish()

    assert report.ok
    (node,) = report.nodes
    assert node.removed_seconds is None
    assert node.kept_by.startswith("default/web-")
    assert launched(cluster) == [node.name]


@pytest.mark.parametrize(
    ("objects", "settings", "message"),
    [
        ((a_node_class(),), {}, "there is no NodePool; create one first"),
        ((a_node_class(), a_pool()), {"node_pool": "gpu"}, "there is no NodePool gpu"),
        ((a_pool(),), {}, "NodePool default: it is not ready"),
    ],
)
def test_without_a_usable_nodepool_nothing_is_created(
    objects: Sequence[dict[str, Any]], settings: dict[str, Any], message: str
) -> None:
    cluster = a_cluster(*objects)
    wait(cluster, 5)

    report = Run(cluster, **settings).until_done()

    assert not report.ok
    assert steps(report) == {"NodePools are ready": False}
    assert message in report.steps[0].message
    assert deployments(cluster) == []


def test_pods_that_no_instance_type_fits_fail_with_the_reason_and_are_removed() -> None:
    cluster = a_cluster()

    report = Run(cluster, cpu="64", timeout=timedelta(minutes=2)).until_done()

    assert not report.ok
    assert steps(report)["nodes come"] is False
    message = report.steps[2].message
    assert message.startswith("not done after 120 s: no NodeClaim was created, 3 pods not ready")
    assert deployments(cluster) == []


def test_nodes_that_never_register_fail_with_the_condition_and_their_claims_are_deleted() -> None:
    cluster = a_cluster()
    cluster.ec2.on_booted = lambda _: None

    report = Run(cluster, timeout=timedelta(minutes=2)).until_done()
    wait(cluster, 60)

    assert not report.ok
    assert "is not Registered" in report.steps[2].message
    assert "NodeClaims" in report.steps[-1].message
    assert deployments(cluster) == []
    assert cluster.api.list(NODE_CLAIMS).items == []


def test_nodes_that_stay_fail_with_the_setting_and_are_deleted() -> None:
    cluster = a_cluster(a_node_class(), a_pool(disruption={"consolidateAfter": "1h"}))

    report = Run(cluster, timeout=timedelta(minutes=2)).until_done()
    wait(cluster, 60)

    assert not report.ok
    assert "consolidateAfter 1h" in report.steps[3].message
    assert launched(cluster) == []


@pytest.mark.parametrize("stop_at", [1, 5, 10, 12, 20, 40])
def test_interruption_deletes_pods_and_nodes(stop_at: float) -> None:
    cluster = a_cluster(a_node_class(), a_pool(disruption={"consolidateAfter": "1h"}))

    report = Run(cluster).until_done(stop_at=stop_at)
    wait(cluster, 120)

    assert (report.ok, report.interrupted) == (False, True)
    assert deployments(cluster) == []
    assert [pod for pod in cluster.api.list(PODS).items if RUN_LABEL in pod["metadata"]["labels"]] == []
    assert launched(cluster) == []


def test_pods_that_fit_on_existing_nodes_prove_nothing() -> None:
    cluster = a_cluster()
    cluster.apply([an_app("web", replicas=1)])
    wait(cluster, 30)

    report = Run(cluster, replicas=1, cpu="100m").until_done()

    assert not report.ok
    assert report.steps[2].message == (
        "nodes that existed before have room for 1 pod; use more --replicas or --cpu"
    )
    assert deployments(cluster) == ["web"]


def test_deployment_of_an_aborted_run_is_replaced() -> None:
    cluster = a_cluster()
    aborted = an_app(NAME, replicas=1)
    aborted["metadata"]["labels"] = {RUN_LABEL: "20260101-000000"}
    cluster.apply([aborted])
    wait(cluster, 1)

    assert Run(cluster).until_done().ok
    assert deployments(cluster) == []


def test_deployment_without_the_label_is_kept() -> None:
    cluster = a_cluster()
    cluster.apply([an_app(NAME, replicas=0)])

    report = Run(cluster).until_done()

    assert not report.ok
    assert "exists without the label dovetail.sh/validate" in report.steps[1].message
    assert deployments(cluster) == [NAME]


class FlakyClient(SimulatedKubeClient):
    """Every seventh list request fails."""

    _requests = 0

    async def list(self, *args: Any, **kwargs: Any) -> Any:
        self._requests += 1
        if self._requests % 7 == 0:
            raise Unavailable("connection refused")
        return await super().list(*args, **kwargs)


def test_run_continues_while_the_api_server_is_unavailable_at_times() -> None:
    cluster = a_cluster()
    run = Run(cluster, FlakyClient(cluster.api))

    report = run.until_done()

    assert report.ok
    assert any(line.startswith("retrying: ") for line in run.lines)
    assert deployments(cluster) == []


class UnreachableClient(SimulatedKubeClient):
    """No request is answered."""

    async def list(self, *args: Any, **kwargs: Any) -> Any:
        raise Unavailable("connection refused")


def test_api_server_that_is_not_reachable_at_the_start_fails_within_seconds() -> None:
    cluster = a_cluster()
    run = Run(cluster, UnreachableClient(cluster.api))

    with pytest.raises(Unavailable):
        run.until_done()

    assert run.seconds <= 15


class BusyClient(SimulatedKubeClient):
    """Half a minute passes before each list of pods: the cluster changes between requests."""

    def __init__(self, cluster: SimulatedCluster, loop: VirtualEventLoop) -> None:
        super().__init__(cluster.api)
        self._loop = loop

    async def list(self, resource: Any, **options: Any) -> Any:
        if resource is PODS:
            await self._loop.sleep(timedelta(seconds=30))
        return await super().list(resource, **options)


def test_node_that_becomes_ready_between_two_requests_counts_as_new() -> None:
    cluster = a_cluster()

    report = Run(cluster, BusyClient(cluster, VirtualEventLoop(cluster.clock))).until_done()

    assert report.ok
    assert report.nodes
