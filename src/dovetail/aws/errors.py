"""AWS errors: every error code of EC2, SQS, IAM and SSM, and its meaning.

This is the one place for error codes: other modules look at ``AwsError.kind``.
A code that is not listed is an invalid request, which is not retried.
"""

from enum import Enum
from typing import Final

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConfigParseError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    HTTPClientError,
    InvalidConfigError,
    NoCredentialsError,
    NoRegionError,
    PartialCredentialsError,
    ProfileNotFound,
    SSOError,
    TokenRetrievalError,
)
from botocore.parsers import ResponseParserError

from dovetail.ports.cloudprovider import CloudError
from dovetail.state.cloudprovider import launch_failure_reason


class ErrorKind(Enum):
    """Class of an error; the value says how callers treat it."""

    THROTTLED = "retry with exponential backoff"
    TRANSIENT = "retry"
    NOT_FOUND = "the resource does not exist"
    INSUFFICIENT_CAPACITY = "no capacity: try another offering"
    SPOT_ROLE_MISSING = "the account has no service-linked role for spot"
    ACCESS_DENIED = "the caller lacks a permission"
    NO_CREDENTIALS = "credentials are missing, invalid or expired"
    DRY_RUN_SUCCEEDED = "the dry run would succeed"
    INVALID_REQUEST = "the request is invalid: do not retry"


LAUNCH_TEMPLATE_NOT_FOUND: Final = frozenset(
    {"InvalidLaunchTemplateName.NotFoundException", "InvalidLaunchTemplateId.NotFound"}
)
SUBNET_OUT_OF_ADDRESSES: Final = "InsufficientFreeAddressesInSubnet"
PARAMETER_MISMATCH: Final = "IdempotentParameterMismatch"
"""EC2 has another request with the same client token."""
LAUNCH_TEMPLATE_EXISTS: Final = "InvalidLaunchTemplateName.AlreadyExistsException"
_CONNECTION_ERRORS: Final = (
    EndpointConnectionError,
    ConnectTimeoutError,
    HTTPClientError,
    ResponseParserError,
)
_CREDENTIAL_ERRORS: Final = (
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    ConfigParseError,
    InvalidConfigError,
    CredentialRetrievalError,
    SSOError,
    TokenRetrievalError,
)
"""The SDK has no valid credentials to sign requests with."""
UNREACHABLE: Final = "Unreachable"
"""Code of our own: AWS did not respond."""
NO_CREDENTIALS: Final = "NoCredentials"
"""Code of our own."""
RESERVATION_EXHAUSTED: Final = "ReservationCapacityExceeded"

_CODES: Final = {
    code: kind
    for kind, codes in {
        ErrorKind.THROTTLED: "RequestLimitExceeded Throttling ThrottlingException ThrottledException"
        " RequestThrottled RequestThrottledException TooManyRequestsException PriorRequestNotComplete"
        " SlowDown BandwidthLimitExceeded EC2ThrottledException",
        ErrorKind.TRANSIENT: "InternalError InternalFailure InternalServerError ServiceUnavailable"
        " ServiceUnavailableException Unavailable RequestTimeout RequestTimeoutException RequestExpired"
        f" {UNREACHABLE}",
        ErrorKind.NOT_FOUND: "InvalidCapacityReservationId.NotFound InvalidInstanceID.NotFound"
        " InvalidAMIID.NotFound QueueDoesNotExist AWS.SimpleQueueService.NonExistentQueue NoSuchEntity"
        f" ParameterNotFound ResourceNotFoundException {' '.join(LAUNCH_TEMPLATE_NOT_FOUND)}",
        ErrorKind.INSUFFICIENT_CAPACITY: "InsufficientInstanceCapacity MaxSpotInstanceCountExceeded"
        " VcpuLimitExceeded UnfulfillableCapacity Unsupported MaxFleetCountExceeded"
        f" {RESERVATION_EXHAUSTED} {SUBNET_OUT_OF_ADDRESSES}",
        ErrorKind.SPOT_ROLE_MISSING: "AuthFailure.ServiceLinkedRoleCreationNotPermitted",
        ErrorKind.ACCESS_DENIED: "UnauthorizedOperation AccessDenied AccessDeniedException",
        ErrorKind.NO_CREDENTIALS: "AuthFailure ExpiredToken ExpiredTokenException InvalidClientTokenId"
        f" UnrecognizedClientException SignatureDoesNotMatch {NO_CREDENTIALS}",
        ErrorKind.DRY_RUN_SUCCEEDED: "DryRunOperation",
    }.items()
    for code in codes.split()
}

_ADVICE: Final = {
    ErrorKind.THROTTLED: "it is retried; the API rate limit is shared by the whole account",
    ErrorKind.TRANSIENT: "it is retried; check the network if this continues",
    ErrorKind.ACCESS_DENIED: "allow the action in the IAM policy of the controller's role",
    ErrorKind.NO_CREDENTIALS: "configure valid credentials for the controller (Pod Identity, IRSA,"
    " AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)",
    ErrorKind.SPOT_ROLE_MISSING: "create the role once: aws iam create-service-linked-role"
    " --aws-service-name spot.amazonaws.com",
}


class AwsError(CloudError):
    """An error response of AWS: operation, code, message and advice."""

    def __init__(self, operation: str, code: str, message: str) -> None:
        self.operation = operation
        self.code = code
        self.message = message
        self.kind = error_kind(code)
        advice = _ADVICE.get(self.kind)
        super().__init__(f"{operation}: {code}: {message}" + (f"; {advice}" if advice else ""))

    @property
    def reason(self) -> str:
        """Return the reason of the NodeClaim's Launched condition."""
        return launch_failure_reason(str(self))


def error_kind(code: str) -> ErrorKind:
    """Return the kind of an error code; ``INVALID_REQUEST`` if it is not listed."""
    return _CODES.get(code, ErrorKind.INVALID_REQUEST)


def translate_error(error: Exception, operation: str) -> AwsError:
    """Return an exception of the SDK as ``AwsError``."""
    if isinstance(error, ClientError):
        details = error.response.get("Error", {})
        code = details.get("Code", "Unknown")
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
        if error_kind(code) is ErrorKind.INVALID_REQUEST and status >= 500:
            return AwsError(operation, "InternalError", f"{code}: {details.get('Message', error)}")
        return AwsError(operation, code, details.get("Message", str(error)))
    if isinstance(error, _CREDENTIAL_ERRORS):
        return AwsError(operation, NO_CREDENTIALS, str(error))
    if isinstance(error, _CONNECTION_ERRORS):
        return AwsError(operation, UNREACHABLE, str(error))
    if isinstance(error, NoRegionError):
        return AwsError(operation, "NoRegion", "no AWS region is configured; set AWS_REGION")
    return AwsError(operation, "InvalidRequest", str(error))


SDK_ERRORS: Final = (ClientError, BotoCoreError, ResponseParserError)
"""Everything that a boto3 call raises."""
