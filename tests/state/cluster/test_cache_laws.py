"""In any order of events the cache ends up equal to the API server (C1–C3, C5, C6)."""

from collections.abc import Coroutine
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec.structs import replace

from dovetail.errors import DovetailError
from dovetail.model import labels as label_keys
from dovetail.model.node import Node
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODES, PODS, Resource
from dovetail.simulator.apiserver.options import PatchType, WatchOptions
from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.apiserver.storage.watch import EventType, Watch, WatchEvent
from dovetail.simulator.clock import VirtualClock
from dovetail.simulator.event_loop import VirtualEventLoop
from dovetail.simulator.kube_client import SimulatedKubeClient
from dovetail.state.cluster.cache import ClusterCache, ObjectChange
from dovetail.state.cluster.write_through import WriteThroughClient
from tests.support.kube import manifests
from tests.support.kube.slow_client import SlowKubeClient
from tests.support.simulator.api_server import START

RESOURCES = (NODE_CLAIMS, NODES, PODS, EC2_NODE_CLASSES)
resources = st.sampled_from(RESOURCES)
names = st.sampled_from(["a", "b"])
instances = st.sampled_from(["", "aws:///z/i-1", "aws:///z/i-2"])
flags = st.booleans()


def an_object(resource: Resource, name: str, instance: str, flag: bool) -> dict[str, Any]:
    if resource is NODE_CLAIMS:
        return manifests.claim(name, pool="x" if flag else "y")
    if resource is NODES:
        labels = {label_keys.NODEPOOL: "x", label_keys.INSTANCE_TYPE: "t"} if flag else {}
        return manifests.node(name, provider_id=instance, labels=labels)
    if resource is PODS:
        return manifests.pod(name, node="a" if flag else "b" if instance else "")
    return manifests.node_class(name, ready=None)


def a_change(resource: Resource, instance: str, flag: bool) -> tuple[dict[str, Any], str]:
    """A patch and where it goes."""
    if resource is NODE_CLAIMS and instance:
        return {"status": {"providerID": instance}}, "status"
    if resource is PODS:
        return {"status": {"phase": "Succeeded" if flag else "Running"}}, "status"
    return {"metadata": {"labels": {"colour": "red" if flag else None}}}, ""


