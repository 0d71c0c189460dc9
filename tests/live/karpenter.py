"""A model of Karpenter on a live cluster.

It launches nodes, holds the Lease, and detects static drift. It writes objects
exactly as Karpenter 1.14 does, and shares no code with Dovetail's controllers.
Instances come from the virtual account.
"""

import asyncio
import json
from typing import Any

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.karpenter.nodeclaims import decode_nodeclaim
from dovetail.codec.karpenter.nodeclasses import decode_nodeclass
from dovetail.host.clock import SystemClock
from dovetail.operator.virtual.client import AccountClient
from dovetail.ports.cloudprovider import Instance
from tests.live.cluster import wait_for
from tests.live.replicas import CLUSTER, Installation
from tests.support.karpenter import objects as karpenter
from tests.support.karpenter.hashes import NODECLASS, NODEPOOL, reconcile_hashes, static_drift

Object = dict[str, Any]
UNREGISTERED = "karpenter.sh/unregistered"


class Karpenter:
    """Karpenter's part in a migration."""

    def __init__(self, installation: Installation) -> None:
        self._installation = installation
        self._cluster = installation.cluster

    def install(self) -> None:
        """Create NodePool, node class, Deployment and Lease as Karpenter leaves them."""
        now = SystemClock().now()
        self._cluster.apply(
            karpenter.service_account(),
            without_status(karpenter.deployment(replicas=1)),
            without_status(karpenter.nodepool(now=now)),
            without_status(karpenter.nodeclass(now=now)),
        )
        node_class = self._cluster.read("ec2nodeclass", "default")
        status = asyncio.run(self._resolve(node_class))
        ready = observed(karpenter.nodeclass(now=now)["status"], node_class)
        self._patch_status("ec2nodeclass", "default", {**ready, **status})
        pool = self._cluster.read("nodepool", "default")
        self._patch_status("nodepool", "default", observed(karpenter.nodepool(now=now)["status"], pool))
        for kind, rule in (("nodepool", NODEPOOL), ("ec2nodeclass", NODECLASS)):
            self._annotate(kind, "default", rule.annotations_for(self._cluster.read(kind, "default")))

    def lead(self, holder: str = "karpenter-6d5f7c_0c1d") -> None:
        """Hold the Lease, or release it with an empty holder."""
        self._cluster.apply(karpenter.lease(holder, renewed=SystemClock().now()))

    def create_claims(self, *names: str, instance_type: str) -> list[Object]:
        """Create NodeClaims as the provisioner does."""
        pool = self._cluster.read("nodepool", "default")
        node_class = self._cluster.read("ec2nodeclass", "default")
        types = (instance_type,)
        self._cluster.apply(
            *(karpenter.nodeclaim(name, pool, node_class, instance_types=types) for name in names)
        )
        return [claim for claim in self._installation.claims() if claim["metadata"]["name"] in names]

    def launch_nodes(self, hash_versions: dict[str, str], *, instance_type: str) -> None:
        """Launch, register and initialize nodes: NodeClaim → hash version of its node class."""
        claims = self.create_claims(*hash_versions, instance_type=instance_type)
        node_class = self._cluster.read("ec2nodeclass", "default")
        instances = [asyncio.run(self._create(claim, node_class)) for claim in claims]
        wait_for(
            "the kubelets have registered",
            lambda: {instance.provider_id for instance in instances} <= set(self._nodes()),
        )
        nodes = self._nodes()
        for claim, instance in zip(claims, instances, strict=True):
            complete = karpenter.launched(
                claim, node_class, instance=instance_type, zone=instance.zone, labels=dict(instance.labels)
            )["metadata"]
            version = hash_versions[claim["metadata"]["name"]]
            if version != NODECLASS.version:
                complete["annotations"] |= {NODECLASS.version_key: version, NODECLASS.hash_key: "1"}
            self._join(claim, complete, instance, nodes[instance.provider_id])

    def _join(self, claim: Object, complete: Object, instance: Instance, node: Object) -> None:
        """Write a NodeClaim and its Node as after registration and initialization."""
        name = claim["metadata"]["name"]
        metadata = {"labels": complete["labels"], "annotations": complete["annotations"]}
        self._patch("nodeclaim", name, {"metadata": metadata})
        self._register(node, claim, metadata)
        status = karpenter.claim_status(
            instance.provider_id,
            node["metadata"]["name"],
            image=instance.image_id,
            now=SystemClock().now(),
            capacity=dict(instance.capacity.to_quantities()),
            allocatable=dict(instance.allocatable.to_quantities()),
        )
        self._patch_status("nodeclaim", name, status)

    def begin_disruption(self, name: str) -> None:
        """Taint a node and mark its NodeClaim, as a command does before its replacement is ready."""
        claim = self._cluster.read("nodeclaim", name)
        taint = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}
        self._patch("node", claim["status"]["nodeName"], {"spec": {"taints": [taint]}})
        (reason,) = karpenter.conditions("DisruptionReason", since=SystemClock().now())
        conditions = [*claim["status"]["conditions"], {**reason, "reason": "Underutilized"}]
        self._patch_status("nodeclaim", name, {"conditions": conditions})

    def reconcile(self) -> dict[str, str]:
        """Replace hashes as after a start; return NodeClaims with static drift."""
        pool = self._cluster.read("nodepool", "default")
        node_class = self._cluster.read("ec2nodeclass", "default")
        claims = self._installation.claims()
        for rule, owner in ((NODEPOOL, pool), (NODECLASS, node_class)):
            reconcile_hashes(rule, owner, claims)
        for obj in (pool, node_class, *claims):
            self._annotate(obj["kind"].lower(), obj["metadata"]["name"], obj["metadata"]["annotations"])
        return {
            claim["metadata"]["name"]: reason
            for claim in claims
            for rule, owner in ((NODEPOOL, pool), (NODECLASS, node_class))
            if (reason := static_drift(rule, owner, claim)) is not None
        }

    async def _resolve(self, node_class: Object) -> Object:
        return (await self._call("resolve", node_class_object=node_class)).required_status.status

    async def _create(self, claim: Object, node_class: Object) -> Instance:
        context = DecodeContext(strict=False)
        response = await self._call(
            "create",
            claim=decode_nodeclaim(Field(claim, context)),
            node_class=decode_nodeclass(Field(node_class, context)),
        )
        assert response.error is None, response.error
        instance: Instance = response.required_instance
        return instance

    async def _call(self, method: str, **fields: Any) -> Any:
        client = AccountClient(self._installation.endpoint, cluster=CLUSTER)
        try:
            return await client.call(method, **fields)
        finally:
            await client.close()

    def _nodes(self) -> dict[str, Object]:
        """Return all Nodes by provider id."""
        return {node["spec"].get("providerID", ""): node for node in self._installation.nodes()}

    def _register(self, node: Object, claim: Object, metadata: Object) -> None:
        owner = {
            "apiVersion": "karpenter.sh/v1",
            "kind": "NodeClaim",
            "name": claim["metadata"]["name"],
            "uid": claim["metadata"]["uid"],
            "blockOwnerDeletion": True,
        }
        joined = {"karpenter.sh/registered": "true", "karpenter.sh/initialized": "true"}
        taints = [taint for taint in node["spec"].get("taints", ()) if taint["key"] != UNREGISTERED]
        patch = {
            "metadata": {
                "labels": {**metadata["labels"], **joined},
                "annotations": metadata["annotations"],
                "finalizers": [karpenter.FINALIZER],
                "ownerReferences": [owner],
            },
            "spec": {"taints": taints},
        }
        self._patch("node", node["metadata"]["name"], patch)

    def _annotate(self, kind: str, name: str, annotations: dict[str, str]) -> None:
        self._patch(kind, name, {"metadata": {"annotations": annotations}})

    def _patch(self, kind: str, name: str, patch: Object) -> None:
        self._cluster.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps(patch))

    def _patch_status(self, kind: str, name: str, status: Object) -> None:
        patch = json.dumps({"status": status})
        self._cluster.kubectl("patch", kind, name, "--subresource=status", "--type=merge", "-p", patch)


def observed(status: Object, obj: Object) -> Object:
    """Return a status whose conditions are about the current generation of an object."""
    generation = obj["metadata"]["generation"]
    conditions = [{**condition, "observedGeneration": generation} for condition in status["conditions"]]
    return {**status, "conditions": conditions}


def without_status(obj: Object) -> Object:
    """Return an object as it is created: the status is written separately."""
    return {key: value for key, value in obj.items() if key != "status"}
