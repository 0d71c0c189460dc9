"""Every error of AWS has a meaning, and a user is told what to do."""

import pytest
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    ReadTimeoutError,
)

from dovetail.aws.errors import AwsError, Kind, kind_of, launch_reason, translated


def refused(code: str, message: str = "no", status: int = 400) -> ClientError:
    return ClientError(
        {
            "Error": {"Code": code, "Message": message},
            "ResponseMetadata": {
                "HTTPStatusCode": status,
                "RequestId": "",
                "HostId": "",
                "HTTPHeaders": {},
                "RetryAttempts": 0,
            },
        },
        "CreateFleet",
    )


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("RequestLimitExceeded", Kind.THROTTLED),
        ("ThrottlingException", Kind.THROTTLED),
        ("InternalError", Kind.TRANSIENT),
        ("InsufficientInstanceCapacity", Kind.SCARCE),
        ("MaxFleetCountExceeded", Kind.SCARCE),
        ("ReservationCapacityExceeded", Kind.SCARCE),
        ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", Kind.NO_SPOT_ROLE),
        ("InvalidInstanceID.NotFound", Kind.GONE),
        ("NoSuchEntity", Kind.GONE),
        ("UnauthorizedOperation", Kind.REFUSED),
        ("ExpiredToken", Kind.NO_CREDENTIALS),
        ("DryRunOperation", Kind.WOULD_SUCCEED),
        ("InvalidParameterValue", Kind.WRONG),
    ],
)
def test_a_code_says_what_to_do(code: str, kind: Kind) -> None:
    assert kind_of(code) is kind
    assert translated(refused(code), "CreateFleet").kind is kind


def test_an_unknown_error_of_the_server_is_worth_another_try() -> None:
    assert translated(refused("Odd", status=500), "CreateFleet").kind is Kind.TRANSIENT
    assert translated(refused("Odd", status=400), "CreateFleet").kind is Kind.WRONG


@pytest.mark.parametrize(
    "error",
    [
        EndpointConnectionError(endpoint_url="http://ec2"),
        ReadTimeoutError(endpoint_url="http://ec2"),
    ],
)
def test_no_answer_is_worth_another_try(error: Exception) -> None:
    assert translated(error, "CreateFleet").kind is Kind.TRANSIENT


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (refused("UnauthorizedOperation", "not you"), "policies of the controller's role"),
        (refused("ExpiredToken", "too old"), "credentials that are valid now"),
        (NoCredentialsError(), "AWS_PROFILE"),
        (EndpointConnectionError(endpoint_url="http://ec2"), "check the network"),
    ],
)
def test_an_error_names_the_call_what_aws_said_and_what_to_do(
    error: Exception, advice: str
) -> None:
    told = str(translated(error, "CreateFleet"))

    assert told.startswith("CreateFleet: ")
    assert advice in told


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ("AuthFailure.ServiceLinkedRoleCreationNotPermitted: no", "SpotSLRCreationFailed"),
        ("UnauthorizedOperation: You are not", "Unauthorized"),
        ("AuthFailure: Not authorized for images: [ami-1]", "AMIAuthorizationFailure"),
        (
            "InvalidParameter: Security group sg-1 and subnet s-1 belong to different networks",
            "SecurityGroupSubnetVPCMismatch",
        ),
        (
            "InvalidParameterValue: Value (x) for parameter is invalid. Invalid IAM Instance "
            "Profile name",
            "InstanceProfileNameInvalid",
        ),
        ("InvalidLaunchTemplateName.NotFoundException: gone", "LaunchTemplateNotFound"),
        ("InvalidUserData.Malformed: User data is limited to 16384", "UserDataSizeLimitExceeded"),
        ("InvalidAMIID.Malformed: ami", "InvalidAMIID"),
        ("InvalidAMIID.NotFound: ami", "AMINotFound"),
        ("RequestLimitExceeded: slow", "RequestLimitExceeded"),
        ("InternalError: oh", "InternalError"),
        ("MaxFleetCountExceeded: many", "FleetQuotaExceeded"),
        ("PendingVerification: wait", "AccountPendingVerification"),
        ("MaxSpotInstanceCountExceeded: many", "SpotQuotaExceeded"),
        ("VcpuLimitExceeded: many", "VCPULimitExceeded"),
        ("InsufficientFreeAddressesInSubnet: full", "InsufficientFreeAddressesInSubnet"),
        ("SomethingElse: odd", "LaunchFailed"),
    ],
)
def test_a_failed_launch_has_the_reason_that_users_know(told: str, reason: str) -> None:
    assert launch_reason(told) == reason


def test_an_error_gives_its_own_reason() -> None:
    assert AwsError("CreateFleet", "InvalidAMIID.NotFound", "ami-1").reason == "AMINotFound"