class Interleavings(RuleBasedStateMachine):
    """Own and foreign writes; watch events, lists and responses arrive in any order."""

    def __init__(self) -> None:
        super().__init__()
        clock = VirtualClock(start=START)
        self.api = ApiServer(now=clock.now)
        self.cache = ClusterCache()
        self.slow = SlowKubeClient(SimulatedKubeClient(self.api))
        self.kube = WriteThroughClient(self.slow, self.cache)
        self.loop = VirtualEventLoop(clock)
        self.watches: dict[Resource, Watch] = {}
        self.arrived: dict[Resource, list[WatchEvent]] = {}
        self.lists: dict[Resource, Any] = {}
        self.observed: dict[Resource, dict[Any, Any]] = {resource: {} for resource in RESOURCES}
        for resource in self.cache.stores:
            self.cache.subscribe(resource, self._follow)
            self._list(resource)
            self._apply_list(resource)

    def _follow(self, change: ObjectChange) -> None:
        observed = self.observed.setdefault(change.resource, {})
        obj = change.latest
        key = (getattr(obj, "namespace", ""), obj.name)
        assert observed.get(key) is change.old
        if change.new is None:
            del observed[key]
        else:
            observed[key] = change.new

    def _list(self, resource: Resource) -> None:
        if resource in self.watches:
            self.watches.pop(resource).stop()
        self.arrived[resource] = []
        self.lists[resource] = self.api.list(resource)

    def _apply_list(self, resource: Resource) -> None:
        relist = self.lists.pop(resource)
        self.cache.replace(resource, relist.items, revision=relist.resource_version)
        since = WatchOptions(resource_version=relist.resource_version)
        self.watches[resource] = self.api.watch(resource, since)

    def _start(self, work: Coroutine[Any, Any, Any]) -> None:
        async def done() -> None:
            try:
                await work
            except DovetailError:
                pass  # Rejected: another write came first.

        self.loop.spawn(done())

    def _try(self, *arguments: Any, **more: Any) -> None:
        verb, *rest = arguments
        try:
            getattr(self.api, verb)(*rest, **more)
        except DovetailError:
            pass

    @rule(resource=resources, name=names, instance=instances, flag=flags, ours=flags, keeps=flags)
    def creates(
        self, resource: Resource, name: str, instance: str, flag: bool, ours: bool, keeps: bool
    ) -> None:
        obj = an_object(resource, name, instance, flag)
        if keeps and resource is not PODS:
            obj["metadata"]["finalizers"] = ["example.com/keep"]
        if ours:
            self._start(self.kube.create(resource, obj))
        else:
            self._try("create", resource, obj)

    @rule(resource=resources, name=names, instance=instances, flag=flags, ours=flags)
    def changes(self, resource: Resource, name: str, instance: str, flag: bool, ours: bool) -> None:
        patch, where = a_change(resource, instance, flag)
        space = "default" if resource is PODS else ""
        if ours:
            self._start(self.kube.patch(resource, name, patch, space, subresource=where))
        else:
            self._try("patch", resource, name, patch, PatchType.MERGE, space, subresource=where)

    @rule(resource=resources, name=names, ours=flags)
    def removes_finalizers(self, resource: Resource, name: str, ours: bool) -> None:
        patch = {"metadata": {"finalizers": None}}
        space = "default" if resource is PODS else ""
        if ours:
            self._start(self.kube.patch(resource, name, patch, space))
        else:
            self._try("patch", resource, name, patch, PatchType.MERGE, space)

    @rule(resource=resources, name=names, ours=flags, at_once=flags)
    def deletes(self, resource: Resource, name: str, ours: bool, at_once: bool) -> None:
        space = "default" if resource is PODS else ""
        if ours:
            grace = 0 if at_once else None
            self._start(self.kube.delete(resource, name, space, grace_seconds=grace))
        else:
            self._try("delete", resource, name, space)

    @rule(resource=resources, name=names)
    def reads(self, resource: Resource, name: str) -> None:
        self._start(self.kube.get(resource, name, "default" if resource is PODS else ""))

    @precondition(lambda self: self.slow.waiting)
    @rule(which=st.integers(0, 50))
    def a_response_arrives(self, which: int) -> None:
        self.slow.deliver(which)

    @rule(resource=resources, count=st.integers(1, 3))
    def the_watch_reports(self, resource: Resource, count: int) -> None:
        if resource not in self.watches:
            return
        self.arrived[resource] += self.watches[resource].poll()
        for event in self.arrived[resource][:count]:
            if event.type is EventType.DELETED:
                self.cache.delete(resource, event.object)
            else:
                self.cache.apply_event(resource, event.object)
        del self.arrived[resource][:count]

    @rule(resource=resources)
    def a_list_is_requested(self, resource: Resource) -> None:
        self._list(resource)

    @rule(resource=resources)
    def a_list_arrives(self, resource: Resource) -> None:
        if resource in self.lists:
            self._apply_list(resource)

    @rule()
    def everything_is_delivered(self) -> None:
        for resource in RESOURCES:
            self.a_list_arrives(resource)
            self.the_watch_reports(resource, 1000)
        while self.slow.waiting:
            self.slow.deliver(0)

        fresh = ClusterCache()
        for resource in fresh.stores:
            fresh.replace(resource, self.api.list(resource).items)
        assert contents(self.cache) == contents(fresh)

    @invariant()
    def subscribers_have_seen_what_the_stores_hold(self) -> None:
        for resource, observed in self.observed.items():
            assert [observed[key] for key in sorted(observed)] == list(self.cache.stores[resource].all())

    def teardown(self) -> None:
        self.everything_is_delivered()


def contents(cache: ClusterCache) -> dict[str, Any]:
    """Return everything that can be read from a cache."""
    return {
        "stores": {resource.plural: store.all() for resource, store in cache.stores.items()},
        "joined": [in_order(node) for node in cache.joined_nodes()],
        "pods": {name: set(map(key_of, cache.pods_on(name))) for name in ("a", "b", "")},
        "unbound": set(map(key_of, cache.unbound_pods())),
        "pools": {pool: set(map(key_of, cache.claims_in(pool))) for pool in ("x", "y")},
        "claims": {
            instance: set(map(key_of, cache.claims_of(f"aws:///z/{instance}"))) for instance in ("i-1", "i-2")
        },
        "nodes": {
            instance: set(map(key_of, cache.nodes_of(f"aws:///z/{instance}"))) for instance in ("i-1", "i-2")
        },
        "pending": cache.pending_claims(),
        "raw": {name: cache.raw_node_class(name) for name in ("a", "b")},
    }


def in_order(node: Node) -> Node:
    return replace(node, pods=tuple(sorted(node.pods, key=lambda pod: pod.key)))


def key_of(obj: Any) -> tuple[str, str]:
    return (obj.name, obj.uid)


TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
