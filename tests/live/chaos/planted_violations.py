"""Violations that a run must report: they prove that its checks can fail."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import closing

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.karpenter.nodeclaims import decode_nodeclaim
from dovetail.codec.karpenter.nodeclasses import decode_nodeclass
from dovetail.host.clock import SystemClock
from dovetail.model.labels import ASSIGNED_PODS_ANNOTATION
from dovetail.operator.virtual.client import AccountClient
from tests.live.chaos.api import NODE_CLAIMS, PODS, Api, wait_until
from tests.live.chaos.environment import ChaosEnvironment
from tests.live.cluster import Cluster

_OTHER_CLUSTER = "other"
"""Garbage collection leaves instances of other clusters alone."""


def plant_leak(environment: ChaosEnvironment) -> None:
    """Launch an instance for a NodeClaim that does not exist."""
    claim = environment.api.items(NODE_CLAIMS)[0]
    claim["metadata"] |= {"name": "planted", "uid": "planted"}
    _launch(environment, claim)


def plant_double_launch(environment: ChaosEnvironment) -> None:
    """Launch another instance for a NodeClaim."""
    claim = environment.api.items(NODE_CLAIMS)[0]
    claim["metadata"]["uid"] = "planted-again"
    _launch(environment, claim)


def plant_double_plan(environment: ChaosEnvironment) -> None:
    """Create two NodeClaims for the same pod, as the leader."""
    leader = environment.wait_for_leader()
    kubeconfig = environment.folder / f"{leader.user}.kubeconfig"
    spec = environment.api.items(NODE_CLAIMS)[0]["spec"]
    spec["nodeClassRef"]["name"] = "missing"
    with closing(Api(Cluster(kubeconfig))) as api:
        for name in ("planted-1", "planted-2"):
            metadata = {"name": name, "annotations": {ASSIGNED_PODS_ANNOTATION: "default/planted/planted"}}
            claim = {"apiVersion": "karpenter.sh/v1", "kind": "NodeClaim", "metadata": metadata, "spec": spec}
            api.create(NODE_CLAIMS, claim)
    for name in ("planted-1", "planted-2"):
        environment.api.delete(f"{NODE_CLAIMS}/{name}")


def plant_pdb_violation(environment: ChaosEnvironment) -> None:
    """Delete pods that a PodDisruptionBudget protects, without eviction."""
    # The monitor samples every second, and new pods may be ready sooner.
    for _ in range(8):
        for pod in environment.api.items(f"{PODS}?labelSelector=app%3Dsteady"):
            environment.api.delete(f"{PODS}/{pod['metadata']['name']}?gracePeriodSeconds=0")
        SystemClock().sleep(0.5)


def plant_write_without_lease(environment: ChaosEnvironment) -> None:
    """Write as the replica that stands by."""
    assert wait_until("a standby", lambda: environment.standby() is not None, seconds=60) is not None
    standby = environment.standby()
    assert standby is not None
    kubeconfig = environment.folder / f"{standby.user}.kubeconfig"
    name = environment.api.items(NODE_CLAIMS)[0]["metadata"]["name"]
    patch = {"metadata": {"annotations": {"example.com/planted": "true"}}}
    with closing(Api(Cluster(kubeconfig))) as api:
        api.patch(f"{NODE_CLAIMS}/{name}", patch)


def plant_crash(environment: ChaosEnvironment) -> None:
    """End the standby in another way than by SIGKILL or a lost lease."""
    standby = next(replica for replica in environment.replicas if replica is not environment.leader())
    os.kill(standby.pid, signal.SIGABRT)
    SystemClock().sleep(1.0)
    environment.restart_exited()


PLANTED: dict[str, Callable[[ChaosEnvironment], None]] = {
    "leak": plant_leak,
    "double-launch": plant_double_launch,
    "double-plan": plant_double_plan,
    "pdb": plant_pdb_violation,
    "write-without-lease": plant_write_without_lease,
    "crash": plant_crash,
}


def _launch(environment: ChaosEnvironment, claim: dict[str, object]) -> None:
    context = DecodeContext(strict=False)
    node_class = environment.api.get("/apis/karpenter.k8s.aws/v1/ec2nodeclasses/default")

    async def create() -> None:
        client = AccountClient(environment.installation.endpoint, cluster=_OTHER_CLUSTER)
        try:
            response = await client.call(
                "create",
                claim=decode_nodeclaim(Field(claim, context)),
                node_class=decode_nodeclass(Field(node_class, context)),
            )
        finally:
            await client.close()
        assert response.error is None, response.error

    asyncio.run(create())
