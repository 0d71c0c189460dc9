"""The option ``--discounts`` and its output."""

from typing import TYPE_CHECKING

import msgspec

from dovetail.cli.files import read_bytes
from dovetail.cli.output.plan_report import DiscountsReport
from dovetail.codec.catalog.discounts import read_discounts
from dovetail.model.cloud.discounts import NO_DISCOUNTS, DiscountBook
from dovetail.model.cloud.prices import PriceBook

if TYPE_CHECKING:
    from dovetail.core.scheduling.discounted import BilledPlan

DISCOUNTS_HELP = "Discounts file in YAML: percentages, Savings Plans, reservations."


def discounts_in(file: str | None) -> DiscountBook:
    """Return the discounts of a file, else none."""
    return NO_DISCOUNTS if file is None else read_discounts(file, read_bytes(file))


def with_discount_source(prices: PriceBook, book: DiscountBook) -> PriceBook:
    """Return prices whose source names the discounts file."""
    if not book:
        return prices
    source = f"{prices.source}, after discounts of {book.source}"
    return msgspec.structs.replace(prices, source=source)


def after_discounts(afforded: "BilledPlan", book: DiscountBook) -> str:
    """Return the text about discounts for the price line."""
    if not book:
        return ""
    return f"; after discounts of {book.source} (list price would be ${afforded.list_price:,.4f} per hour)"


def about_commitments(afforded: "BilledPlan", book: DiscountBook) -> list[str]:
    """Return a note on the use of commitments."""
    if not book.has_commitments:
        return []
    unused = max(0.0, afforded.committed_cost - afforded.used_by_existing - afforded.used_by_new)
    return [
        f"${afforded.committed_cost:,.4f} per hour are committed: existing nodes use "
        f"${afforded.used_by_existing:,.4f}, new ones ${afforded.used_by_new:,.4f}, "
        f"${unused:,.4f} are unused; new nodes add ${max(0.0, afforded.added_cost):,.4f} per hour"
    ]


def discounts_report(afforded: "BilledPlan", book: DiscountBook) -> DiscountsReport | None:
    """Return the discounts of a plan as data."""
    if not book:
        return None
    return DiscountsReport(
        source=book.source,
        list_price_per_hour=round(afforded.list_price, 6),
        committed_per_hour=round(afforded.committed_cost, 6),
        committed_used_before=round(afforded.used_by_existing, 6),
        committed_used=round(afforded.used_by_new, 6),
    )
