"""DaemonSets: one pod on every node that is fit for it."""

from datetime import timedelta
from typing import Any, Final

from dovetail.ports.api_resources import DAEMON_SETS, NODES, PODS
from dovetail.ports.kube_errors import ApiError
from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.apiserver.storage.index import Key
from dovetail.simulator.apiserver.storage.store import key_of
from dovetail.simulator.apiserver.storage.watch import EventType, WatchEvent
from dovetail.simulator.controllermanager.context import Site
from dovetail.simulator.controllermanager.daemonset.node_selection import (
    NOT_HERE,
    Verdict,
    daemon_pod,
    node_meant,
    verdict,
)
from dovetail.simulator.controllermanager.daemonset.status import DaemonTally, Post
from dovetail.simulator.controllermanager.deployment.rollout import share
from dovetail.simulator.controllermanager.owner_references import controller_of, find, is_leaving
from dovetail.simulator.controllermanager.ownership.adoption import Belonging
from dovetail.simulator.controllermanager.ownership.controller_revisions import History
from dovetail.simulator.controllermanager.pods.failure_delay import Patience
from dovetail.simulator.controllermanager.pods.pod_index import (
    ACTIVE,
    Standing,
    ready_since,
    standing_of,
)
from dovetail.simulator.controllermanager.pods.pod_template import REVISION_HASH
from dovetail.simulator.workqueue import Desk, follow

_TRY_AGAIN: Final = timedelta(seconds=1)


