"""Every answer of AWS that is not a success, and what it means to us."""

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


class Kind(Enum):
    """What to do about an error."""

    THROTTLED = "try again, later and later"
    TRANSIENT = "try again soon"
    GONE = "it is not there"
    SCARCE = "there is no capacity: try another pool"
    NO_SPOT_ROLE = "spot cannot be used in this account yet"
    REFUSED = "not allowed to"
    NO_CREDENTIALS = "AWS does not know us"
    WOULD_SUCCEED = "the dry run says yes"
    WRONG = "the request is wrong"


TEMPLATE_GONE: Final = frozenset(
    {"InvalidLaunchTemplateName.NotFoundException", "InvalidLaunchTemplateId.NotFound"}
)
SUBNET_FULL: Final = "InsufficientFreeAddressesInSubnet"
TEMPLATE_EXISTS: Final = "InvalidLaunchTemplateName.AlreadyExistsException"
_NO_ANSWER: Final = (
    EndpointConnectionError,
    ConnectTimeoutError,
    HTTPClientError,
    ResponseParserError,
)
_NOT_SIGNED: Final = (
    NoCredentialsError,
    PartialCredentialsError,
    ProfileNotFound,
    ConfigParseError,
    InvalidConfigError,
    CredentialRetrievalError,
    SSOError,
    TokenRetrievalError,
)
"""The SDK found nothing, or nothing that is valid, to sign calls with."""
UNREACHABLE: Final = "Unreachable"
"""Our own code for "no answer at all"."""
NO_CREDENTIALS: Final = "NoCredentials"
RESERVATION_FULL: Final = "ReservationCapacityExceeded"

_CODES: Final[dict[str, Kind]] = {
    **dict.fromkeys(
        (
            "RequestLimitExceeded",
            "Throttling",
            "ThrottlingException",
            "ThrottledException",
            "RequestThrottled",
            "RequestThrottledException",
            "TooManyRequestsException",
            "PriorRequestNotComplete",
            "SlowDown",
            "BandwidthLimitExceeded",
            "EC2ThrottledException",
        ),
        Kind.THROTTLED,
    ),
    **dict.fromkeys(
        (
            "InternalError",
            "InternalFailure",
            "InternalServerError",
            "ServiceUnavailable",
            "ServiceUnavailableException",
            "Unavailable",
            "RequestTimeout",
            "RequestTimeoutException",
            "RequestExpired",
            UNREACHABLE,
        ),
        Kind.TRANSIENT,
    ),
    **dict.fromkeys(
        (
            "InvalidCapacityReservationId.NotFound",
            "InvalidInstanceID.NotFound",
            "InvalidAMIID.NotFound",
            "QueueDoesNotExist",
            "AWS.SimpleQueueService.NonExistentQueue",
            "NoSuchEntity",
            "ParameterNotFound",
            "ResourceNotFoundException",
            *TEMPLATE_GONE,
        ),
        Kind.GONE,
    ),
    **dict.fromkeys(
        (
            "InsufficientInstanceCapacity",
            "MaxSpotInstanceCountExceeded",
            "VcpuLimitExceeded",
            "UnfulfillableCapacity",
            "Unsupported",
            "MaxFleetCountExceeded",
            RESERVATION_FULL,
            SUBNET_FULL,
        ),
        Kind.SCARCE,
    ),
    "AuthFailure.ServiceLinkedRoleCreationNotPermitted": Kind.NO_SPOT_ROLE,
    **dict.fromkeys(
        ("UnauthorizedOperation", "AccessDenied", "AccessDeniedException"), Kind.REFUSED
    ),
    **dict.fromkeys(
        (
            "AuthFailure",
            "ExpiredToken",
            "ExpiredTokenException",
            "InvalidClientTokenId",
            "UnrecognizedClientException",
            "SignatureDoesNotMatch",
            NO_CREDENTIALS,
        ),
        Kind.NO_CREDENTIALS,
    ),
    "DryRunOperation": Kind.WOULD_SUCCEED,
}

