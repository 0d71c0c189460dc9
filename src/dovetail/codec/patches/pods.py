"""The patch that names a pod's node to kube-scheduler before the pod is bound."""

from typing import Any

from dovetail.model.kube.pod import Pod


def nomination_patch(pod: Pod, node: str | None) -> dict[str, Any]:
    """Return the patch of a pod's status; None takes a nomination back.

    The uid makes sure that it is no successor of the same name.
    """
    return {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node}}
