"""Calls as IAM names them: ``eks:CreateNodegroup`` for a POST to a cluster's node groups."""

import re
from functools import cache

import botocore.session

SERVICES = ("ec2", "iam", "sqs", "events", "logs", "sts")
"""Whose calls carry their own names; those of EKS are paths."""


def permissions_for(call: str) -> frozenset[str]:
    """Return which permission a call may take; services share names (``TagResource``)."""
    if " " in call:
        return frozenset(f"eks:{name}" for name, route in _routes() if route.fullmatch(call))
    return frozenset(f"{one}:{call}" for one in SERVICES if call in _operations(one))


@cache
def _operations(service: str) -> frozenset[str]:
    model = botocore.session.get_session().get_service_model(service)
    return frozenset(model.operation_names)


@cache
def _routes() -> tuple[tuple[str, re.Pattern[str]], ...]:
    model = botocore.session.get_session().get_service_model("eks")
    found = []
    for name in model.operation_names:
        http = model.operation_model(name).http
        path = re.sub(r"\{[^}]+\}", "[^/]+", http["requestUri"].partition("?")[0])
        # An ARN in a path holds slashes.
        path = path.replace("/tags/[^/]+", "/tags/.+").replace(
            "/access-entries/[^/]+", "/access-entries/(?:(?!/access-policies).)+"
        )
        found.append((name, re.compile(f"{http['method']} {path}")))
    return tuple(found)
