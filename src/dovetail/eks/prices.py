"""Prices of control planes, NAT gateways, endpoints and addresses.

US dollars per hour. Only prices that were found for a region are listed here. For the
others the price of us-east-1 is multiplied by the factor of the region's instances,
which the plan marks as an estimate.
"""

from collections.abc import Mapping
from datetime import date
from typing import Final

import msgspec

from dovetail.data.bundled import bundled_prices
from dovetail.model.cloud.prices import USD, RegionEstimate, currency_of

HOURS_PER_MONTH: Final = 730
STANDARD_SUPPORT_USD: Final = 0.10
EXTENDED_SUPPORT_USD: Final = 0.60
PUBLIC_ADDRESS_USD: Final = 0.005
KMS_KEY_MONTHLY_USD: Final = 1.0
"""Of a customer managed key in its first year; each of its first two rotations adds as much."""
_NAT_GATEWAY_USD: Final = {
    "us-east-1": 0.045,
    "us-east-2": 0.045,
    "us-west-2": 0.045,
    "ap-northeast-1": 0.062,
    "ap-south-1": 0.056,
    "ap-southeast-1": 0.059,
    "ca-central-1": 0.05,
    "eu-central-1": 0.052,
    "eu-west-1": 0.048,
    "sa-east-1": 0.093,
}
_INTERFACE_ENDPOINT_USD: Final = {"us-east-1": 0.01, "us-east-2": 0.01, "us-west-2": 0.01, "eu-west-1": 0.011}
"""Per endpoint and zone."""
END_OF_STANDARD_SUPPORT: Final = {
    "1.31": date(2025, 11, 26),
    "1.32": date(2026, 3, 23),
    "1.33": date(2026, 7, 29),
    "1.34": date(2026, 12, 2),
    "1.35": date(2027, 3, 27),
}
"""Version → last day of standard support by EKS's calendar; later ones are not known here."""


class Cost(msgspec.Struct, frozen=True, kw_only=True):
    """Cost of a resource in a month of 730 hours, and what it leaves out or assumes."""

    monthly_usd: float
    note: str = ""


def nat_gateway_cost(region: str) -> Cost:
    """Return the cost of a NAT gateway; data is billed per GB, and is not known."""
    hourly, estimate = _regional(_NAT_GATEWAY_USD, region)
    return Cost(
        monthly_usd=HOURS_PER_MONTH * hourly,
        note=f"NAT gateways: without the data that they process, which is billed per GB{estimate}",
    )


def interface_endpoint_cost(region: str, zones: int) -> Cost:
    """Return the cost of an interface endpoint, which has an interface in every zone."""
    hourly, estimate = _regional(_INTERFACE_ENDPOINT_USD, region)
    return Cost(
        monthly_usd=HOURS_PER_MONTH * hourly * zones,
        note=f"interface endpoints: per zone, without data, which is billed per GB{estimate}",
    )


def control_plane_cost(
    version: str, *, region: str, today: date | None, upgrades_automatically: bool = False
) -> Cost:
    """Return the cost of a control plane: more after the end of standard support.

    ``upgrades_automatically``: EKS upgrades the cluster then, so extended support is
    never billed. Without ``today`` the version counts as being in standard support.
    """
    end = END_OF_STANDARD_SUPPORT.get(version)
    extended = end is not None and today is not None and today > end and not upgrades_automatically
    hourly = EXTENDED_SUPPORT_USD if extended else STANDARD_SUPPORT_USD
    later = f"${HOURS_PER_MONTH * EXTENDED_SUPPORT_USD:,.2f} a month"
    if upgrades_automatically:
        text = "EKS upgrades it at the end of standard support"
        text += f" of {version}, {end}" if end is not None else ""
    elif end is None:
        text = f"standard support of {version}, whose end is not known here; extended support is {later}"
    elif extended:
        text = f"extended support: standard support of {version} ended on {end}; a newer version costs "
        text += f"${HOURS_PER_MONTH * STANDARD_SUPPORT_USD:,.2f}"
    else:
        text = f"standard support of {version} ends on {end}; extended support is {later}"
    if currency_of(region) != USD:
        text += "; assumed as in us-east-1"
    return Cost(monthly_usd=HOURS_PER_MONTH * hourly, note=f"control plane: {text}")


def node_estimate(region: str) -> RegionEstimate | None:
    """Return how costs of nodes are estimated; None if they are listed for the region."""
    prices = bundled_prices()
    if currency_of(region) != USD:
        # All other costs of a plan are in USD.
        return RegionEstimate(region=prices.list_region, factor=1.0, is_assumed=True)
    return prices.region_estimate(region)


def _regional(listed: Mapping[str, float], region: str) -> tuple[float, str]:
    """Return a price in a region, and how it is estimated if it is not listed."""
    if region in listed:
        return listed[region], ""
    estimate = node_estimate(region)
    factor = estimate.factor if estimate is not None else 1.0
    word = "assumed" if estimate is None or estimate.is_assumed else "estimated"
    return listed["us-east-1"] * factor, f"; {word} at {factor:g} × us-east-1"
