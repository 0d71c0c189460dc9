"""Launches instances for NodeClaims: few calls, and never an instance twice.

    claims of one batch (same launch_batch_key)
        │
        ├─ unanswered request? ── retry with the same client token ──> its instances
        │
        └─ else: launch choices -> FleetPlan -> launch templates -> CreateFleet
                     ^                                                 │
                     │                     instances <──── response ───┤
                     └── mark unavailable offerings <───── errors ─────┤
                                              no response ─────────────┘
                                              (keep for a retry)

**Idempotency.** A launch can run again for three reasons: AwsSession retries a
call, the lifecycle controller retries a claim, or the process restarts. Three
mechanisms keep this from launching a second instance:

1. The client token is a hash of the request. EC2 answers a repeated token with
   its first response. AwsSession's retries therefore change nothing.
2. If no response arrives at all, the request is kept in ``UnansweredRequests``.
   The next launch of any of its claims repeats it before anything else.
3. Instances carry the list of their claims as tags (``claim_tags``). After a
   restart ``AwsCloudProvider`` finds them by tag and adopts them.
4. Tags are eventually consistent, and EC2 may still carry out the request of a
   process that was killed. The token is therefore recorded on the claims before
   the request, and the next process repeats it (``launch_requests``).

EC2 also repeats *errors* for a known token. After each response the attempt
number, which is part of the hash, is therefore increased.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec

from dovetail.aws.errors import (
    LAUNCH_TEMPLATE_NOT_FOUND,
    PARAMETER_MISMATCH,
    SUBNET_OUT_OF_ADDRESSES,
    AwsError,
    ErrorKind,
    error_kind,
)
from dovetail.aws.instance.create_fleet import (
    FleetError,
    FleetRequest,
    FleetResponse,
    client_token,
    decode_fleet_response,
    encode_fleet_request,
    format_errors,
)
from dovetail.aws.instance.fleet_request import (
    FleetPlan,
    Launch,
    needed_addresses,
    plan_fleet,
    select_reservations,
)
from dovetail.aws.instance.fleet_retries import UnansweredRequest, UnansweredRequests
from dovetail.aws.instance.launch_requests import (
    SETTLED_AFTER,
    LaunchRequest,
    LaunchRequests,
    RecordRequest,
    record_nothing,
)
from dovetail.aws.launchtemplate.launch_config import LaunchConfig
from dovetail.aws.launchtemplate.launch_templates import LaunchTemplates
from dovetail.aws.nodeclass.capacity_reservations import ReservationCapacity
from dovetail.aws.nodeclass.network import FreeAddresses
from dovetail.aws.session import AwsSession
from dovetail.core.instancetypes.launch_choices import LaunchChoice, NoLaunchChoices
from dovetail.model import labels as label_keys
from dovetail.model.cloud.instance_type import InstanceType
from dovetail.model.karpenter.nodeclaim import NodeClaim
from dovetail.ports.cloudprovider import CloudError, CreateError
from dovetail.ports.event_loop import Clock
from dovetail.ports.executor import Executor
from dovetail.ports.metrics import CLOUDPROVIDER_LAUNCH_FAILURES, OfferingLabels
from dovetail.state.cloudprovider import (
    LaunchChoiceCache,
    claim_error,
    launch_failure_reason,
    no_capacity_error,
)
from dovetail.state.instancetypes.unavailable_offerings import UnavailableOffering, UnavailableOfferings

CREATE_FLEET_TIMEOUT: Final = timedelta(minutes=4)
"""Maximum wait for a response, which follows the launch of up to 200 instances.

