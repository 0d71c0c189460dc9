"""Node classes as they come from the API server, and what is said of them."""

from typing import Any

from dovetail.ports.cloud import ClassStatus


def a_class(name: str = "default", *, uid: str = "uid-1", **spec: Any) -> dict[str, Any]:
    """A class of the family Custom, with a role; None takes a field away."""
    usual: dict[str, Any] = {
        "amiFamily": "Custom",
        "amiSelectorTerms": [{"id": "ami-mine"}],
        "subnetSelectorTerms": [{"tags": {"team": "a"}}],
        "securityGroupSelectorTerms": [{"tags": {"team": "a"}}],
        "role": "nodes",
    }
    whole = {key: one for key, one in {**usual, **spec}.items() if one is not None}
    return {"metadata": {"name": name, "uid": uid, "generation": 1}, "spec": whole}


def annotated(node_class: dict[str, Any], **annotations: str) -> dict[str, Any]:
    return {**node_class, "metadata": {**node_class["metadata"], "annotations": annotations}}


def reasons(found: ClassStatus) -> dict[str, str]:
    """What is wrong: condition → reason."""
    return {kind: reason for kind, (reason, _) in found.problems.items()}


def message(found: ClassStatus, kind: str) -> str:
    """What a condition says, be it False or Unknown."""
    return {**found.problems, **found.unsure}[kind][1]
