"""Log lines of the controllers and their two formats, JSON and text."""

from datetime import datetime
from typing import Any, Final

import msgspec

_OBJECT_FIELDS: Final = {"nodeclaim": "NodeClaim", "node": "Node", "nodepool": "NodePool"}
"""Fields that name an object → the key that Karpenter's log uses for them."""


class LogLine(msgspec.Struct, frozen=True):
    """One line of the controllers' log."""

    at: datetime
    level: str
    message: str
    fields: dict[str, Any]

    def as_json(self) -> str:
        """Encode the line in the JSON format of Karpenter's log."""
        record: dict[str, Any] = {
            "level": self.level,
            "time": f"{self.at:%Y-%m-%dT%H:%M:%S}.{self.at.microsecond // 1000:03d}Z",
            "logger": "controller",
            "message": self.message,
        }
        for name, value in self.fields.items():
            if value in (None, ""):
                continue
            if name in _OBJECT_FIELDS:
                record[_OBJECT_FIELDS[name]] = {"name": value}
            else:
                record[name.replace("_", "-")] = value
        return msgspec.json.encode(record, enc_hook=str).decode()

    def as_text(self) -> str:
        """Encode the line as readable text: time, level, message, ``key=value`` pairs."""
        pairs = [
            f"{name.replace('_', '-')}={_format_value(value)}"
            for name, value in self.fields.items()
            if value not in (None, "")
        ]
        return "  ".join([f"{self.at:%H:%M:%S} {self.level:5} {self.message}", *pairs])


def _format_value(value: Any) -> str:
    """Return a string without spaces or quotes unchanged, any other value as JSON."""
    if isinstance(value, str) and value.isprintable() and not set(value) & set(' "='):
        return value
    return msgspec.json.encode(value, enc_hook=str).decode()
