"""Report of a migration check: items by area, unknown facts, and commands."""

from enum import StrEnum

import msgspec

from dovetail.doctor.finding import Missing


class Level(StrEnum):
    """Effect of an item on the migration, worst last."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing; nothing to do."""
    WARNING = "warning"
    """The migration works, but something changes or needs a decision."""
    BLOCKER = "blocker"
    """The migration would fail, or replace nodes."""


class Area(StrEnum):
    """Areas of the report, in its order."""

    KARPENTER = "Karpenter"
    SETTINGS = "Settings"
    PERMISSIONS = "AWS permissions"
    CRDS = "CustomResourceDefinitions"
    OBJECTS = "NodePools and node classes"
    CLAIMS = "NodeClaims and nodes"
    DRIFT = "Hashes and drift"
    LEASES = "Lease and webhooks"
    DIFFERENCES = "What changes for this cluster"


class Item(msgspec.Struct, frozen=True, kw_only=True):
    """One observation. Field names are part of the JSON output."""

    area: Area
    level: Level
    about: str
    """The object or setting."""
    text: str
    fix: str = ""
    """A command to copy; empty if there is nothing to do."""


class Step(msgspec.Struct, frozen=True):
    """Commands of one step of the migration."""

    title: str
    commands: tuple[str, ...]


class MigrationReport(msgspec.Struct, frozen=True, kw_only=True):
    """Result of ``dovetail migrate check``."""

    karpenter: str
    """Version; empty if unknown."""
    dovetail: str
    level: Level
    """The worst of all items."""
    items: tuple[Item, ...]
    unknown: tuple[Missing, ...]
    """Facts that could not be read: nothing is known about them."""
    take_over: tuple[Step, ...]
    hand_back: tuple[Step, ...]
