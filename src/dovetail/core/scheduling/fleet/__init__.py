"""The cheapest fleet for pods without ties to each other; plain arrays in and out."""

from dovetail.core.scheduling.fleet.demand import Bundle, Demand
from dovetail.core.scheduling.fleet.search import cheapest_fleet

__all__ = ["Bundle", "Demand", "cheapest_fleet"]
