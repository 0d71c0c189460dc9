"""Kubelet settings of node classes: whatever is written, it is decoded or refused with its path."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.codec.fields import MAX_ERRORS, DecodeContext, Field
from dovetail.codec.karpenter.kubelet_fields import kubelet_fields
from dovetail.codec.karpenter.nodeclass_kubelet import check_kubelet_fields, decode_kubelet, encode_kubelet
from dovetail.codec.text.field_path import format_path

NUMBERS = st.none() | st.booleans() | st.integers() | st.floats()
VALUES = st.recursive(
    NUMBERS | st.text(max_size=8) | st.sampled_from(["5", "1Gi", "30s", "5%", "vcpus * 10", "-1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["cpu", "enabled", "memory.available", "x"]), inner, max_size=3)
    ),
    max_leaves=8,
)
NAMES = st.sampled_from(sorted(kubelet_fields())) | st.text(max_size=12)


def errors(kubelet: Any, **mode: bool) -> list[str]:
    context = DecodeContext(**mode)
    decode_kubelet(Field({"spec": {"kubelet": kubelet}}, context)["spec"]["kubelet"])
    return [f"{format_path(path)}: {message}" for path, message in context.errors]


@given(kubelet=VALUES | st.dictionaries(NAMES, VALUES, max_size=6))
def test_no_settings_raise_an_exception(kubelet: Any) -> None:
    for mode in ({}, {"strict": False}, {"api_rules_only": True}):
        assert all(error.startswith("spec.kubelet") for error in errors(kubelet, **mode))


@given(kubelet=st.dictionaries(NAMES, VALUES, max_size=6))
def test_settings_without_errors_survive_encoding(kubelet: dict[str, Any]) -> None:
    context = DecodeContext()
    present = {name: value for name, value in kubelet.items() if value is not None}
    decoded = decode_kubelet(Field(present, context))
    if context.errors:
        return

    again = decode_kubelet(Field(json.loads(json.dumps(encode_kubelet(decoded))), DecodeContext()))

    assert again == decoded


def test_the_api_server_accepts_what_only_the_controller_can_check() -> None:
    assert errors({"nodeLabels": {}, "registryPullQPS": "5", "maxPod": 1}, api_rules_only=True) == []


def test_an_object_with_thousands_of_unknown_fields_gets_a_bounded_report() -> None:
    assert len(errors({f"field{number}": 1 for number in range(5_000)})) == MAX_ERRORS


@pytest.mark.parametrize("name", ["enableServer", "kubeAPIQPS", "reservedMemory", "tracing", "failCgroupV1"])
def test_known_fields_are_checked_when_null_as_if_absent(name: str) -> None:
    context = DecodeContext()

    check_kubelet_fields(Field({name: None}, context))

    assert context.errors == []


@pytest.mark.parametrize(
    ("kubelet", "expressions"),
    [
        ({"maxPods": "vcpus * 10"}, {"maxPods": "vcpus * 10"}),
        ({"maxPods": "110"}, {"maxPods": "110"}),
        (
            {
                "kubeReserved": {"memory": "memory_mib * 5 / 100", "cpu": "100m"},
                "systemReserved": {"pid": "vcpus > 4 ? 2000 : 1000"},
            },
            {"kubeReserved.memory": "memory_mib * 5 / 100", "systemReserved.pid": "vcpus > 4 ? 2000 : 1000"},
        ),
        ({"maxPods": 30, "kubeReserved": {"cpu": "1e3", "memory": "1.5Gi", "pid": 1000}}, {}),
        ({"evictionHard": {"memory.available": "5%"}}, {}),
    ],
)
def test_text_that_is_no_amount_is_an_expression(
    kubelet: dict[str, Any], expressions: dict[str, str]
) -> None:
    context = DecodeContext()

    decoded = decode_kubelet(Field(kubelet, context))

    assert context.errors == []
    assert decoded.expressions == expressions
    assert decode_kubelet(Field(encode_kubelet(decoded), DecodeContext())) == decoded


@pytest.mark.parametrize(
    ("kubelet", "message"),
    [
        ({"kubeReserved": {"memory": "1Gb"}}, "did you mean '1Gi'?"),
        ({"kubeReserved": {"cpu": "-1"}}, "is negative"),
        ({"kubeReserved": {"cpu": "-vcpus"}}, "is not a quantity"),
        ({"kubeReserved": {"cpu": "vcpu * 10"}}, "undeclared reference to 'vcpu'"),
        ({"kubeReserved": {"gpu": "vcpus * 10"}}, "'gpu' cannot be reserved"),
        ({"maxPods": ""}, "Syntax error"),
        ({"evictionHard": {"memory.available": "memory_mib / 10"}}, "neither a quantity nor a percentage"),
        ({"podsPerCore": "vcpus"}, "must be a whole number"),
    ],
)
def test_text_that_is_neither_an_amount_nor_an_expression_is_an_error(
    kubelet: dict[str, Any], message: str
) -> None:
    (error,) = errors(kubelet)

    assert message in error


def test_expressions_in_files_need_the_feature_gate() -> None:
    (error,) = errors({"maxPods": "vcpus * 10"}, kubelet_expressions=False)

    assert error == (
        "spec.kubelet.maxPods: 'vcpus * 10' is an expression, which needs the feature gate NodeClassCEL: "
        "--feature-gates NodeClassCEL=true"
    )
    assert errors({"maxPods": "vcpus * 10"}, kubelet_expressions=False, strict=False) == []


def test_settings_nested_too_deeply_are_an_error_and_no_exception() -> None:
    value: Any = 1
    for _ in range(500):
        value = {"a": [value]}

    assert any("no such field" in error for error in errors({"deep": value}))
