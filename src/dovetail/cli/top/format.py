"""Amounts, ages and bars as text."""

from datetime import datetime
from typing import Final

from rich.text import Text

from dovetail.view.document import Usage

_GIB: Final = 1024**3
_MIB: Final = 1024**2
_FULL, _HALF, _EMPTY = "━", "╸", "─"
"""Lines, which leave a space between rows; thick and thin also differ without colour."""
_HIGH, _MEDIUM = 0.8, 0.4
"""Shares of a well used and of a half empty node."""


def format_price(price: float | None) -> str:
    """Return a price per hour in at most seven characters below 10,000."""
    if price is None:
        return "-"
    return f"{price:,.4f}" if abs(price) < 10 else f"{price:,.2f}"


def format_cpu(millicores: int) -> str:
    """Return CPUs, without needless decimals."""
    return f"{millicores / 1000:,.2f}".rstrip("0").rstrip(".")


def format_memory(amount: int) -> str:
    """Return GiB, or MiB below one GiB."""
    if 0 < amount < _GIB:
        return f"{amount / _MIB:,.0f} MiB"
    return f"{amount / _GIB:,.1f}".removesuffix(".0") + " GiB"


def format_age(since: datetime | None, now: datetime) -> str:
    """Return an age in at most four characters, as kubectl does."""
    if since is None:
        return "-"
    seconds = max(0, int((now - since).total_seconds()))
    for unit, size, limit in (("s", 1, 120), ("m", 60, 7200), ("h", 3600, 172_800)):
        if seconds < limit:
            return f"{seconds // size}{unit}"
    days = seconds // 86_400
    return f"{days}d" if days < 1000 else f"{days // 365}y"


def count(number: int, noun: str) -> str:
    """Return a number with its noun, in the singular or plural."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def get_share(usage: Usage) -> float:
    """Return requested / allocatable; 0 without allocatable."""
    return usage.requested / usage.allocatable if usage.allocatable else 0.0


def draw_bar(share: float, width: int, *, ascii_only: bool = False) -> Text:
    """Return a bar of fixed width."""
    filled = max(0.0, min(1.0, share)) * width
    if ascii_only:
        return Text("#" * round(filled) + "." * (width - round(filled)))
    halves = round(filled * 2)
    bar = _FULL * (halves // 2) + _HALF * (halves % 2)
    style = "green" if share >= _HIGH else "yellow" if share >= _MEDIUM else "red"
    return Text.assemble((bar, style), (_EMPTY * (width - len(bar)), "dim"))


def format_usage(usage: Usage, width: int, *, ascii_only: bool = False) -> Text:
    """Return a bar and a percentage in ``width`` characters."""
    share = get_share(usage)
    percent = f"{share:.0%}" if usage.allocatable else "-"
    if width < 8:
        return Text(percent.rjust(width))
    bar = draw_bar(share, width - 5, ascii_only=ascii_only)
    return Text.assemble(bar, percent.rjust(5))


def shorten_node(name: str) -> str:
    """Return a node's name without its domain."""
    return name.partition(".")[0]
