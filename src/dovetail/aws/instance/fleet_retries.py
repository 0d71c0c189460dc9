"""CreateFleet requests without a response, kept for an idempotent retry."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from dovetail.aws.instance.fleet_request import FleetPlan, Launch
from dovetail.model.karpenter.nodeclaim import NodeClaim


class UnansweredRequest(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """A request that EC2 may have executed.

    Repeated with the same parameters and client token, it launches nothing more.
    """

    plan: FleetPlan
    parameters: Mapping[str, Any]
    client_token: str


class UnansweredRequests:
    """Unanswered requests by claim, and what they turned out to have launched.

    EC2 answers a repeated client token at once and as it did the first time.
    DescribeInstances is eventually consistent: it may omit a new instance for
    seconds. The repeated request therefore comes before any search by tag.
    """

    def __init__(self) -> None:
        self._requests: dict[str, UnansweredRequest] = {}
        """Claim uid → request."""
        self._launches: dict[str, Launch] = {}
        """Claim uid → instance that a retry has found, not handed out yet."""

    def has(self, claim: NodeClaim) -> bool:
        """Return True if an instance may have been launched for a claim."""
        return claim.uid in self._requests or claim.uid in self._launches

    def add(self, request: UnansweredRequest) -> None:
        """Add a request for all of its claims."""
        self._requests |= {claim.uid: request for claim in request.plan.claims}

    def requests_for(self, claims: Iterable[NodeClaim]) -> list[UnansweredRequest]:
        """Return the requests of any of the claims, without duplicates."""
        requests = (self._requests.get(claim.uid) for claim in claims)
        return list(dict.fromkeys(request for request in requests if request is not None))

    def resolve(self, request: UnansweredRequest, launches: Iterable[Launch]) -> bool:
        """Record the launches of a request; False if it was resolved before."""
        waiting = [claim for claim in request.plan.claims if self._requests.get(claim.uid) is request]
        if not waiting:
            return False
        for claim in waiting:
            del self._requests[claim.uid]
        # Fewer launches than claims: the claims at the end got no instance.
        assigned = zip(request.plan.claims, launches, strict=False)
        self._launches |= {claim.uid: launch for claim, launch in assigned}
        return True

    def pop_launch(self, claim: NodeClaim) -> Launch | None:
        """Return the launch of a claim, once."""
        return self._launches.pop(claim.uid, None)
