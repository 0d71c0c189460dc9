"""Merge patch of ``status.nominatedNodeName`` of a pod."""

from typing import Any

from dovetail.model.kube.pod import Pod


def nomination_patch(pod: Pod, node: str | None) -> dict[str, Any]:
    """Return the patch that nominates ``node``; None clears the nomination.

    The UID makes the API server reject it for a new pod of the same name.
    """
    return {"metadata": {"uid": pod.uid}, "status": {"nominatedNodeName": node}}
