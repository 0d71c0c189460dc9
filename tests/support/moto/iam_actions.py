"""IAM actions of AWS calls: ``eks:CreateNodegroup`` for a POST to node groups."""

import re
from functools import cache

import botocore.session

SERVICES = ("ec2", "iam", "sqs", "events", "logs", "sts", "kms")
"""Services whose requests carry the operation name; those of EKS are paths."""


def permissions_for(call: str) -> frozenset[str]:
    """Return the permissions that a call can need; services share operation names."""
    if " " in call:
        return frozenset(f"eks:{name}" for name, route in _routes() if route.fullmatch(call))
    return frozenset(f"{service}:{call}" for service in SERVICES if call in _operations(service))


@cache
def _operations(service: str) -> frozenset[str]:
    model = botocore.session.get_session().get_service_model(service)
    return frozenset(model.operation_names)


@cache
def _routes() -> tuple[tuple[str, re.Pattern[str]], ...]:
    model = botocore.session.get_session().get_service_model("eks")
    routes = []
    for name in model.operation_names:
        http = model.operation_model(name).http
        path = re.sub(r"\{[^}]+\}", "[^/]+", http["requestUri"].partition("?")[0])
        # An ARN in a path holds slashes.
        path = path.replace("/tags/[^/]+", "/tags/.+").replace(
            "/access-entries/[^/]+", "/access-entries/(?:(?!/access-policies).)+"
        )
        routes.append((name, re.compile(f"{http['method']} {path}")))
    return tuple(routes)
