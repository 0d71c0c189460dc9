"""Questions about the caller: who it is and what it may do."""

from collections.abc import Mapping
from typing import Any, Final

from dovetail.ports.api_resources import Resource

USER: Final = "dovetail-sandbox"


def _review(group: str, plural: str, kind: str) -> Resource:
    return Resource(group, "v1", plural, kind, namespaced=False, subresources=())


_ACCESS: Final = _review(
    "authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"
)
_RULES: Final = _review("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview")
_SELF: Final = _review("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview")

REVIEWS: Final = (_ACCESS, _RULES, _SELF)
"""Kinds that are asked, never kept."""

_STATUS: Final[Mapping[Resource, Mapping[str, Any]]] = {
    _ACCESS: {"allowed": True, "reason": "who has the token may do everything"},
    _RULES: {
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
        "incomplete": False,
    },
    _SELF: {"userInfo": {"username": USER, "groups": ["system:authenticated"]}},
}


def review_at(path: str) -> Resource | None:
    """Return the review that a path is about."""
    for one in REVIEWS:
        if path == f"/apis/{one.api_version}/{one.plural}":
            return one
    return None


def reviewed(review: Resource, question: Mapping[str, Any]) -> dict[str, Any]:
    """Answer a review: there is one user, who may do everything."""
    return {
        "kind": review.kind,
        "apiVersion": review.api_version,
        "metadata": {},
        "spec": question.get("spec") or {},
        "status": dict(_STATUS[review]),
    }
