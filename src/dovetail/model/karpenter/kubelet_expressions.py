"""Expressions in kubelet settings, which are evaluated for each instance type.

The language is CEL, with the variables of ``InstanceTypeVariables`` and the functions
``max`` and ``min`` of two numbers, as in Karpenter (feature gate ``NodeClassCEL``). The
library, Google's own implementation, checks types before anything is evaluated. It is
imported with the first expression.
"""

import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from dovetail.errors import DovetailError
from dovetail.model.kube.resources import CPU, EPHEMERAL_STORAGE, MEMORY

if TYPE_CHECKING:
    from cel_expr_python import cel

MAX_LENGTH: Final = 2048
"""Characters of an expression. One takes less than a millisecond per instance type."""
MAX_PODS: Final = (1 << 31) - 1
_MAX_AMOUNT: Final = (1 << 63) - 1
_LOOPS: Final = re.compile(r"\b(all|exists|exists_one|existsOne|map|filter)\b")
"""Macros that repeat an expression: nested, they would take minutes."""
_ERROR: Final = re.compile(r"ERROR: <input>:(-?[0-9]+):(-?[0-9]+): (.*)")
_UNITS: Final = {
    # Resource → amount of one unit, and the multiple of units that results are rounded up to.
    CPU: (1, 10),  # millicores
    MEMORY: (1 << 20, 16),  # MiB
    EPHEMERAL_STORAGE: (1 << 30, 1),  # GiB
}


class ExpressionError(DovetailError):
    """An expression is invalid, or has no usable value for an instance type."""


class InstanceTypeVariables(msgspec.Struct, frozen=True, kw_only=True):
    """Variables of an expression."""

    vcpus: int
    memory_mib: int
    default_enis: int
    """Network interfaces of the default network card."""
    ips_per_eni: int
    max_pods: int
    """In ``maxPods`` the default; in reservations the limit of the node."""
    instance_type: str


def check_expression(text: str) -> None:
    """Raise ``ExpressionError`` if an expression is not valid for every instance type."""
    _compile(text)


def evaluate_max_pods(text: str, variables: InstanceTypeVariables) -> int:
    """Return the value of ``maxPods``; raises ``ExpressionError``."""
    pods = _evaluate(text, variables)
    if not 0 <= pods <= MAX_PODS:
        raise ExpressionError(f"is {pods} for {variables.instance_type}, but must be 0 to {MAX_PODS}")
    return pods


def evaluate_reservation(resource: str, text: str, variables: InstanceTypeVariables) -> int:
    """Return a reserved amount, as in ``Resources``; raises ``ExpressionError``.

    Expressions give millicores, MiB and GiB. Amounts are rounded up, to 10 millicores
    and 16 MiB, so that similar instance types share a launch template.
    """
    result = _evaluate(text, variables)
    if result < 0:
        raise ExpressionError(f"is {result} for {variables.instance_type}, but must not be negative")
    unit, multiple = _UNITS.get(resource, (1, 1))
    return min(-(-result // multiple) * multiple * unit, _MAX_AMOUNT)


@lru_cache(maxsize=1 << 16)
def _evaluate(text: str, variables: InstanceTypeVariables) -> int:
    """Return the value of an expression, rounded towards zero."""
    name = variables.instance_type
    try:
        result = _compile(text).eval(data=msgspec.structs.asdict(variables))
        value = result.value()
    except (RuntimeError, TypeError, ValueError) as error:
        raise ExpressionError(f"fails for {name}: {_describe(error)}") from error
    if type(value) not in (int, float):
        # An error is a value in CEL, here with the type ERROR and its message as text.
        raise ExpressionError(f"fails for {name}: {str(value).partition(': ')[2] or value}")
    if not math.isfinite(value) or abs(value) > _MAX_AMOUNT:
        raise ExpressionError(f"is {value} for {name}, which is not a usable number")
    return int(value)


@lru_cache(maxsize=256)
def _compile(text: str) -> "cel.Expression":
    if len(text) > MAX_LENGTH:
        raise ExpressionError(
            f"is an expression of {len(text):,} characters; at most {MAX_LENGTH:,} are allowed"
        )
    loop = _LOOPS.search(text)
    if loop is not None:
        raise ExpressionError(f"is an expression with {loop[0]!r}; macros over lists are not allowed here")
    try:
        expression = _environment().compile(text)
        result = expression.return_type().name()
    except TypeError as error:
        raise ExpressionError(f"{_shorten(text)!a} has characters that are not Unicode") from error
    except (RuntimeError, ValueError) as error:
        raise ExpressionError(f"{_shorten(text)!r} is not a valid expression: {_describe(error)}") from error
    if result not in ("INT", "DOUBLE"):
        raise ExpressionError(f"{_shorten(text)!r} must give an int or a double, not {result.lower()}")
    return expression


@lru_cache(maxsize=1)
def _environment() -> "cel.Env":
    try:
        from cel_expr_python import cel
    except ImportError as error:
        raise ExpressionError("is an expression, which needs the Python package cel-expr-python") from error

    integer, double = cel.Type.INT, cel.Type.DOUBLE
    types = {"int": integer, "double": double}
    functions = [
        cel.FunctionDecl(
            name,
            [
                cel.Overload(
                    f"{name}_{first}_{second}",
                    return_type=integer if first == second == "int" else double,
                    parameters=[types[first], types[second]],
                    is_member=False,
                    impl=choose if first == second else lambda a, b, choose=choose: float(choose(a, b)),
                )
                for first in types
                for second in types
            ],
        )
        for name, choose in (("max", _larger), ("min", _smaller))
    ]
    variables = {
        field: cel.Type.STRING if field == "instance_type" else integer
        for field in InstanceTypeVariables.__struct_fields__
    }
    return cel.NewEnv(variables=variables, functions=functions)


def _larger(first: float, second: float) -> float:
    """Return the larger number; the second if one is not a number, unlike ``max``."""
    return first if first > second else second


def _smaller(first: float, second: float) -> float:
    return first if first < second else second


def _describe(error: Exception) -> str:
    """Return the first error of a report of the library, in one line."""
    text = str(error)
    match = _ERROR.search(text)
    if match is None:
        return _shorten(text.partition("\n")[0])
    message = match[3].partition(" expecting ")[0].removesuffix(" (in container '')")
    if "(int, double)" in message or "(double, int)" in message:
        message += "; write double(…) around the integer"
    return f"column {match[2]}: {message}" if int(match[2]) > 0 else message


def _shorten(text: str) -> str:
    return text if len(text) <= 80 else text[:77] + "..."
