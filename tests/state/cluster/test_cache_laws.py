"""However news arrives, the mirror ends up equal to the API server (C1, C2, C3, C5, C6)."""

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
from dovetail.simulator.clock import Engine
from dovetail.simulator.event_loop import VirtualLoop
from dovetail.simulator.kube_client import SimKube
from dovetail.state.cluster.cache import Change, Mirror
from dovetail.state.cluster.write_through import ReadYourWrites
from tests.support import wire
from tests.support.cluster import START
from tests.support.slow import SlowKube

KINDS = (NODE_CLAIMS, NODES, PODS, EC2_NODE_CLASSES)
kinds = st.sampled_from(KINDS)
names = st.sampled_from(["a", "b"])
machines = st.sampled_from(["", "aws:///z/i-1", "aws:///z/i-2"])
flags = st.booleans()


def an_object(resource: Resource, name: str, machine: str, flag: bool) -> dict[str, Any]:
    if resource is NODE_CLAIMS:
        return wire.claim(name, pool="x" if flag else "y")
    if resource is NODES:
        labels = {label_keys.NODEPOOL: "x", label_keys.INSTANCE_TYPE: "t"} if flag else {}
        return wire.node(name, provider_id=machine, labels=labels)
    if resource is PODS:
        return wire.pod(name, node="a" if flag else "b" if machine else "")
    return wire.node_class(name, ready=None)


def a_change(resource: Resource, machine: str, flag: bool) -> tuple[dict[str, Any], str]:
    """A patch and where it goes."""
    if resource is NODE_CLAIMS and machine:
        return {"status": {"providerID": machine}}, "status"
    if resource is PODS:
        return {"status": {"phase": "Succeeded" if flag else "Running"}}, "status"
    return {"metadata": {"labels": {"colour": "red" if flag else None}}}, ""


