"""The policy evaluator, by facts from AWS's documentation of policy elements."""

from typing import Any

import pytest

from tests.support.iam.evaluator import Request, allows, matches_action, matches_arn

ANY: dict[str, Any] = {"Effect": "Allow", "Action": "*", "Resource": "*"}


def decide(context: dict[str, Any] | None = None, **statement: Any) -> bool:
    """Evaluate ec2:RunInstances by one statement that allows it, with changes."""
    document = {"Statement": [{**ANY, **statement}]}
    return allows([document], Request(action="ec2:RunInstances", context=context or {}))


def test_nothing_is_allowed_by_default() -> None:
    assert not allows([], Request(action="ec2:RunInstances"))
    assert not decide(Action="ec2:CreateFleet")


def test_an_explicit_deny_wins_over_every_allow() -> None:
    deny = {"Effect": "Deny", "Action": "ec2:*", "Resource": "*"}

    assert not allows([{"Statement": [ANY, deny]}], Request(action="ec2:RunInstances"))
    assert not allows([{"Statement": [deny]}, {"Statement": [ANY]}], Request(action="ec2:RunInstances"))
    assert allows([{"Statement": [ANY, deny]}], Request(action="iam:PassRole"))


def test_a_deny_whose_condition_does_not_hold_denies_nothing() -> None:
    condition = {"Bool": {"aws:SecureTransport": "false"}}
    deny = {"Effect": "Deny", "Action": "*", "Resource": "*", "Condition": condition}
    documents = [{"Statement": [ANY, deny]}]

    for value, allowed in (("true", True), ("false", False)):
        request = Request(action="sqs:SendMessage", context={"aws:SecureTransport": value})
        assert allows(documents, request) == allowed


@pytest.mark.parametrize(
    ("pattern", "action", "expected"),
    [
        ("ec2:runinstances", "ec2:RunInstances", True),
        ("ec2:Describe*", "ec2:DescribeInstances", True),
        ("ec2:*Instance?", "ec2:RunInstances", True),
        ("ec2:Describe*", "ec2:CreateFleet", False),
        ("*", "ec2:CreateFleet", True),
    ],
)
def test_actions_have_wildcards_and_no_case(pattern: str, action: str, expected: bool) -> None:
    assert matches_action(pattern, action) == expected


@pytest.mark.parametrize(
    ("pattern", "arn", "expected"),
    [
        ("arn:aws:ec2:eu-west-1:*:instance/*", "arn:aws:ec2:eu-west-1:1:instance/i-1", True),
        ("arn:aws:ec2:eu-west-1:*:instance/*", "arn:aws:ec2:us-east-1:1:instance/i-1", False),
        ("arn:aws:ec2:eu-west-1:*:instance/*", "arn:aws:ec2:eu-west-1:1:Instance/i-1", False),
        ("arn:aws:ec2:eu-west-1::image/*", "arn:aws:ec2:eu-west-1::image/ami-1", True),
        ("arn:aws:ec2:eu-west-1::image/*", "arn:aws:ec2:eu-west-1:1:image/ami-1", False),
        # A * at the end of a part may expand beyond the colon, another one may not.
        ("arn:aws:sqs:*", "arn:aws:sqs:eu-west-1:1:queue", True),
        ("arn:aws:*q*s:eu-west-1:1:queue", "arn:aws:sq:x:s:eu-west-1:1:queue", False),
        ("arn:aws:iam::1:role/a/*", "arn:aws:iam::1:role/a/b/c", True),
        ("arn:aws:logs:r:1:log-group:*:stream", "arn:aws:logs:r:1:log-group:a:b:stream", True),
        ("arn:aws:iam::1:role/?", "arn:aws:iam::1:role/ab", False),
    ],
)
def test_resources_are_matched_part_by_part(pattern: str, arn: str, expected: bool) -> None:
    assert matches_arn(pattern, arn) == expected


