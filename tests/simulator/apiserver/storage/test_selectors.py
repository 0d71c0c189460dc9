"""Label and field selectors: matches, and invalid selectors."""

import pytest

from dovetail.ports.kube_errors import BadRequest
from dovetail.simulator.apiserver.storage.selectors import (
    SelectionPredicate,
    decode_label_selector,
    format_label_selector,
    labels_match,
    parse_field_selector,
    parse_label_selector,
)


@pytest.mark.parametrize(
    ("selector", "labels", "selected"),
    [
        ("", {}, True),
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "b"}, True),
        ("a = b , c = d", {"a": "b", "c": "d"}, True),
        ("a=b,c=d", {"a": "b"}, False),
        ("a=", {"a": ""}, True),
        ("a=", {}, False),
        ("a!=b", {"a": "c"}, True),
        ("a!=b", {}, True),
        ("a!=b", {"a": "b"}, False),
        ("a in (b,c)", {"a": "c"}, True),
        ("a in (b, c),d", {"a": "c", "d": "x"}, True),
        ("a in (b)", {}, False),
        ("a notin (b,c)", {}, True),
        ("a notin (b,c)", {"a": "c"}, False),
        ("x.io/a", {"x.io/a": "anything"}, True),
        ("!x.io/a", {"x.io/a": "anything"}, False),
        ("!x.io/a", {}, True),
        ("a>3", {"a": "4"}, True),
        ("a > 3", {"a": "3"}, False),
        ("a<3", {"a": "2"}, True),
        ("a<3", {"a": "two"}, False),
        ("a<3", {}, False),
        ("in in (notin)", {"in": "notin"}, True),
    ],
)
def test_a_label_selector_selects(selector: str, labels: dict[str, str], selected: bool) -> None:
    assert labels_match(parse_label_selector(selector), labels) is selected


@pytest.mark.parametrize("text", ["a=b=c", "a in b", "a in (b", "=b", "a,,b", "a>x", "a in (b c)"])
def test_an_invalid_label_selector_is_a_bad_request(text: str) -> None:
    with pytest.raises(BadRequest, match="not a label selector"):
        parse_label_selector(text)


@pytest.mark.parametrize(
    ("plural", "selector", "selected"),
    [
        ("pods", "spec.nodeName=n1", True),
        ("pods", "spec.nodeName==n1,status.phase!=Failed", True),
        ("pods", "spec.nodeName!=n1", False),
        ("pods", "status.phase=Running,metadata.namespace=default", True),
        ("pods", "metadata.name=b", False),
        ("pods", "spec.hostNetwork=false", True),
        ("nodes", "spec.unschedulable=false", True),
        ("nodes", "spec.unschedulable=true", False),
        ("nodes", "", True),
    ],
)
def test_a_field_selector_selects(plural: str, selector: str, selected: bool) -> None:
    obj = {
        "metadata": {"name": "a", "namespace": "default"},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running"},
    }

    assert SelectionPredicate(fields=parse_field_selector(selector, plural)).matches(obj) is selected


@pytest.mark.parametrize("text", ["spec.image=x", "spec.nodeName", "=a"])
def test_fields_that_cannot_be_selected_by_are_a_bad_request(text: str) -> None:
    with pytest.raises(BadRequest):
        parse_field_selector(text, "pods")


def test_a_selector_object_matches_like_its_string_form() -> None:
    selector = {
        "matchLabels": {"app": "web"},
        "matchExpressions": [
            {"key": "tier", "operator": "In", "values": ["b", "a"]},
            {"key": "env", "operator": "NotIn", "values": ["test"]},
            {"key": "x.io/y", "operator": "Exists"},
            {"key": "z", "operator": "DoesNotExist"},
        ],
    }

    text = format_label_selector(selector)

    assert text == "app=web,tier in (a,b),env notin (test),x.io/y,!z"
    assert parse_label_selector(text) == decode_label_selector(selector)
