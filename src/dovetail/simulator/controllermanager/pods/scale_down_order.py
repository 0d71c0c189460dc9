"""Which pods go first when there are too many."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from dovetail.simulator.apiserver.storage.frozen_object import Object, look
from dovetail.simulator.controllermanager.pods.pod_index import (
    node_of,
    ready_condition,
    ready_since,
)

DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


def first_to_go(pods: Iterable[Object], *, relatives: Iterable[Object]) -> Sequence[Object]:
    """Order pods by how little is lost with them, as a ReplicaSet does.

    Unbound before bound, not ready before ready, cheap by their own word before
    dear, then those with the most ``relatives`` (the same application's pods) on
    their node, and the younger before the older.
    """
    crowd = Counter(node for one in relatives if (node := node_of(one)))

    def worth(pod: Object) -> tuple[bool, int, bool, int, int, float, int, float, str]:
        ready = ready_condition(pod) is not None
        created = datetime.fromisoformat(pod["metadata"]["creationTimestamp"])
        return (
            bool(node_of(pod)),
            _PHASES.get(look(pod, "status", "phase") or "", 2),
            ready,
            _cost(pod),
            -crowd[node_of(pod)],
            -ready_since(pod).timestamp() if ready else 0.0,
            -_restarts(pod),
            -created.timestamp(),
            # Of pods made within one second the later one has the greater uid.
            _reversed(pod["metadata"]["uid"]),
        )

    return sorted(pods, key=worth)


def _cost(pod: Object) -> int:
    text = (pod["metadata"].get("annotations") or {}).get(DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0


def _restarts(pod: Object) -> int:
    statuses = look(pod, "status", "containerStatuses") or ()
    return max((one.get("restartCount", 0) for one in statuses), default=0)


_MIRROR: Final = str.maketrans("0123456789abcdef", "fedcba9876543210")


def _reversed(uid: str) -> str:
    return uid.translate(_MIRROR)