def test_not_action_and_not_resource_are_everything_else() -> None:
    other = {"Statement": [{"Effect": "Allow", "NotAction": "iam:*", "Resource": "*"}]}
    assert allows([other], Request(action="ec2:RunInstances"))
    assert not allows([other], Request(action="iam:PassRole"))
    elsewhere = {"Statement": [{"Effect": "Allow", "Action": "*", "NotResource": "arn:aws:sqs:r:1:a"}]}
    assert allows([elsewhere], Request(action="sqs:SendMessage", resource="arn:aws:sqs:r:1:b"))
    assert not allows([elsewhere], Request(action="sqs:SendMessage", resource="arn:aws:sqs:r:1:a"))


@pytest.mark.parametrize(
    ("operator", "expected", "given", "holds"),
    [
        ("StringEquals", "a", "a", True),
        ("StringEquals", "a", "A", False),
        ("StringEquals", "a*", "ab", False),
        ("StringEquals", ["a", "b"], "b", True),
        ("StringEquals", "a", None, False),
        ("StringEqualsIgnoreCase", "a", "A", True),
        ("StringEqualsIfExists", "a", None, True),
        ("StringEqualsIfExists", "a", "b", False),
        ("StringNotEquals", "a", "b", True),
        ("StringNotEquals", ["a", "b"], "b", False),
        ("StringNotEquals", "a", None, True),
        ("StringLike", "a*", "abc", True),
        ("StringLike", "*", "", True),
        ("StringLike", "*", None, False),
        ("StringLike", "a?", "abc", False),
        ("ArnLike", "arn:aws:iam::*:role/a*", "arn:aws:iam::1:role/ab", True),
        ("ArnLike", "arn:aws:*:role/a", "arn:aws:iam::1:role/a", False),
        ("ArnEquals", "arn:aws:iam::*:role/a*", "arn:aws:iam::1:role/ab", True),
        ("Bool", "true", "true", True),
        ("Bool", "true", "false", False),
        ("Bool", "false", None, False),
        ("Null", "true", None, True),
        ("Null", "true", "a", False),
        ("Null", "false", "a", True),
        ("ForAllValues:StringEquals", ["a", "b"], ["a"], True),
        ("ForAllValues:StringEquals", ["a", "b"], ["a", "c"], False),
        ("ForAllValues:StringEquals", ["a"], [], True),
        ("ForAllValues:StringEquals", ["a"], None, True),
        ("ForAnyValue:StringEquals", ["a"], ["b", "a"], True),
        ("ForAnyValue:StringEquals", ["a"], ["b"], False),
        ("ForAnyValue:StringEquals", ["a"], None, False),
        ("ForAnyValue:StringLike", ["a*"], ["b", "ab"], True),
    ],
)
def test_conditions(operator: str, expected: Any, given: Any, holds: bool) -> None:
    context = {} if given is None else {"aws:TagKeys": given}

    assert decide(context, Condition={operator: {"aws:TagKeys": expected}}) == holds


def test_all_keys_and_operators_of_a_condition_must_hold() -> None:
    condition = {"StringEquals": {"a": "1", "b": "2"}, "StringLike": {"c": "*"}}

    assert decide({"a": "1", "b": "2", "c": "3"}, Condition=condition)
    for missing in "abc":
        context = {key: value for key, value in {"a": "1", "b": "2", "c": "3"}.items() if key != missing}
        assert not decide(context, Condition=condition)


def test_names_of_condition_keys_have_no_case() -> None:
    condition = {"StringEquals": {"AWS:requestedregion": "eu-west-1"}}

    assert decide({"aws:RequestedRegion": "eu-west-1"}, Condition=condition)


@pytest.mark.parametrize(
    "statement",
    [
        {"Condition": {"NumericEquals": {"a": "1"}}},
        {"Condition": {"StringEquals": {"a": "${aws:username}"}}},
        {"Unknown": "x"},
        {"NotAction": "x"},
        {"Effect": "Permit"},
    ],
)
def test_what_the_evaluator_does_not_know_is_an_error(statement: dict[str, Any]) -> None:
    with pytest.raises((AssertionError, KeyError)):
        decide({"a": "1"}, **statement)


def test_a_key_with_several_values_needs_a_quantifier() -> None:
    with pytest.raises(AssertionError, match="several values"):
        decide({"a": ["1", "2"]}, Condition={"StringEquals": {"a": "1"}})