Shorter than the launch timeout of a claim (5 min): the next reconcile repeats the
request with the same client token before the claim is deleted.
"""
MAX_CREATE_FLEET_CALLS: Final = 32
"""Calls in flight at once, in threads of their own: each may take minutes."""
_MAX_ATTEMPT_COUNTS: Final = 10_000


class UnknownOutcomeError(CreateError):
    """EC2 may have launched instances, but did not report them."""


_NOT_REPORTED: Final = UnknownOutcomeError(
    "InternalError",
    "CreateFleet: EC2 accepted the repeated request but did not report its instances;"
    " they are looked up by tag next",
)

_REQUESTED_BEFORE: Final = UnknownOutcomeError(
    "InternalError",
    "CreateFleet: EC2 has an earlier request for this nodeclaim and does not show an instance of it yet;"
    f" a new request is made {SETTLED_AFTER.seconds}s after it",
)


class InstanceLauncher:
    """Launches until every claim has an instance or no offering is left."""

    def __init__(
        self,
        *,
        aws: AwsSession,
        templates: LaunchTemplates,
        addresses: FreeAddresses,
        unavailable: UnavailableOfferings,
        clock: Clock,
        cluster: str,
        reservations: ReservationCapacity | None = None,
        use_own_prices: bool = False,
        executor: Executor | None = None,
        record_request: RecordRequest = record_nothing,
    ) -> None:
        """``use_own_prices``: our prices rank on-demand offerings, not those of EC2.

        ``executor`` has the threads of CreateFleet calls; by default those of the session.
        ``record_request`` records requests for the next process.
        """
        self._use_own_prices = use_own_prices
        self._aws = aws
        self._ec2 = aws.ec2(read_timeout=CREATE_FLEET_TIMEOUT)
        self._executor = executor
        self._templates = templates
        self._addresses = addresses
        self._unavailable = unavailable
        self._clock = clock
        self._cluster = cluster
        self._reservations = reservations or ReservationCapacity()
        self._unanswered = UnansweredRequests()
        self._requests = LaunchRequests(record_request)
        self._attempts: Counter[str] = Counter()
        """Client token of attempt 0 → number of attempts made."""
        self._launch_choices = LaunchChoiceCache()

    async def launch(
        self,
        claims: Sequence[NodeClaim],
        launch_config: LaunchConfig,
        types: Callable[[], tuple[InstanceType, ...]],
    ) -> list[Launch | Exception]:
        """Return a launch or an error for each claim of one batch.

        Unanswered requests are repeated first. Offerings without capacity are
        marked unavailable and the others are requested at once, until none is
        left. ``types`` is called before each request, to see these marks.
        """
        recovered = await self._retry_unanswered(claims)
        new = [claim for claim in claims if claim.uid not in recovered]
        results = await self._launch_new(new, launch_config, types)
        by_uid = recovered | dict(zip((claim.uid for claim in new), results, strict=True))
        return [by_uid[claim.uid] for claim in claims]

    def is_unanswered(self, claim: NodeClaim) -> bool:
        """Return True if a request for a claim has no response yet."""
        return self._unanswered.has(claim)

    def open_token(self, claim: NodeClaim) -> str:
        """Return the client token of a request that EC2 may carry out for a claim."""
        return self._requests.open_token(claim)

    async def _retry_unanswered(self, claims: Sequence[NodeClaim]) -> dict[str, Launch | Exception]:
        """Repeat unanswered requests of these claims; return claim uid → result."""
        failed: dict[str, Launch | Exception] = {}
        for request in self._unanswered.requests_for(claims):
            try:
                response = await self._send(request)
            except UnknownOutcomeError as error:
                failed |= {claim.uid: claim_error(claim, error) for claim in request.plan.claims}
                continue
            except AwsError:
                response = FleetResponse()  # EC2 rejected the request: nothing was launched.
            else:
                if not response.instances and not response.errors:
                    # EC2 knows the token but omits the result: adopt the instances by tag.
                    self._unanswered.resolve(request, ())
                    failed |= {claim.uid: claim_error(claim, _NOT_REPORTED) for claim in request.plan.claims}
                    continue
            self._requests.mark_answered(request.client_token)
            launches = request.plan.assign(response)
            # Two retries may run concurrently; only the first one records the result.
            if self._unanswered.resolve(request, launches):
                self._record(request.plan, response, launches)
        recovered = {claim.uid: self._unanswered.pop_launch(claim) for claim in claims}
        return failed | {uid: launch for uid, launch in recovered.items() if launch is not None}

    async def _launch_new(
        self,
        claims: Sequence[NodeClaim],
        launch_config: LaunchConfig,
        types: Callable[[], tuple[InstanceType, ...]],
    ) -> list[Launch | Exception]:
        results: list[Launch | Exception] = []
        errors: list[FleetError] = []
        while remaining := claims[len(results) :]:
            choices = self._launch_choices.find(remaining[0], types())
            if isinstance(choices, NoLaunchChoices):
                failed = [f"{error.instance_type}/{error.zone} ({error.code})" for error in errors]
                return results + [no_capacity_error(claim, failed, choices) for claim in remaining]
            try:
                launches, new_errors = await self._request_fleet(remaining, launch_config, choices)
            except CloudError as error:
                return results + [claim_error(claim, _create_error(error)) for claim in remaining]
            results += launches
            errors += new_errors
            if not launches and not any(error.is_unavailable_offering for error in new_errors):
                message = format_errors(new_errors) or "EC2 returned no instance and no error"
                # An empty response can mean that EC2 knew the token and omits the result.
                error_type = CreateError if new_errors else UnknownOutcomeError
                fatal = error_type(launch_failure_reason(message), message)
                return results + [claim_error(claim, fatal) for claim in remaining]
        return results

    async def _request_fleet(
        self, claims: Sequence[NodeClaim], launch_config: LaunchConfig, choices: tuple[LaunchChoice, ...]
    ) -> tuple[list[Launch], tuple[FleetError, ...]]:
        """Launch for as many claims as one request can name."""
        plan = plan_fleet(
            claims,
            launch_config=launch_config,
            choices=select_reservations(choices, launch_config.node_class.capacity_reservations),
            addresses=self._addresses,
            cluster=self._cluster,
        )
        templates = plan.templates()
        request = plan.request(await self._templates.ensure(templates))
        if self._use_own_prices and request.capacity_type == label_keys.ON_DEMAND:
            request = msgspec.structs.replace(request, prioritized=True)
        try:
            response = await self._call_with_addresses(plan, request)
        except AwsError as error:
            if error.code not in LAUNCH_TEMPLATE_NOT_FOUND:
                raise
            # Another process deleted a template that our cache still has: create it again.
            self._templates.discard([template.name for template in request.templates])
            await self._templates.ensure(templates)
            response = await self._call_with_addresses(plan, request)
        for failure in response.errors:
            self._aws.metrics.inc(
                CLOUDPROVIDER_LAUNCH_FAILURES,
                OfferingLabels(zone=failure.zone, capacity_type=plan.capacity_type, reason=failure.code),
            )
        launches = plan.assign(response)
        self._record(plan, response, launches)
        return launches, response.errors

    def _record(self, plan: FleetPlan, response: FleetResponse, launches: Iterable[Launch]) -> None:
        """Record unavailable offerings, exhausted subnets and used reservations."""
        for error in response.errors:
            if error.code == SUBNET_OUT_OF_ADDRESSES:
                self._addresses.mark_exhausted(error.subnet_id)
        self._mark_unavailable(response.errors, plan)
        for reservation_id in plan.exhausted_reservations(response):
            self._reservations.mark_exhausted(reservation_id)
        for launch in launches:
            if launch.choice.offering.reservation_id:
                self._reservations.mark_launched(launch.choice.offering.reservation_id)

    async def _call_with_addresses(self, plan: FleetPlan, request: FleetRequest) -> FleetResponse:
        """Call CreateFleet with the addresses of its instances reserved.

        The reservation covers every subnet that EC2 may choose; what the
        instances do not use is released.
        """
        needed, used = needed_addresses(request), Counter[str]()
        self._addresses.reserve(
            {subnet_id: addresses * request.count for subnet_id, addresses in needed.items()}
        )
        try:
            response = await self._create_fleet(plan, request)
            used.update(instance.subnet_id for instance in response.instances)
        finally:
            self._addresses.release(
                {
                    subnet_id: addresses * (request.count - used[subnet_id])
                    for subnet_id, addresses in needed.items()
                }
            )
        return response

    async def _create_fleet(self, plan: FleetPlan, request: FleetRequest) -> FleetResponse:
        parameters = encode_fleet_request(request)
        recorded = self._requests.open_request(plan.claims)
        first_token = client_token(parameters, 0)
        if recorded is None:
            token = client_token(parameters, self._attempts[first_token])
            # Later seconds are cut off: the recorded time must not precede the request.
            at = self._clock.now() + timedelta(seconds=1)
            recorded = LaunchRequest(at, token)
            await self._requests.record(plan.claims, recorded)
        sent = UnansweredRequest(plan=plan, parameters=parameters, client_token=recorded.client_token)
        # Later on, the instances of an earlier request would have been found by tag.
        is_settled = self._clock.now() >= recorded.at + SETTLED_AFTER
        try:
            response = await self._send(sent)
        except UnknownOutcomeError:
            self._unanswered.add(sent)
            raise
        except AwsError as error:
            if error.code != PARAMETER_MISMATCH:
                raise
            if is_settled:
                self._requests.mark_answered(recorded.client_token)
            raise _REQUESTED_BEFORE from error
        finally:
            self._count_attempt(first_token)
        if response.instances or response.errors or is_settled:
            self._requests.mark_answered(recorded.client_token)
        return response

    async def _send(self, request: UnansweredRequest) -> FleetResponse:
        """Call CreateFleet; raise ``UnknownOutcomeError`` if no response arrives."""

        def call() -> Any:
            return self._ec2.create_fleet(ClientToken=request.client_token, **request.parameters)

        try:
            response = await self._aws.call("CreateFleet", call, executor=self._executor)
        except AwsError as error:
            if error.kind is ErrorKind.TRANSIENT:
                raise UnknownOutcomeError(error.reason, str(error)) from error
            raise
        zones = {subnet.id: subnet.zone for subnet in request.plan.launch_config.subnets}
        return decode_fleet_response(response, zones)

    def _count_attempt(self, first_token: str) -> None:
        """Count an attempt, so that the next equal request has a new client token."""
        if len(self._attempts) >= _MAX_ATTEMPT_COUNTS:
            self._attempts.clear()
        self._attempts[first_token] += 1

    def _mark_unavailable(self, errors: Iterable[FleetError], plan: FleetPlan) -> None:
        unavailable = [
            UnavailableOffering(capacity_type=label_keys.SPOT)
            if error_kind(error.code) is ErrorKind.SPOT_ROLE_MISSING
            else UnavailableOffering(
                capacity_type=plan.capacity_type, instance_type=error.instance_type, zone=error.zone
            )
            for error in errors
            if error.is_unavailable_offering and not self._has_other_subnet(error, plan)
        ]
        self._unavailable.mark_unavailable(unavailable, now=self._clock.now())

    def _has_other_subnet(self, error: FleetError, plan: FleetPlan) -> bool:
        """Return True if a subnet is full but its zone has another with addresses."""
        return error.code == SUBNET_OUT_OF_ADDRESSES and any(
            self._addresses.free(subnet.id) > 0
            for subnet in plan.launch_config.subnets
            if subnet.zone == error.zone
        )


def _create_error(error: CloudError) -> CloudError:
    """Return an AwsError as the CreateError of a claim, other errors unchanged."""
    return CreateError(error.reason, str(error)) if isinstance(error, AwsError) else error
