"""What a DaemonSet has on each node, added up as it changes."""

from typing import Final, NamedTuple

from dovetail.simulator.apiserver.storage.frozen_object import Object
from dovetail.simulator.controllermanager.pods.pod_template import template_hash


class Post(NamedTuple):
    """One node as a DaemonSet counts it."""

    wanted: bool = False
    manned: bool = False
    ready: bool = False
    available: bool = False
    updated: bool = False


UNKNOWN: Final = Post()


class DaemonTally:
    """The nodes of one DaemonSet. Follows from the pods and nodes; kept to add up quickly."""

    def __init__(self) -> None:
        self.pods: dict[str, dict[str, Object]] = {}
        """Its pods by the node they are on or meant for, and by name."""
        self.generation = 0
        self._revision = (0, "")
        self.recorded = ""
        """The revision that was last written to the history."""
        self._posts: dict[str, Post] = {}
        self.wanted = self.current = self.misplaced = 0
        self.ready = self.available = self.updated = 0
        self.outdated_up: dict[str, None] = {}
        """Nodes whose pod is of an older template and serves."""
        self.outdated_down: dict[str, None] = {}
        """Nodes whose pod is of an older template and serves nobody."""

    def revision(self, daemon_set: Object) -> str:
        """Return the hash of the template, worked out once a generation."""
        generation = daemon_set["metadata"]["generation"]
        if self._revision[0] != generation:
            self._revision = generation, template_hash(daemon_set["spec"]["template"])
        return self._revision[1]

    def put(self, node: str, post: Post) -> bool:
        """Count a node as it is now; tells whether anything changed."""
        before = self._posts.get(node, UNKNOWN)
        if before == post:
            return False
        self._add(before, -1)
        self._add(post, +1)
        if post == UNKNOWN:
            del self._posts[node]
        else:
            self._posts[node] = post
        outdated = post.wanted and post.manned and not post.updated
        _keep(self.outdated_up, node, wanted=outdated and post.available)
        _keep(self.outdated_down, node, wanted=outdated and not post.available)
        return True

    def _add(self, post: Post, times: int) -> None:
        serves = times if post.wanted and post.manned else 0
        self.wanted += times * post.wanted
        self.current += serves
        self.misplaced += times * (post.manned and not post.wanted)
        self.ready += serves * post.ready
        self.available += serves * post.available
        self.updated += serves * post.updated


def _keep(nodes: dict[str, None], node: str, *, wanted: bool) -> None:
    if wanted:
        nodes[node] = None
    else:
        nodes.pop(node, None)
