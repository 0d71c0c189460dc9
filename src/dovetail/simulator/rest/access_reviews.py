"""Access reviews: identity and permissions of the client, who may do everything."""

from collections.abc import Mapping
from typing import Any, Final

from dovetail.ports.api_resources import Resource

USER: Final = "dovetail-sandbox"


def _review(group: str, plural: str, kind: str) -> Resource:
    return Resource(group, "v1", plural, kind, namespaced=False, subresources=())


_ACCESS: Final = _review("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview")
_RULES: Final = _review("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview")
_SELF: Final = _review("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview")

REVIEWS: Final = (_ACCESS, _RULES, _SELF)
"""Kinds that can only be created, and are not stored."""

_STATUS: Final[Mapping[Resource, Mapping[str, Any]]] = {
    _ACCESS: {"allowed": True, "reason": "the holder of the token may do everything"},
    _RULES: {
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    },
    _SELF: {"userInfo": {"username": USER, "groups": ["system:authenticated"]}},
}


def find_review(path: str) -> Resource | None:
    """Return the review kind of a path."""
    for review in REVIEWS:
        if path == f"/apis/{review.api_version}/{review.plural}":
            return review
    return None


def answer_review(review: Resource, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a review with its status: there is one user, with all permissions."""
    return {
        "kind": review.kind,
        "apiVersion": review.api_version,
        "metadata": {},
        "spec": request.get("spec") or {},
        "status": dict(_STATUS[review]),
    }
