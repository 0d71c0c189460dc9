"""The option ``--discounts``, and what commands say about what it did."""

from typing import TYPE_CHECKING

import msgspec

from dovetail.cli.files import read_bytes
from dovetail.cli.output.plan_report import DiscountsReport
from dovetail.codec.catalog.discounts import read_discounts
from dovetail.model.cloud.discounts import NO_DISCOUNTS, DiscountBook
from dovetail.model.cloud.prices import PriceBook

if TYPE_CHECKING:
    from dovetail.core.scheduling.discounted import Afforded

DISCOUNTS_HELP = "What you pay less: percentages, savings plans, reservations; in YAML."


def discounts_in(file: str | None) -> DiscountBook:
    """Read the discount book, if one is named."""
    return NO_DISCOUNTS if file is None else read_discounts(file, read_bytes(file))


def told_with(prices: PriceBook, book: DiscountBook) -> PriceBook:
    """Return prices that name the discounts when they describe themselves."""
    if not book:
        return prices
    source = f"{prices.source}, after discounts of {book.source}"
    return msgspec.structs.replace(prices, source=source)


def after_discounts(afforded: "Afforded", book: DiscountBook) -> str:
    """Return the end of the sentence about prices."""
    if not book:
        return ""
    return (
        f"; after discounts of {book.source}"
        f" (list price would be ${afforded.list_price:,.4f} per hour)"
    )


def about_commitments(afforded: "Afforded", book: DiscountBook) -> list[str]:
    """Say how much of what is paid anyway is used."""
    if not book.has_commitments:
        return []
    unused = max(0.0, afforded.committed - afforded.used_before - afforded.used)
    return [
        f"${afforded.committed:,.4f} per hour are committed to and paid anyway: nodes that are "
        f"there use ${afforded.used_before:,.4f} of it, new ones ${afforded.used:,.4f}, "
        f"${unused:,.4f} stay unused; new nodes add ${max(0.0, afforded.added):,.4f} per hour"
    ]


def discounts_report(afforded: "Afforded", book: DiscountBook) -> DiscountsReport | None:
    """Return the same as data."""
    if not book:
        return None
    return DiscountsReport(
        source=book.source,
        list_price_per_hour=round(afforded.list_price, 6),
        committed_per_hour=round(afforded.committed, 6),
        committed_used_before=round(afforded.used_before, 6),
        committed_used=round(afforded.used, 6),
    )
