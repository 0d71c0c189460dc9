"""Random calls against a model in plain dictionaries."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dovetail.ports.api_resources import PODS, REPLICA_SETS, Resource
from dovetail.ports.kube_errors import AlreadyExists, Conflict, NotFound
from dovetail.simulator.apiserver.options import (
    DeleteOptions,
    ListOptions,
    PatchType,
    PropagationPolicy,
    WatchOptions,
)
from dovetail.simulator.apiserver.storage.frozen_object import Object, get_field, thaw
from tests.support.simulator.api_server import (
    Cluster,
    a_pod,
    a_replica_set,
    names,
    owned_by,
    replayed,
    with_finalizer,
)

POD_NAMES = st.sampled_from(["p1", "p2", "p3", "p4"])
SET_NAMES = st.sampled_from(["s1", "s2"])
APPS = st.sampled_from(["web", "db"])
NODES = st.sampled_from(["n1", "n2"])
SELECTIONS: tuple[dict[str, str], ...] = (
    {},
    {"labels": "app=web"},
    {"labels": "app!=web"},
    {"fields": "spec.nodeName=n1"},
    {"fields": "spec.nodeName="},
    {"fields": "metadata.name=p1"},
    {"namespace": "default", "labels": "app in (db)", "fields": "spec.nodeName!=n2"},
)


def watch_options(by: dict[str, str], since: str = "") -> WatchOptions:
    namespace, labels, fields = (by.get(key, "") for key in ("namespace", "labels", "fields"))
    return WatchOptions(namespace, labels, fields, since)


def list_pods(cluster: Cluster, by: dict[str, str]) -> list[Object]:
    namespace, labels, fields = (by.get(key, "") for key in ("namespace", "labels", "fields"))
    return cluster.list(PODS, ListOptions(namespace, labels, fields)).items


class Pod:
    """A pod in the model."""

    def __init__(self, app: str, owners: set[str], held: bool) -> None:
        self.app = app
        self.owners = owners
        self.held = held
        self.node = ""
        self.deleting = False
        self.stopped = False

    def matches(self, name: str, selection: dict[str, str]) -> bool:
        return {
            "": True,
            "app=web": self.app == "web",
            "app!=web": self.app != "web",
            "app in (db)": self.app == "db",
        }[selection.get("labels", "")] and {
            "": True,
            "spec.nodeName=n1": self.node == "n1",
            "spec.nodeName=": self.node == "",
            "spec.nodeName!=n2": self.node != "n2",
            "metadata.name=p1": name == "p1",
        }[selection.get("fields", "")]


class ApiServerComparison(RuleBasedStateMachine):
    """Pods and the ReplicaSets that own them."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.pods: dict[str, Pod] = {}
        self.sets: dict[str, str] = {}
        self.stale: list[Object] = []
        self.events: list[list[Any]] = [[] for _ in SELECTIONS]
        self.watches = [self.cluster.watch(PODS, watch_options(selection)) for selection in SELECTIONS]
        self.start = self.cluster.resource_version

    def get(self, resource: Resource, name: str) -> Object:
        return self.cluster.get(resource, name, "default")

    @rule(name=SET_NAMES)
    def create_set(self, name: str) -> None:
        try:
            created = self.cluster.create(REPLICA_SETS, a_replica_set(name))
            assert name not in self.sets
            self.sets[name] = created["metadata"]["uid"]
        except AlreadyExists:
            assert name in self.sets

    @rule(name=POD_NAMES, app=APPS, owners=st.sets(SET_NAMES), held=st.booleans())
    def create_pod(self, name: str, app: str, owners: set[str], held: bool) -> None:
        parents = [self.get(REPLICA_SETS, owner) for owner in sorted(owners) if owner in self.sets]
        pod = owned_by(a_pod(name, labels={"app": app}), *parents)
        try:
            self.cluster.create(PODS, with_finalizer(pod, "x.io/hold") if held else pod)
            assert name not in self.pods
            self.pods[name] = Pod(app, {self.sets[owner] for owner in owners & set(self.sets)}, held)
        except AlreadyExists:
            assert name in self.pods

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), app=APPS)
    def relabel(self, data: st.DataObject, app: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.pods)))
        current = self.get(PODS, name)
        self.stale.append(current)
        edited = thaw(current)
        edited["metadata"]["labels"]["app"] = app
        before = self.cluster.resource_version

        self.cluster.update(PODS, edited)

        assert (self.cluster.resource_version == before) is (self.pods[name].app == app)
        self.pods[name].app = app

    @precondition(lambda self: self.stale)
    @rule(data=st.data())
    def update_a_stale_version(self, data: st.DataObject) -> None:
        stale = data.draw(st.sampled_from(self.stale))
        name = stale["metadata"]["name"]
        current = self.get(PODS, name) if name in self.pods else None
        edited = thaw(stale)
        edited["metadata"]["annotations"] = {"version": stale["metadata"]["resourceVersion"]}
        try:
            self.cluster.update(PODS, edited)
            assert current == stale
        except Conflict:
            assert current is not None
            assert current != stale
        except NotFound:
            assert current is None

    @precondition(lambda self: self.pods)
    @rule(data=st.data(), node=NODES)
    def bind(self, data: st.DataObject, node: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.pods)))
        pod = self.pods[name]
        try:
            self.cluster.bind(name, "default", {"target": {"name": node}})
            assert not pod.node
            assert not pod.deleting
            pod.node = node
        except Conflict:
            assert pod.node or pod.deleting

    @rule(name=POD_NAMES, now=st.booleans())
    def delete_pod(self, name: str, now: bool) -> None:
        options = DeleteOptions(grace_period_seconds=0) if now else DeleteOptions()
        try:
            self.cluster.delete(PODS, name, "default", options=options)
            self._pod_deleted(name, now=now)
        except NotFound:
            assert name not in self.pods

    @precondition(lambda self: self.pods)
    @rule(data=st.data())
    def remove_finalizers(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.pods)))
        patch: dict[str, Any] = {"metadata": {"finalizers": None}}
        self.cluster.patch(PODS, name, patch, PatchType.MERGE, "default")
        self.pods[name].held = False
        self._remove_if_deleted(name)

    @rule(name=SET_NAMES, orphan=st.booleans())
    def delete_set(self, name: str, orphan: bool) -> None:
        policy = PropagationPolicy.ORPHAN if orphan else PropagationPolicy.BACKGROUND
        try:
            options = DeleteOptions(propagation_policy=policy)
            self.cluster.delete(REPLICA_SETS, name, "default", options=options)
        except NotFound:
            assert name not in self.sets
            return
        uid = self.sets.pop(name)
        for pod_name, pod in sorted(self.pods.items()):
            if uid in pod.owners:
                alone = pod.owners == {uid}
                if alone and not orphan:
                    self._pod_deleted(pod_name, now=False)
                else:
                    pod.owners.discard(uid)

    def _pod_deleted(self, name: str, *, now: bool) -> None:
        pod = self.pods[name]
        pod.stopped = pod.stopped or now or (not pod.node and not pod.deleting)
        pod.deleting = True
        self._remove_if_deleted(name)

    def _remove_if_deleted(self, name: str) -> None:
        pod = self.pods[name]
        if pod.deleting and pod.stopped and not pod.held:
            del self.pods[name]

    @invariant()
    def lists_equal_the_model(self) -> None:
        for selection in SELECTIONS:
            expected = sorted(n for n, pod in self.pods.items() if pod.matches(n, selection))
            assert names(list_pods(self.cluster, selection)) == expected
        for obj in self.cluster.list(PODS).items:
            pod = self.pods[obj["metadata"]["name"]]
            assert obj["metadata"]["labels"]["app"] == pod.app
            assert (get_field(obj, "spec", "nodeName") or "") == pod.node
            assert ("deletionTimestamp" in obj["metadata"]) is pod.deleting
            assert ("finalizers" in obj["metadata"]) is pod.held

    @invariant()
    def watch_events_add_up_to_the_list_and_can_be_replayed(self) -> None:
        for selection, watch, events in zip(SELECTIONS, self.watches, self.events, strict=True):
            events += watch.poll()
            present = {obj["metadata"]["name"]: obj for obj in list_pods(self.cluster, selection)}
            assert replayed(events) == present
            revisions = [int(event.object["metadata"]["resourceVersion"]) for event in events]
            assert revisions == sorted(set(revisions))
            past = watch_options(selection, self.start)
            again = self.cluster.watch(PODS, past)
            assert again.poll() == events
            again.stop()

    @invariant()
    def an_earlier_version_can_be_listed(self) -> None:
        exact = ListOptions(resource_version=self.start, exact=True)
        assert self.cluster.list(PODS, exact).items == []


ApiServerComparison.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestAgainstAModel = ApiServerComparison.TestCase