class DaemonSets:
    """Looks at one node of one DaemonSet at a time; the whole of it only to count and update."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._tallies: dict[Key, DaemonTally] = {}
        self._nodes: dict[str, Object] = {}
        self._desk: Desk[Key] = Desk(site.engine, self._sync)
        self._posts: Desk[tuple[Key, str]] = Desk(site.engine, self._sync_node)
        self._patience: Patience[tuple[Key, str]] = Patience(site.engine)
        self._belonging = Belonging(site, self._desk.ask)
        self._history = History(site)
        site.pods.tell_of_everything(self._pod_changed)
        follow(site.api, site.engine, DAEMON_SETS, self._heard)
        follow(site.api, site.engine, NODES, self._node_changed)

    def _heard(self, event: WatchEvent) -> None:
        key = key_of(event.object)
        if event.type is EventType.DELETED:
            self._belonging.forget(key)
            self._desk.forget(key)
            self._tallies.pop(key, None)
            return
        tally = self._tallies.setdefault(key, DaemonTally())
        self._belonging.learn(event.object)
        self._desk.ask(key)
        if tally.generation != event.object["metadata"]["generation"]:
            tally.generation = event.object["metadata"]["generation"]
            for node in sorted({*self._nodes, *tally.pods}):
                self._posts.ask((key, node))

    def _node_changed(self, event: WatchEvent) -> None:
        name = event.object["metadata"]["name"]
        before = self._nodes.get(name)
        if event.type is EventType.DELETED:
            self._nodes.pop(name, None)
        else:
            self._nodes[name] = event.object
            if before is not None and _looks_alike(before, event.object):
                return
        for key in self._tallies:
            self._posts.ask((key, name))

    def _pod_changed(self, old: Object | None, new: Object | None) -> None:
        for pod, there in ((old, False), (new, True)):
            owner = None if pod is None else controller_of(pod)
            if pod is None or owner is None or owner["kind"] != "DaemonSet":
                continue
            namespace, name = key_of(pod)
            key, node = (namespace, owner["name"]), node_meant(pod)
            on_node = self._tallies.setdefault(key, DaemonTally()).pods.setdefault(node, {})
            if there:
                on_node[name] = pod
                self._patience.note((key, node), old, new)
            else:
                on_node.pop(name, None)
            # Counted at once: an update that goes on must not count this pod as serving.
            self._count(key, node)
            self._posts.ask((key, node))

    def _sync_node(self, post: tuple[Key, str]) -> None:
        """Start, stop or keep the pod of one node."""
        key, name = post
        daemon_set, tally = find(self._site.api, DAEMON_SETS, key), self._tallies.get(key)
        if daemon_set is None:
            self._tallies.pop(key, None)
        if daemon_set is None or tally is None:
            return
        if not is_leaving(daemon_set):
            self._man(daemon_set, name, tally)
        self._count(key, name)

    def _count(self, key: Key, node: str) -> None:
        daemon_set, tally = find(self._site.api, DAEMON_SETS, key), self._tallies[key]
        if daemon_set is None:
            return
        pods = tally.pods.get(node, {}).values()
        live = sorted((one for one in pods if standing_of(one) in ACTIVE), key=_older_first)
        if not pods:
            tally.pods.pop(node, None)
        wanted = self._verdict(daemon_set, node).run
        post = self._post(daemon_set, live[0] if live else None, wanted=wanted, at=(key, node))
        if tally.put(node, post):
            self._desk.ask(key)

    def _verdict(self, daemon_set: Object, node: str) -> Verdict:
        found = find(self._site.api, NODES, ("", node))
        return NOT_HERE if found is None else verdict(daemon_set, found)

    def _man(self, daemon_set: Object, node: str, tally: DaemonTally) -> None:
        run, stay = self._verdict(daemon_set, node)
        pods = sorted(tally.pods.get(node, {}).values(), key=_older_first)
        live = [one for one in pods if standing_of(one) in ACTIVE]
        for one in pods:
            if standing_of(one) in (Standing.FAILED, Standing.SUCCEEDED) and not is_leaving(one):
                self._site.delete(PODS, one)
        for one in live[1:] if stay else live:
            self._site.delete(PODS, one)
        if run and not pods:
            wait = self._patience.left((key_of(daemon_set), node))
            if wait > timedelta():
                self._posts.ask((key_of(daemon_set), node), after=wait)
                return
            try:
                revision = tally.revision(daemon_set)
                self._site.api.create(PODS, daemon_pod(daemon_set, node, revision=revision))
            except ApiError:
                self._posts.ask((key_of(daemon_set), node), after=_TRY_AGAIN)

    def _post(
        self, daemon_set: Object, pod: Object | None, *, wanted: bool, at: tuple[Key, str]
    ) -> Post:
        if pod is None:
            return Post(wanted=wanted)
        revision = self._tallies[at[0]].revision(daemon_set)
        ready = standing_of(pod) is Standing.READY
        settle = timedelta(seconds=daemon_set["spec"].get("minReadySeconds") or 0)
        wait = ready_since(pod) + settle - self._site.now() if ready else timedelta()
        if wait > timedelta():
            self._posts.ask(at, after=wait)
        return Post(
            wanted=wanted,
            manned=True,
            ready=ready,
            available=ready and wait <= timedelta(),
            updated=(pod["metadata"].get("labels") or {}).get(REVISION_HASH) == revision,
        )

    def _sync(self, key: Key) -> None:
        """Go on with an update and write the status."""
        daemon_set, tally = find(self._site.api, DAEMON_SETS, key), self._tallies.get(key)
        if daemon_set is None or tally is None:
            return
        self._belonging.settle(daemon_set)
        if not is_leaving(daemon_set):
            if tally.recorded != tally.revision(daemon_set):
                tally.recorded = tally.revision(daemon_set)
                newest = self._history.record(daemon_set)
                self._history.forget_old(daemon_set, used={newest})
            self._update(daemon_set, tally)
        self._tell(daemon_set, tally)

    def _update(self, daemon_set: Object, tally: DaemonTally) -> None:
        strategy = daemon_set["spec"].get("updateStrategy") or {}
        if strategy.get("type") == "OnDelete":
            return
        limit = look(strategy, "rollingUpdate", "maxUnavailable")
        at_once = max(1, share(limit, tally.wanted, up=True, default=1))
        spare = max(0, at_once - (tally.wanted - tally.available))
        nodes = [*tally.outdated_down, *list(tally.outdated_up)[:spare]]
        for node in nodes:
            for pod in tally.pods.get(node, {}).values():
                if standing_of(pod) in ACTIVE:
                    self._site.delete(PODS, pod)

    def _tell(self, daemon_set: Object, tally: DaemonTally) -> None:
        rest = {
            "updatedNumberScheduled": tally.updated,
            "numberAvailable": tally.available,
            "numberUnavailable": tally.wanted - tally.available,
        }
        status: dict[str, Any] = {
            "currentNumberScheduled": tally.current,
            "numberMisscheduled": tally.misplaced,
            "desiredNumberScheduled": tally.wanted,
            "numberReady": tally.ready,
            "observedGeneration": daemon_set["metadata"]["generation"],
            **{name: count for name, count in rest.items() if count},
        }
        self._site.write_status(DAEMON_SETS, daemon_set, status)


def _looks_alike(before: Object, after: Object) -> bool:
    """Tell whether a DaemonSet judges two states of a node alike; most changes are heartbeats."""
    if before["metadata"].get("labels") != after["metadata"].get("labels"):
        return False
    return bool(look(before, "spec", "taints") == look(after, "spec", "taints"))


def _older_first(pod: Object) -> tuple[bool, str, str]:
    meta = pod["metadata"]
    return not look(pod, "spec", "nodeName"), meta["creationTimestamp"], meta["uid"]