class Interleavings(RuleBasedStateMachine):
    """Others write, we write; watches, lists and answers arrive when they like."""

    def __init__(self) -> None:
        super().__init__()
        engine = Engine(start=START)
        self.api = ApiServer(now=engine.now)
        self.mirror = Mirror()
        self.slow = SlowKube(SimKube(self.api))
        self.kube = ReadYourWrites(self.slow, self.mirror)
        self.loop = VirtualLoop(engine)
        self.watches: dict[Resource, Watch] = {}
        self.arrived: dict[Resource, list[WatchEvent]] = {}
        self.lists: dict[Resource, Any] = {}
        self.told: dict[Resource, dict[Any, Any]] = {kind: {} for kind in KINDS}
        for resource in self.mirror.tables:
            self.mirror.subscribe(resource, self._follow)
            self._list(resource)
            self._listed(resource)

    def _follow(self, change: Change) -> None:
        known = self.told.setdefault(change.resource, {})
        one = change.either
        key = (getattr(one, "namespace", ""), one.name)
        assert known.get(key) is change.old
        if change.new is None:
            del known[key]
        else:
            known[key] = change.new

    def _list(self, resource: Resource) -> None:
        if resource in self.watches:
            self.watches.pop(resource).stop()
        self.arrived[resource] = []
        self.lists[resource] = self.api.list(resource)

    def _listed(self, resource: Resource) -> None:
        found = self.lists.pop(resource)
        self.mirror.replace(resource, found.items, revision=found.resource_version)
        since = WatchOptions(resource_version=found.resource_version)
        self.watches[resource] = self.api.watch(resource, since)

    def _start(self, work: Coroutine[Any, Any, Any]) -> None:
        async def done() -> None:
            try:
                await work
            except DovetailError:
                pass  # Refused: somebody was quicker.

        self.loop.spawn(done())

    def _try(self, *arguments: Any, **more: Any) -> None:
        verb, *rest = arguments
        try:
            getattr(self.api, verb)(*rest, **more)
        except DovetailError:
            pass

    @rule(kind=kinds, name=names, machine=machines, flag=flags, ours=flags, keeps=flags)
    def creates(
        self, kind: Resource, name: str, machine: str, flag: bool, ours: bool, keeps: bool
    ) -> None:
        made = an_object(kind, name, machine, flag)
        if keeps and kind is not PODS:
            made["metadata"]["finalizers"] = ["example.com/keep"]
        if ours:
            self._start(self.kube.create(kind, made))
        else:
            self._try("create", kind, made)

    @rule(kind=kinds, name=names, machine=machines, flag=flags, ours=flags)
    def changes(self, kind: Resource, name: str, machine: str, flag: bool, ours: bool) -> None:
        patch, where = a_change(kind, machine, flag)
        space = "default" if kind is PODS else ""
        if ours:
            self._start(self.kube.patch(kind, name, patch, space, subresource=where))
        else:
            self._try("patch", kind, name, patch, PatchType.MERGE, space, subresource=where)

    @rule(kind=kinds, name=names, ours=flags)
    def lets_go(self, kind: Resource, name: str, ours: bool) -> None:
        patch = {"metadata": {"finalizers": None}}
        space = "default" if kind is PODS else ""
        if ours:
            self._start(self.kube.patch(kind, name, patch, space))
        else:
            self._try("patch", kind, name, patch, PatchType.MERGE, space)

    @rule(kind=kinds, name=names, ours=flags, at_once=flags)
    def deletes(self, kind: Resource, name: str, ours: bool, at_once: bool) -> None:
        space = "default" if kind is PODS else ""
        if ours:
            grace = 0 if at_once else None
            self._start(self.kube.delete(kind, name, space, grace_seconds=grace))
        else:
            self._try("delete", kind, name, space)

    @rule(kind=kinds, name=names)
    def looks(self, kind: Resource, name: str) -> None:
        self._start(self.kube.get(kind, name, "default" if kind is PODS else ""))

    @precondition(lambda self: self.slow.waiting)
    @rule(which=st.integers(0, 50))
    def an_answer_arrives(self, which: int) -> None:
        self.slow.let_through(which)

    @rule(kind=kinds, count=st.integers(1, 3))
    def the_watch_tells(self, kind: Resource, count: int) -> None:
        if kind not in self.watches:
            return
        self.arrived[kind] += self.watches[kind].take()
        for event in self.arrived[kind][:count]:
            if event.type is EventType.DELETED:
                self.mirror.remove(kind, event.object)
            else:
                self.mirror.put(kind, event.object)
        del self.arrived[kind][:count]

    @rule(kind=kinds)
    def a_list_is_asked_for(self, kind: Resource) -> None:
        self._list(kind)

    @rule(kind=kinds)
    def a_list_arrives(self, kind: Resource) -> None:
        if kind in self.lists:
            self._listed(kind)

    @rule()
    def all_is_quiet(self) -> None:
        for kind in KINDS:
            self.a_list_arrives(kind)
            self.the_watch_tells(kind, 1000)
        while self.slow.waiting:
            self.slow.let_through(0)

        fresh = Mirror()
        for kind in fresh.tables:
            fresh.replace(kind, self.api.list(kind).items)
        assert picture(self.mirror) == picture(fresh)

    @invariant()
    def subscribers_know_what_the_tables_hold(self) -> None:
        for kind, known in self.told.items():
            assert [known[key] for key in sorted(known)] == list(self.mirror.tables[kind].all())

    def teardown(self) -> None:
        self.all_is_quiet()


def picture(mirror: Mirror) -> dict[str, Any]:
    """Everything that can be asked for."""
    return {
        "tables": {kind.plural: table.all() for kind, table in mirror.tables.items()},
        "joined": [in_order(node) for node in mirror.joined_nodes()],
        "pods": {name: set(map(key_of, mirror.pods_on(name))) for name in ("a", "b", "")},
        "unbound": set(map(key_of, mirror.unbound_pods())),
        "pools": {pool: set(map(key_of, mirror.claims_in(pool))) for pool in ("x", "y")},
        "claims": {
            one: set(map(key_of, mirror.claims_of(f"aws:///z/{one}"))) for one in ("i-1", "i-2")
        },
        "nodes": {
            one: set(map(key_of, mirror.nodes_of(f"aws:///z/{one}"))) for one in ("i-1", "i-2")
        },
        "unlaunched": mirror.unlaunched(),
        "raw": {name: mirror.raw_node_class(name) for name in ("a", "b")},
    }


def in_order(node: Node) -> Node:
    return replace(node, pods=tuple(sorted(node.pods, key=lambda pod: pod.key)))


def key_of(one: Any) -> tuple[str, str]:
    return (one.name, one.uid)


TestInterleavings = Interleavings.TestCase
TestInterleavings.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
