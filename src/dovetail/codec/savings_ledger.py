"""Savings ledger ↔ JSON in the ConfigMap."""

from collections.abc import Iterable
from typing import Any

import msgspec

from dovetail.codec.text.documents import ManifestReader
from dovetail.errors import DovetailError
from dovetail.model.savings import LEDGER_CONFIG_MAP, LEDGER_KEY, VERSION, SavingsLedger


class LedgerError(DovetailError):
    """The ConfigMap of the savings ledger cannot be read."""


def encode_ledger(ledger: SavingsLedger) -> str:
    """Return the ledger as the value in the ConfigMap."""
    return msgspec.json.encode(ledger).decode()


def decode_ledger(config_map: dict[str, Any]) -> SavingsLedger:
    """Return the ledger of a ConfigMap; an empty ConfigMap has an empty one."""
    data = config_map.get("data")
    text = data.get(LEDGER_KEY) if isinstance(data, dict) else None
    if not text:
        return SavingsLedger()
    meta = config_map.get("metadata") or {}
    name = f"{meta.get('namespace', '')}/{meta.get('name', LEDGER_CONFIG_MAP)}"
    try:
        ledger = msgspec.json.decode(text, type=SavingsLedger)
    except (msgspec.DecodeError, TypeError, UnicodeError, RecursionError) as error:
        raise LedgerError(
            f"ConfigMap {name}, {LEDGER_KEY}: {error}; remove the key to start a new ledger"
        ) from error
    if ledger.version != VERSION:
        raise LedgerError(
            f"ConfigMap {name}, {LEDGER_KEY}: version {ledger.version} is not {VERSION}; "
            "use the release that wrote it, or remove the key to start a new ledger"
        )
    return ledger


def find_ledger(files: Iterable[tuple[str, bytes]]) -> SavingsLedger | None:
    """Return the ledger in dumps, given by name and content; None if none has its ConfigMap."""
    for name, data in files:
        if LEDGER_CONFIG_MAP.encode() not in data:
            continue
        for raw in ManifestReader().read_objects(name, data):
            meta = raw.value.get("metadata")
            if raw.value.get("kind") == "ConfigMap" and isinstance(meta, dict):
                if meta.get("name") == LEDGER_CONFIG_MAP:
                    return decode_ledger(raw.value)
    return None
