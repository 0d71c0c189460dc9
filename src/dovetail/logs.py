"""Lines of the log, and how they are written."""

from datetime import datetime
from typing import Any, Final

import msgspec

_OBJECTS: Final = {"nodeclaim": "NodeClaim", "node": "Node", "nodepool": "NodePool"}
"""Fields that name an object, and how Karpenter's log writes them."""


class Line(msgspec.Struct, frozen=True):
    """One line of the controllers' log."""

    at: datetime
    level: str
    message: str
    fields: dict[str, Any]

    def as_json(self) -> str:
        """Write it the way operators know Karpenter's log."""
        told: dict[str, Any] = {
            "level": self.level,
            "time": f"{self.at:%Y-%m-%dT%H:%M:%S}.{self.at.microsecond // 1000:03d}Z",
            "logger": "controller",
            "message": self.message,
        }
        for name, value in self.fields.items():
            if value in (None, ""):
                continue
            if name in _OBJECTS:
                told[_OBJECTS[name]] = {"name": value}
            else:
                told[name.replace("_", "-")] = value
        return msgspec.json.encode(told, enc_hook=str).decode()

    def as_text(self) -> str:
        """Write it for people who sit in front of it; a line all the same."""
        told = [
            f"{name.replace('_', '-')}={_in_short(value)}"
            for name, value in self.fields.items()
            if value not in (None, "")
        ]
        return "  ".join([f"{self.at:%H:%M:%S} {self.level:5} {self.message}", *told])


def _in_short(value: Any) -> str:
    """Return text that has no spaces as it is, all else as JSON."""
    if isinstance(value, str) and value.isprintable() and not set(value) & set(' "='):
        return value
    return msgspec.json.encode(value, enc_hook=str).decode()
