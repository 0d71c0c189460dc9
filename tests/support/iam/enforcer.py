"""Enforcement of IAM policies in front of the AWS emulator, and a record of all calls."""

from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Any

import msgspec
from moto.core import DEFAULT_ACCOUNT_ID
from moto.ec2 import ec2_backends

from tests.support.iam.authorizations import Account, authorizations
from tests.support.iam.calls import Call, decode_call
from tests.support.iam.evaluator import Document, Request, evaluate


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """A call, what it needs, and what of it is denied."""

    call: Call
    needed: tuple[Request, ...]
    denied: tuple[Request, ...]
    statements: frozenset[str]
    """Sids of the statements that allow it."""


class PolicyEnforcer:
    """``Middleware.authorizer`` that evaluates policies; thread-safe."""

    def __init__(self, documents: Iterable[Document], account: Account | None = None) -> None:
        self.documents = list(documents)
        self.account = account or Account()
        self.evaluations: list[Evaluation] = []
        self._lock = Lock()

    def __call__(self, environ: Mapping[str, Any], body: bytes) -> str:
        call = decode_call(environ, body)
        if call is None:
            return ""
        with self._lock:
            self.account.instances = _instance_tags(call.region)
            evaluation = self.evaluate(call)
            self.evaluations.append(evaluation)
            if not evaluation.denied:
                self.account.learn(call)
        if not evaluation.denied:
            return ""
        denied = evaluation.denied[0]
        return f"not authorized to perform {denied.action} on resource {denied.resource}"

    def is_allowed(self, request: Request) -> bool:
        return evaluate(self.documents, request).allowed

    def evaluate(self, call: Call) -> Evaluation:
        needed = authorizations(call, self.account)
        decisions = [(request, evaluate(self.documents, request)) for request in needed]
        return Evaluation(
            call=call,
            needed=tuple(needed),
            denied=tuple(request for request, decision in decisions if not decision.allowed),
            statements=frozenset(sid for _, decision in decisions for sid in decision.statements),
        )


def _instance_tags(region: str) -> dict[str, Mapping[str, str]]:
    backend = ec2_backends[DEFAULT_ACCOUNT_ID][region]
    return {
        instance.id: {tag["key"]: tag["value"] for tag in instance.get_tags()}
        for instance in backend.all_instances()
    }
