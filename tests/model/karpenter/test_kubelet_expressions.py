"""Expressions in kubelet settings: values, units, errors and limits."""

import subprocess
import sys
import time
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dovetail.model.karpenter.kubelet_expressions import (
    MAX_LENGTH,
    ExpressionError,
    InstanceTypeVariables,
    check_expression,
    evaluate_max_pods,
    evaluate_reservation,
)

MIB, GIB = 1 << 20, 1 << 30
M5_4XLARGE = InstanceTypeVariables(
    vcpus=16, memory_mib=65536, default_enis=8, ips_per_eni=30, max_pods=234, instance_type="m5.4xlarge"
)


@pytest.mark.parametrize(
    ("expression", "pods"),
    [
        ("110", 110),
        ("((default_enis - 1) * (ips_per_eni - 1)) + 2", 205),
        ("min(250, ((default_enis - 1) * (ips_per_eni - 1)) * 16 + 2)", 250),
        ("max_pods", 234),
        ("vcpus / 3", 5),
        ("double(vcpus) * 1.45", 23),
        ("max(20, 20.9)", 20),
        ("min(vcpus, 2.5)", 2),
        ("max(0.0 / 0.0, 7)", 7),
        ("instance_type.startsWith('m5.') ? 50 : 10", 50),
        ("instance_type in ['m5.large', 'm5.4xlarge'] ? 30 : 20", 30),
        ("{'m5.large': 20, 'm5.4xlarge': 40}[instance_type]", 40),
        ("vcpus > 8 && memory_mib >= 65536 ? 0x40 : 32", 64),
        ("2 +\n vcpus // per CPU one", 18),
    ],
)
def test_an_expression_has_the_value_that_cel_gives_it(expression: str, pods: int) -> None:
    assert evaluate_max_pods(expression, M5_4XLARGE) == pods


@pytest.mark.parametrize(
    ("resource", "expression", "amount"),
    [
        ("cpu", "max(60, vcpus * 30)", 480),
        ("cpu", "71", 80),
        ("cpu", "0", 0),
        ("memory", "memory_mib / 64", 1024 * MIB),
        ("memory", "11 * max_pods + 255", 2832 * MIB),
        ("memory", "1", 16 * MIB),
        ("ephemeral-storage", "3", 3 * GIB),
        ("pid", "4097", 4097),
    ],
)
def test_a_reservation_is_rounded_up_in_the_unit_of_its_resource(
    resource: str, expression: str, amount: int
) -> None:
    assert evaluate_reservation(resource, expression, M5_4XLARGE) == amount


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("1 +", "Syntax error"),
        ("", "Syntax error"),
        ("vcpu * 2", "column 1: undeclared reference to 'vcpu'"),
        ("vcpus * 1.5", "write double(…) around the integer"),
        ("instance_type == 'm5.large' ? 1 : vcpus * 1.5", "write double(…) around the integer"),
        ("'20'", "must give an int or a double, not string"),
        ("vcpus > 2", "must give an int or a double, not bool"),
        ("10u", "must give an int or a double, not uint"),
        ("max(1, 2, 3)", "undeclared reference to 'max'"),
        ("[1, 2].map(x, x)[0]", "macros over lists are not allowed"),
        ("9223372036854775808", "invalid int literal"),
        ("'\ud800' == '' ? 1 : 2", "not Unicode"),
        ("(" * 500 + "1" + ")" * 500, "recursion limit exceeded"),
        ("1" * (MAX_LENGTH + 1), "at most 2,048 are allowed"),
    ],
)
def test_an_invalid_expression_is_rejected_before_it_is_evaluated(expression: str, message: str) -> None:
    with pytest.raises(ExpressionError) as raised:
        check_expression(expression)

    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("1 / (vcpus - 16)", "fails for m5.4xlarge: divide by zero"),
        ("vcpus - 17", "is -1 for m5.4xlarge"),
        ("memory_mib * memory_mib * memory_mib * memory_mib", "fails for m5.4xlarge: integer overflow"),
        ("1.0 / 0.0", "is inf for m5.4xlarge"),
        ("0.0 / 0.0", "is nan for m5.4xlarge"),
        ("1e30", "is 1e+30 for m5.4xlarge"),
        ("3000000000", "but must be 0 to 2147483647"),
        ("{'m5.large': 20}[instance_type]", "Key not found in map"),
        ("int('x')", "fails for m5.4xlarge"),
    ],
)
def test_a_value_that_no_kubelet_accepts_is_an_error(expression: str, message: str) -> None:
    check_expression(expression)

    with pytest.raises(ExpressionError) as raised:
        evaluate_max_pods(expression, M5_4XLARGE)

    assert message in str(raised.value)


@given(
    st.text(max_size=40)
    | st.lists(st.sampled_from(["vcpus", "max(", "min(", "1", "2.5", "'a'", *"+-*/()?:,"]), max_size=12).map(
        " ".join
    )
)
def test_any_text_is_a_number_or_an_error(text: str) -> None:
    with suppress(ExpressionError):
        assert evaluate_reservation("cpu", text, M5_4XLARGE) >= 0


@pytest.mark.parametrize(
    "expression",
    [
        "size([" + "1," * 1000 + "1])",
        "'" + "x" * 1500 + "'.matches('(x|y)*(x|z)*$') ? 1 : 2",
        " || ".join(f"instance_type == 'm{number}.large'" for number in range(60)) + " ? 1 : 2",
    ],
)
def test_the_most_expensive_expression_takes_milliseconds(expression: str) -> None:
    assert len(expression) <= MAX_LENGTH
    check_expression(expression)

    start = time.process_time()
    for number in range(20):
        evaluate_max_pods(expression, msgspec.structs.replace(M5_4XLARGE, vcpus=number))
    assert (time.process_time() - start) / 20 < 0.02


def test_the_library_is_loaded_with_the_first_expression_only() -> None:
    code = (
        "import sys, dovetail.cli.main, dovetail.cli.simulate.command, dovetail.simulate;"
        "assert 'cel_expr_python.cel' not in sys.modules;"
        "from dovetail.model.karpenter.kubelet_expressions import check_expression;"
        "check_expression('1');"
        "assert 'cel_expr_python.cel' in sys.modules"
    )

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
