"""Readiness of a cluster for the change from Karpenter to Dovetail, and back.

``sources`` reads facts once, then pure checks turn them into the items of a report.
"""

from dovetail.migration.checks.registry import check_migration
from dovetail.migration.report import Item, Level, MigrationReport

__all__ = ["Item", "Level", "MigrationReport", "check_migration"]
