"""Whatever is answered instead becomes an error that controllers know."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.kube.errors import decode_error_response, decode_status
from dovetail.ports import kube_errors
from dovetail.ports.kube_errors import ApiError


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (409, "AlreadyExists", kube_errors.AlreadyExists),
        (409, "Conflict", kube_errors.Conflict),
        (409, "SomethingNew", kube_errors.Conflict),
        (410, "Expired", kube_errors.Gone),
        (410, "Gone", kube_errors.Gone),
        (429, "TooManyRequests", kube_errors.TooManyRequests),
        (500, "InternalError", kube_errors.InternalError),
        (500, "ServerTimeout", kube_errors.InternalError),
        (503, "ServiceUnavailable", kube_errors.Unavailable),
        (504, "Timeout", kube_errors.Timeout),
        (418, "Teapot", kube_errors.BadRequest),
        (599, "", ApiError),
    ],
)
def test_a_status_is_the_error_of_its_reason_and_else_of_its_code(
    code: int, reason: str, kind: type[ApiError]
) -> None:
    error = decode_status({"code": code, "reason": reason, "message": "because", "details": {"a": 1}})

    assert type(error) is kind
    assert str(error) == "because"
    assert error.details["a"] == 1


def test_retry_after_is_read_from_the_header() -> None:
    error = decode_error_response(429, b"slow down", retry_after="7")

    assert isinstance(error, kube_errors.TooManyRequests)
    assert error.details["retryAfterSeconds"] == 7
    assert "slow down" in str(error)


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.integers(400, 599), st.binary() | ANYTHING.map(lambda entry: json.dumps(entry).encode()))
def test_any_error_response_is_an_api_error(code: int, body: bytes) -> None:
    assert isinstance(decode_error_response(code, body), ApiError)


@given(
    st.dictionaries(st.sampled_from(["code", "reason", "message", "details", "status"]), ANYTHING, max_size=5)
)
def test_any_status_is_an_api_error(status: dict[str, Any]) -> None:
    assert isinstance(decode_status(status), ApiError)


@pytest.mark.parametrize(
    "body",
    [b'{"message":"\xff"}', b"\xff\xfe", b'{"details":' + b"[" * 100_000, b'{"code":1e999}', b'{"code":{}}'],
    ids=["text that is not UTF-8", "bytes that are not UTF-8", "deep nesting", "infinity", "code as a map"],
)
def test_any_error_body_gives_the_error_of_the_status_code(body: bytes) -> None:
    assert isinstance(decode_error_response(500, body), kube_errors.InternalError)


def test_an_endless_number_of_seconds_to_wait_is_ignored() -> None:
    assert decode_error_response(429, b"{}", retry_after="9" * 5_000).details == {}
