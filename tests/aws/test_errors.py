"""AWS errors: kinds, advice and reasons."""

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError, NoCredentialsError, ReadTimeoutError

from dovetail.aws.errors import AwsError, ErrorKind, error_kind, translate_error


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
        ("RequestLimitExceeded", ErrorKind.THROTTLED),
        ("ThrottlingException", ErrorKind.THROTTLED),
        ("InternalError", ErrorKind.TRANSIENT),
        ("InsufficientInstanceCapacity", ErrorKind.INSUFFICIENT_CAPACITY),
        ("MaxFleetCountExceeded", ErrorKind.INSUFFICIENT_CAPACITY),
        ("ReservationCapacityExceeded", ErrorKind.INSUFFICIENT_CAPACITY),
        ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", ErrorKind.SPOT_ROLE_MISSING),
        ("InvalidInstanceID.NotFound", ErrorKind.NOT_FOUND),
        ("NoSuchEntity", ErrorKind.NOT_FOUND),
        ("UnauthorizedOperation", ErrorKind.ACCESS_DENIED),
        ("ExpiredToken", ErrorKind.NO_CREDENTIALS),
        ("DryRunOperation", ErrorKind.DRY_RUN_SUCCEEDED),
        ("InvalidParameterValue", ErrorKind.INVALID_REQUEST),
    ],
)
def test_an_error_code_has_a_kind(code: str, kind: ErrorKind) -> None:
    assert error_kind(code) is kind
    assert translate_error(refused(code), "CreateFleet").kind is kind


def test_an_unknown_server_error_is_transient() -> None:
    assert translate_error(refused("Odd", status=500), "CreateFleet").kind is ErrorKind.TRANSIENT
    assert translate_error(refused("Odd", status=400), "CreateFleet").kind is ErrorKind.INVALID_REQUEST


@pytest.mark.parametrize(
    "error", [EndpointConnectionError(endpoint_url="http://ec2"), ReadTimeoutError(endpoint_url="http://ec2")]
)
def test_no_response_is_transient(error: Exception) -> None:
    assert translate_error(error, "CreateFleet").kind is ErrorKind.TRANSIENT


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (refused("UnauthorizedOperation", "not you"), "IAM policy of the controller's role"),
        (refused("ExpiredToken", "too old"), "configure valid credentials"),
        (NoCredentialsError(), "AWS_PROFILE"),
        (EndpointConnectionError(endpoint_url="http://ec2"), "check the network"),
    ],
)
def test_an_error_names_operation_message_and_advice(error: Exception, advice: str) -> None:
    message = str(translate_error(error, "CreateFleet"))

    assert message.startswith("CreateFleet: ")
    assert advice in message


def test_an_error_gives_the_reason_of_the_launched_condition() -> None:
    assert AwsError("CreateFleet", "InvalidAMIID.NotFound", "ami-1").reason == "AMINotFound"
