"""Carrying a change of the model over to a document that knows more."""

from typing import Any


def carry_over(raw: Any, before: Any, after: Any) -> Any:
    """Return ``raw`` with the difference between ``before`` and ``after`` made to it.

    ``before`` and ``after`` are what the model would write. Whatever they agree
    on keeps the user's own spelling; whatever neither knows stays. Of a list,
    entries that were there before keep what only the document knows of them.
    """
    if before == after:
        return raw
    if isinstance(after, dict):
        return _carry_map(raw, before if isinstance(before, dict) else {}, after)
    if isinstance(after, list) and isinstance(before, list) and isinstance(raw, list):
        return _carry_list(raw, before, after)
    return after


def _carry_map(raw: Any, before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    changed = dict(raw) if isinstance(raw, dict) else {}
    for key in before.keys() - after.keys():
        changed.pop(key, None)
    for key, value in after.items():
        if key not in before or before[key] != value:
            changed[key] = carry_over(changed.get(key), before.get(key), value)
    return changed


def _carry_list(raw: list[Any], before: list[Any], after: list[Any]) -> list[Any]:
    if len(raw) != len(before):
        return after
    if len(before) == len(after):
        return [carry_over(*three) for three in zip(raw, before, after, strict=True)]
    left = list(zip(before, raw, strict=True))
    changed = []
    for value in after:
        for number, (old, own) in enumerate(left):
            if old == value:
                changed.append(own)
                del left[number]
                break
        else:
            changed.append(value)
    return changed