_REASONS: Final = (
    # The first whose words are all in "code: message" is the reason of the Launched condition.
    (("AuthFailure.ServiceLinkedRoleCreationNotPermitted",), "SpotSLRCreationFailed"),
    (("UnauthorizedOperation",), "Unauthorized"),
    (("AccessDenied",), "Unauthorized"),
    (("AuthFailure", "images"), "AMIAuthorizationFailure"),
    (("ecurity group", "subnet", "different networks"), "SecurityGroupSubnetVPCMismatch"),
    (("Invalid IAM Instance Profile name",), "InstanceProfileNameInvalid"),
    (("InvalidLaunchTemplate", "NotFound"), "LaunchTemplateNotFound"),
    (("User data is limited to",), "UserDataSizeLimitExceeded"),
    (("InvalidAMIID.Malformed",), "InvalidAMIID"),
    (("InvalidAMIID.NotFound",), "AMINotFound"),
    (("RequestLimitExceeded",), "RequestLimitExceeded"),
    (("Throttling",), "RequestLimitExceeded"),
    (("InternalError",), "InternalError"),
    (("Free Tier",), "FreeTierIneligible"),
    (("MaxFleetCountExceeded",), "FleetQuotaExceeded"),
    (("PendingVerification",), "AccountPendingVerification"),
    (("MaxSpotInstanceCountExceeded",), "SpotQuotaExceeded"),
    (("VcpuLimitExceeded",), "VCPULimitExceeded"),
    ((SUBNET_FULL,), "InsufficientFreeAddressesInSubnet"),
)

_ADVICE: Final = {
    Kind.THROTTLED: "it will be tried again; other users of this account share the limit",
    Kind.TRANSIENT: "it will be tried again; check the network if this goes on",
    Kind.REFUSED: "allow it in the policies of the controller's role",
    Kind.NO_CREDENTIALS: "give the controller credentials that are valid now (Pod Identity, IRSA,"
    " AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY)",
    Kind.NO_SPOT_ROLE: "create it once: aws iam create-service-linked-role"
    " --aws-service-name spot.amazonaws.com",
}


class AwsError(CloudError):
    """What AWS said, to which call, and what to do about it."""

    def __init__(self, operation: str, code: str, message: str) -> None:
        self.operation = operation
        self.code = code
        self.message = message
        self.kind = kind_of(code)
        advice = _ADVICE.get(self.kind)
        super().__init__(f"{operation}: {code}: {message}" + (f"; {advice}" if advice else ""))

    @property
    def reason(self) -> str:
        """The reason to give on a claim's Launched condition."""
        return launch_reason(str(self))


def kind_of(code: str) -> Kind:
    """Say what a code means; what nobody has heard of is a mistake of ours."""
    return _CODES.get(code, Kind.WRONG)


def launch_reason(told: str) -> str:
    """Return the reason that Karpenter's users know, for what AWS said of a launch."""
    return next(
        (why for words, why in _REASONS if all(one in told for one in words)), "LaunchFailed"
    )


def translated(error: Exception, operation: str) -> AwsError:
    """Return what the SDK raised as one of our errors."""
    if isinstance(error, ClientError):
        told = error.response.get("Error", {})
        code = told.get("Code", "Unknown")
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 400)
        if kind_of(code) is Kind.WRONG and status >= 500:
            return AwsError(operation, "InternalError", f"{code}: {told.get('Message', error)}")
        return AwsError(operation, code, told.get("Message", str(error)))
    if isinstance(error, _NOT_SIGNED):
        return AwsError(operation, NO_CREDENTIALS, str(error))
    if isinstance(error, _NO_ANSWER):
        return AwsError(operation, UNREACHABLE, str(error))
    if isinstance(error, NoRegionError):
        return AwsError(operation, "NoRegion", "no AWS region is known; set AWS_REGION")
    return AwsError(operation, "InvalidRequest", str(error))


SDK_ERRORS: Final = (ClientError, BotoCoreError, ResponseParserError)
