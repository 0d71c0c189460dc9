"""Validation of a cluster by use: pods that need nodes come and go.

A Deployment ``inflate`` is created with pods that only nodes of NodePools accept.
The run waits until they are ready on new nodes, scales to zero, and waits until
those nodes are gone. The Deployment is deleted in any case.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec

from dovetail.codec.text.suggestions import pluralize
from dovetail.errors import DovetailError
from dovetail.model import labels as label_keys
from dovetail.model.karpenter.condition_types import INITIALIZED, LAUNCHED, REGISTERED
from dovetail.ports.api_resources import DEPLOYMENTS, NODE_CLAIMS, NODE_POOLS, NODES, PODS, Resource
from dovetail.ports.event_loop import EventLoop
from dovetail.ports.kube_client import KubeClient, Object
from dovetail.ports.kube_errors import InternalError, NotFound, Timeout, TooManyRequests, Unavailable

NAME: Final = "inflate-validate"
RUN_LABEL: Final = "dovetail.sh/validate"
"""Label of the Deployment and its pods: the start of the run.

A Deployment without it is never touched. Pods of an aborted run, which may still
exist, have another value.
"""
_TRANSIENT: Final = (InternalError, Timeout, TooManyRequests, Unavailable)
_NEVER: Final = "Never"
_CLEAN_UP_LIMIT: Final = timedelta(minutes=1)
_CONNECT_LIMIT: Final = timedelta(seconds=10)


class ValidationSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Size of the Deployment, and how long to wait."""

    namespace: str = "default"
    replicas: int = 3
    cpu: str = "1"
    image: str = "public.ecr.aws/eks-distro/kubernetes/pause:3.10"
    node_pool: str = ""
    """NodePool that must launch the nodes; any if empty."""
    timeout: timedelta = timedelta(minutes=10)
    """Limit of each of the two waits: for nodes to come, and to go."""
    poll_interval: timedelta = timedelta(seconds=2)


class ValidationStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step that ended. Field names are part of the JSON output."""

    name: str
    ok: bool
    seconds: float
    message: str


class ValidatedNode(msgspec.Struct, kw_only=True, rename="camel"):
    """A node that was launched for the pods. Field names are part of the JSON output."""

    name: str
    node_claim: str
    node_pool: str
    instance_type: str
    capacity_type: str
    zone: str
    ready_seconds: float
    """Seconds from the creation of the pods until one of them was ready on it."""
    removed_seconds: float | None = None
    """Seconds from the scaling to zero until it was gone."""
    kept_by: str = ""
    """A pod of another workload, because of which the node stays."""


class ValidationReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a validation. Field names are part of the JSON output."""

    ok: bool
    interrupted: bool = False
    steps: tuple[ValidationStep, ...] = ()
    nodes: tuple[ValidatedNode, ...] = ()


class ValidationFailedError(DovetailError):
    """A step of the validation did not succeed."""


class _InterruptedError(Exception):
    """The user stopped the run."""


