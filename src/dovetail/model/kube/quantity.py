"""Kubernetes quantities, parsed to exact numbers and formatted."""

import re
from fractions import Fraction
from math import ceil

_SUFFIXES: dict[str, Fraction] = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 10**3),
    **{letter: Fraction(10 ** (3 * i)) for i, letter in enumerate("kMGTPE", start=1)},
    **{f"{letter}i": Fraction(2 ** (10 * i)) for i, letter in enumerate("KMGTPE", start=1)},
}
_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))"
    r"(?:(?P<suffix>[numkMGTPE]|[KMGTPE]i)|[eE](?P<exponent>[+-]?[0-9]{1,4}))?"
)
_MAX_LENGTH = 100  # characters
_MAX_VALUE = 2**63 - 1
"""Larger values are capped, as the API server does."""


def parse_quantity(text: str | int | float) -> Fraction:
    """Return the exact value of ``text``: "100m", "1.5Gi", "2e3", ".5", 4.

    Raises ``ValueError`` with a message for the user.
    """
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise ValueError(f"{text!r} is not a quantity; write it as in 500m, 2, 1.5Gi")
    spelled = str(text).strip() if isinstance(text, str) else repr(text)
    if len(spelled) > _MAX_LENGTH:
        raise ValueError(f"'{spelled[:20]}…' is not a quantity: it has {len(spelled):,} characters")
    match = _QUANTITY.fullmatch(spelled)
    if match is None:
        raise ValueError(f"{text!r} is not a quantity{_hint(spelled)}")
    number = Fraction(match["number"])
    if match["exponent"] is not None:
        exponent = int(match["exponent"])
        if abs(exponent) > 30:  # Rejected before 10**9999 is computed.
            raise ValueError(f"{text!r} is out of range")
        value = number * Fraction(10) ** exponent
    else:
        value = number * _SUFFIXES[match["suffix"] or ""]
    if abs(value) > _MAX_VALUE:
        return Fraction(_MAX_VALUE if value > 0 else -_MAX_VALUE)
    return value


def _hint(spelled: str) -> str:
    """Return a suggestion for a misspelled suffix."""
    number = re.match(r"[+-]?[0-9.]+\s*", spelled)
    rest = spelled[number.end() :] if number else ""
    guesses = {"kb": "Ki", "mb": "Mi", "gb": "Gi", "tb": "Ti", "k": "k", "mi": "Mi", "gi": "Gi"}
    guess = guesses.get(rest.lower())
    if number and guess:
        return f"; did you mean '{number.group().strip()}{guess}'?"
    return "; write it as in 500m, 2, 1.5Gi"


def parse_amount(resource: str, text: str | int | float) -> int:
    """Return ``text`` as an integer in the unit of ``resource``, rounded up.

    The unit is millicores for CPU and whole units (bytes, devices, pods) for all
    other resources, as in kube-scheduler.
    """
    value = parse_quantity(text)
    amount = ceil(value * 1000) if resource == "cpu" else ceil(value)
    return max(-_MAX_VALUE, min(_MAX_VALUE, amount))


def format_amount(resource: str, amount: int) -> str:
    """Format ``amount`` as a quantity: exact, with the largest suffix that fits."""
    if resource == "cpu":
        return f"{amount // 1000}" if amount % 1000 == 0 else f"{amount}m"
    if resource == "memory" or resource == "ephemeral-storage" or resource.startswith("hugepages-"):
        for letter, shift in (("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)):
            if amount and amount % (1 << shift) == 0:
                return f"{amount >> shift}{letter}"
    return str(amount)
