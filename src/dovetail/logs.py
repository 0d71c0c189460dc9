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