class ScaleValidation:
    """One run; ``run`` may be called once."""

    def __init__(
        self,
        kube: KubeClient,
        loop: EventLoop,
        settings: ValidationSettings,
        *,
        report: Callable[[str], None],
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """``report`` gets a line per event; ``is_stopped`` ends the run when it is True."""
        self._kube = kube
        self._loop = loop
        self._settings = settings
        self._report = report
        self._is_stopped = is_stopped
        self._steps: list[ValidationStep] = []
        self._nodes: dict[str, ValidatedNode] = {}
        self._claims_before: set[str] = set()
        self._run_id = f"{loop.now():%Y%m%d-%H%M%S}"
        self._is_deployed = False

    async def run(self) -> ValidationReport:
        """Run all steps; clean up after success, failure and interruption alike."""
        interrupted = ok = False
        try:
            pools = await self._step("NodePools are ready", self._check_nodepools, _CONNECT_LIMIT)
            await self._step("pods are created", lambda: self._deploy(pools))
            await self._step("nodes come", self._wait_for_nodes)
            await self._step("nodes go", self._wait_for_removal)
            ok = True
        except ValidationFailedError:
            pass  # The failed step is in the report.
        except _InterruptedError:
            interrupted = True
        finally:
            ok = await self._clean_up(failed=not ok) and ok
        nodes = tuple(self._nodes[name] for name in sorted(self._nodes))
        return ValidationReport(ok=ok, interrupted=interrupted, steps=tuple(self._steps), nodes=nodes)

    async def _step(
        self, name: str, work: Callable[[], Awaitable[Any]], retry_limit: timedelta | None = None
    ) -> Any:
        start = self._loop.now()
        ok, result, message = False, None, "interrupted"
        try:
            result = await self._retry(work, retry_limit or self._settings.timeout)
            ok, message = True, result if isinstance(result, str) else ""
        except DovetailError as error:
            message = str(error)
            raise
        finally:
            seconds = round((self._loop.now() - start).total_seconds(), 1)
            self._steps.append(ValidationStep(name=name, ok=ok, seconds=seconds, message=message))
            self._report(f"{'ok' if ok else 'failed'}: {name}" + (f": {message}" if message else ""))
        return result

    async def _retry(self, work: Callable[[], Awaitable[Any]], limit: timedelta) -> Any:
        """Run idempotent work again while the API server is not available."""
        deadline = self._loop.now() + limit
        while True:
            try:
                return await work()
            except _TRANSIENT as error:
                if self._loop.now() >= deadline:
                    raise
                self._report(f"retrying: {error}")
            await self._loop.sleep(self._settings.poll_interval)

    async def _check_nodepools(self) -> list[Object]:
        listed = await self._kube.list(NODE_POOLS)
        pools = [pool for pool in listed if self._settings.node_pool in ("", pool["metadata"]["name"])]
        if not pools:
            wanted = f" {self._settings.node_pool}" if self._settings.node_pool else ""
            raise ValidationFailedError(f"there is no NodePool{wanted}; create one first")
        reasons = {pool["metadata"]["name"]: _not_ready(pool) for pool in pools}
        usable = [pool for pool in pools if not reasons[pool["metadata"]["name"]]]
        if not usable:
            texts = "; ".join(f"NodePool {name}: {reason}" for name, reason in sorted(reasons.items()))
            raise ValidationFailedError(f"{texts}; run dovetail doctor")
        return usable

    async def _deploy(self, pools: Sequence[Object]) -> None:
        await self._remove_deployment()
        self._claims_before = {claim["metadata"]["name"] for claim in await self._kube.list(NODE_CLAIMS)}
        self._is_deployed = True
        manifest = deployment_manifest(self._settings, pools, run=self._run_id)
        await self._kube.create(DEPLOYMENTS, manifest, self._settings.namespace)

    async def _wait_for_nodes(self) -> str:
        start = self._loop.now()
        reported: set[str] = set()

        async def poll() -> str | None:
            # Pods first: the NodeClaim of a ready pod's node then has the node's name.
            pods = await self._pods()
            claims = await self._new_claims()
            for name, claim in claims.items():
                if name not in reported:
                    reported.add(name)
                    self._report(f"NodeClaim {name}: {_description(claim)}")
            by_node = {claim.get("status", {}).get("nodeName"): claim for claim in claims.values()}
            ready = [pod for pod in pods if _is_true(pod, "Ready")]
            for pod in ready:
                node_name = str(pod["spec"].get("nodeName") or "")
                if node_name in by_node and node_name not in self._nodes:
                    seconds = round((self._loop.now() - start).total_seconds(), 1)
                    self._nodes[node_name] = _validated(node_name, by_node[node_name], seconds)
                    self._report(f"node {node_name} runs pods after {seconds:g} s")
            if len(ready) < self._settings.replicas:
                return None
            if not self._nodes:
                raise ValidationFailedError(
                    f"nodes that existed before have room for {pluralize(len(ready), 'pod')}; use more "
                    "--replicas or --cpu"
                )
            nodes = pluralize(len(self._nodes), "new node")
            return f"{pluralize(len(ready), 'pod')} ready on {nodes}"

        async def diagnose() -> str:
            return await self._scale_up_blockers()

        return await self._wait(poll, diagnose)

    async def _wait_for_removal(self) -> str:
        start = self._loop.now()
        await self._kube.patch(DEPLOYMENTS, NAME, {"spec": {"replicas": 0}}, self._settings.namespace)
        await self._delete_unconsolidated()

        async def poll() -> str | None:
            waiting = 0
            for name, node in self._nodes.items():
                if node.removed_seconds is not None:
                    continue
                node.kept_by = await self._other_pod(name)
                has_claim = await self._exists(NODE_CLAIMS, node.node_claim)
                if not has_claim and not await self._exists(NODES, name):
                    node.removed_seconds = round((self._loop.now() - start).total_seconds(), 1)
                    self._report(f"node {name} is gone after {node.removed_seconds:g} s")
                elif not node.kept_by:
                    waiting += 1
            if waiting:
                return None
            kept = [node for node in self._nodes.values() if node.removed_seconds is None]
            removed = len(self._nodes) - len(kept)
            stays = "".join(f"; {node.name} stays for pod {node.kept_by}" for node in kept)
            return f"{pluralize(removed, 'node')} removed{stays}"

        async def diagnose() -> str:
            return await self._removal_blockers()

        return await self._wait(poll, diagnose)

    async def _delete_unconsolidated(self) -> None:
        """Delete the NodeClaims of NodePools that never remove empty nodes."""
        after = await self._consolidate_after()
        for node in self._nodes.values():
            if after.get(node.node_pool) == _NEVER and not await self._other_pod(node.name):
                self._report(
                    f"NodePool {node.node_pool} has consolidateAfter {_NEVER}: deleting NodeClaim "
                    f"{node.node_claim}"
                )
                await self._delete_claim(node.node_claim)

    async def _consolidate_after(self) -> dict[str, str]:
        """Return consolidateAfter by NodePool."""
        return {
            str(pool["metadata"]["name"]): str(
                pool.get("spec", {}).get("disruption", {}).get("consolidateAfter") or "0s"
            )
            for pool in await self._kube.list(NODE_POOLS)
        }

    async def _wait(
        self, poll: Callable[[], Awaitable[str | None]], diagnose: Callable[[], Awaitable[str]]
    ) -> str:
        deadline = self._loop.now() + self._settings.timeout
        while True:
            if self._is_stopped():
                raise _InterruptedError
            try:
                result = await poll()
            except _TRANSIENT as error:
                self._report(f"retrying: {error}")
                result = None
            if result is not None:
                return result
            if self._loop.now() >= deadline:
                limit = self._settings.timeout.total_seconds()
                raise ValidationFailedError(f"not done after {limit:g} s: {await diagnose()}")
            await self._loop.sleep(self._settings.poll_interval)

    async def _scale_up_blockers(self) -> str:
        """Return why pods are not ready: no NodeClaim, a NodeClaim's condition, or a pod's."""
        claims = await self._new_claims()
        for name, claim in sorted(claims.items()):
            for kind in (LAUNCHED, REGISTERED, INITIALIZED):
                if not _is_true(claim, kind):
                    return f"NodeClaim {name} is not {kind}{_reason(claim, kind)}; run dovetail doctor"
        pods = [pod for pod in await self._pods() if not _is_true(pod, "Ready")]
        if not pods:
            return "there are fewer pods than replicas: see kubectl describe replicaset"
        waiting = f"{pluralize(len(pods), 'pod')} not ready{_reason(pods[0], 'PodScheduled')}"
        if claims:
            return waiting
        return f"no NodeClaim was created, {waiting}; does the controller run? Run dovetail doctor"

    async def _removal_blockers(self) -> str:
        """Return which nodes stay, and the consolidation settings of their NodePools."""
        remaining = [node for node in self._nodes.values() if node.removed_seconds is None]
        after = await self._consolidate_after()
        texts = [
            f"node {node.name} is still there (NodePool {node.node_pool}, "
            f"consolidateAfter {after.get(node.node_pool, 'unknown')})"
            for node in remaining
        ]
        return f"{'; '.join(texts)}; dovetail explain node NAME shows why"

    async def _clean_up(self, *, failed: bool) -> bool:
        """Delete the Deployment; after a failure, also NodeClaims that only it needed."""
        if not self._is_deployed:
            return True
        try:
            pods = await self._retry(self._pods, _CLEAN_UP_LIMIT)
            our_nodes = {*self._nodes, *(str(pod["spec"].get("nodeName") or "") for pod in pods)} - {""}
            await self._retry(self._remove_deployment, _CLEAN_UP_LIMIT)
            deleted = 0
            if failed:
                deleted = await self._retry(lambda: self._delete_claims(our_nodes), _CLEAN_UP_LIMIT)
        except DovetailError as error:
            namespace = self._settings.namespace
            message = f"{error}; delete it with: kubectl delete deployment {NAME} -n {namespace}"
            self._steps.append(ValidationStep(name="clean up", ok=False, seconds=0, message=message))
            self._report(f"failed: clean up: {message}")
            return False
        message = f"Deployment {NAME} was deleted" + (f", and {deleted} NodeClaims" if deleted else "")
        self._steps.append(ValidationStep(name="clean up", ok=True, seconds=0, message=message))
        self._report(f"ok: clean up: {message}")
        return True

    async def _remove_deployment(self) -> None:
        """Delete the Deployment of this or an aborted run; raises if it is not ours."""
        namespace = self._settings.namespace
        try:
            deployment = await self._kube.get(DEPLOYMENTS, NAME, namespace)
        except NotFound:
            return
        if RUN_LABEL not in (deployment["metadata"].get("labels") or {}):
            raise ValidationFailedError(
                f"Deployment {namespace}/{NAME} exists without the label {RUN_LABEL}; rename or delete it"
            )
        try:
            await self._kube.delete(DEPLOYMENTS, NAME, namespace)
        except NotFound:
            return

    async def _delete_claims(self, our_nodes: set[str]) -> int:
        """Delete the new NodeClaims that no other pod uses or waits for."""
        has_pending = bool(await self._other_pod(""))
        deleted = 0
        for name, claim in (await self._new_claims()).items():
            node = str(claim.get("status", {}).get("nodeName") or "")
            if (has_pending and node not in our_nodes) or (node and await self._other_pod(node)):
                continue
            await self._delete_claim(name)
            deleted += 1
        return deleted

    async def _delete_claim(self, name: str) -> None:
        try:
            await self._kube.delete(NODE_CLAIMS, name)
        except NotFound:
            return

    async def _new_claims(self) -> dict[str, Object]:
        listed = await self._kube.list(NODE_CLAIMS)
        by_name = {str(claim["metadata"]["name"]): claim for claim in listed}
        return {name: claim for name, claim in by_name.items() if name not in self._claims_before}

    async def _pods(self) -> list[Object]:
        namespace = self._settings.namespace
        listed = await self._kube.list(PODS, labels=f"{RUN_LABEL}={self._run_id}")
        return [pod for pod in listed if pod["metadata"].get("namespace") == namespace]

    async def _other_pod(self, node: str) -> str:
        """Return a pod of another workload on a node, or a pending one if it is empty."""
        for pod in await self._kube.list(PODS, fields=f"spec.nodeName={node}"):
            meta = pod["metadata"]
            owners = [owner.get("kind") for owner in meta.get("ownerReferences") or ()]
            is_ours = RUN_LABEL in (meta.get("labels") or {})
            has_ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
            if not is_ours and not has_ended and "DaemonSet" not in owners and "Node" not in owners:
                return f"{meta.get('namespace')}/{meta['name']}"
        return ""

    async def _exists(self, resource: Resource, name: str) -> bool:
        try:
            await self._kube.get(resource, name)
        except NotFound:
            return False
        return True


def deployment_manifest(settings: ValidationSettings, pools: Sequence[Object], *, run: str) -> Object:
    """Return the Deployment; its pods accept only nodes of NodePools."""
    labels = {"app": NAME, RUN_LABEL: run}
    on_nodepool: dict[str, Any] = {"key": label_keys.NODEPOOL, "operator": "Exists"}
    if settings.node_pool:
        on_nodepool = {"key": label_keys.NODEPOOL, "operator": "In", "values": [settings.node_pool]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [on_nodepool]}]}
    container = {
        "name": "inflate",
        "image": settings.image,
        "resources": {"requests": {"cpu": settings.cpu}},
        # For namespaces with the Pod Security Standard "restricted".
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    pod = {
        "terminationGracePeriodSeconds": 0,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 65534,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
        "tolerations": _tolerations(pools),
        "containers": [container],
    }
    return {
        "metadata": {"name": NAME, "labels": labels},
        "spec": {
            "replicas": settings.replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


def _tolerations(pools: Sequence[Object]) -> list[dict[str, Any]]:
    """Return tolerations of the NodePools' own taints only.

    A pod that tolerates everything would also tolerate the disruption taint, and a
    drain would wait for it.
    """
    tolerations: list[dict[str, Any]] = []
    for pool in pools:
        for taint in pool["spec"]["template"]["spec"].get("taints") or ():
            toleration = {"key": taint["key"], "operator": "Exists", "effect": taint["effect"]}
            if toleration not in tolerations:
                tolerations.append(toleration)
    return tolerations


def _condition(obj: Object, kind: str) -> Mapping[str, Any]:
    conditions = obj.get("status", {}).get("conditions") or ()
    return next((item for item in conditions if item.get("type") == kind), {})


def _is_true(obj: Object, kind: str) -> bool:
    return _condition(obj, kind).get("status") == "True"


def _reason(obj: Object, kind: str) -> str:
    condition = _condition(obj, kind)
    text = condition.get("message") or condition.get("reason") or ""
    return f" ({text})" if text else ""


def _not_ready(pool: Object) -> str:
    """Return why a NodePool cannot launch nodes; empty if it can, or is not known."""
    if _condition(pool, "Ready").get("status") != "False":
        return ""
    return f"it is not ready{_reason(pool, 'Ready')}"


def _label(claim: Object, key: str) -> str:
    return str((claim["metadata"].get("labels") or {}).get(key) or "")


def _description(claim: Object) -> str:
    values = [
        _label(claim, key) for key in (label_keys.INSTANCE_TYPE, label_keys.CAPACITY_TYPE, label_keys.ZONE)
    ]
    known = ", ".join(value for value in values if value)
    return f"NodePool {_label(claim, label_keys.NODEPOOL)}" + (f", {known}" if known else ", launching")


def _validated(node: str, claim: Object, ready_seconds: float) -> ValidatedNode:
    return ValidatedNode(
        name=node,
        node_claim=str(claim["metadata"]["name"]),
        node_pool=_label(claim, label_keys.NODEPOOL),
        instance_type=_label(claim, label_keys.INSTANCE_TYPE),
        capacity_type=_label(claim, label_keys.CAPACITY_TYPE),
        zone=_label(claim, label_keys.ZONE),
        ready_seconds=ready_seconds,
    )
