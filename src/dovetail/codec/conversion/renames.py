"""Labels, annotations and taints by their names of today, in objects of any kind."""

from collections.abc import Iterator
from typing import Any

from dovetail.codec.conversion.converted_object import Raw, Remark
from dovetail.codec.text.field_path import Path
from dovetail.model import labels as keys

OLD_POOL_LABEL = "karpenter.sh/provisioner-name"
OLD_TAINT, NEW_TAINT = "karpenter.sh/disruption", "karpenter.sh/disrupted"
GONE_LABEL = f"{keys.AWS_DOMAIN}/instance-pods"
_KEYS = {
    OLD_POOL_LABEL: keys.NODEPOOL,
    "karpenter.sh/do-not-evict": keys.DO_NOT_DISRUPT,
    "karpenter.sh/do-not-consolidate": keys.DO_NOT_DISRUPT,
}
_NAMING = ("key", "topologyKey")
"""Fields whose value is the key of a label."""


class Renaming:
    """An object with today's names, what was renamed, and what cannot be."""

    def __init__(self, value: Raw) -> None:
        self.remarks: list[Remark] = []
        self.problems: list[Remark] = []
        renamed: Raw = self._walk(value, ())
        self.value = renamed
        """The very object that was given, if nothing in it has another name today."""

    def _walk(self, value: Any, path: Path) -> Any:
        if isinstance(value, dict):
            return self._map(value, path)
        if isinstance(value, list):
            walked = [self._walk(one, (*path, at)) for at, one in enumerate(value)]
            return value if all(map(_same, walked, value)) else walked
        return value

    def _map(self, value: Raw, path: Path) -> Raw:
        if value.get("key") == OLD_TAINT:
            return self._taint(value, path)
        entries = list(self._entries(value, path))
        kept = len(entries) == len(value)
        if kept and all(_same(value.get(key, value), inner) for key, inner in entries):
            return value
        return dict(entries)

    def _entries(self, value: Raw, path: Path) -> Iterator[tuple[str, Any]]:
        for key, inner in value.items():
            if key == GONE_LABEL or (key in _NAMING and inner == GONE_LABEL):
                self.problems.append(((*path, key), _GONE))
            today = _KEYS.get(key, key)
            if today != key and today in value:
                self.remarks.append((path, f"{key} was left out: {today} is there already."))
                continue
            if today != key:
                self.remarks.append(((*path, today), _renamed(key)))
            elif key in _NAMING and isinstance(inner, str) and inner in _KEYS:
                self.remarks.append(((*path, key), _renamed(inner)))
                inner = _KEYS[inner]
            yield today, self._walk(inner, (*path, today))

    def _taint(self, value: Raw, path: Path) -> Raw:
        self.remarks.append(((*path, "key"), f"Was {OLD_TAINT}; today's taint has no value."))
        return {**{key: one for key, one in value.items() if key != "value"}, "key": NEW_TAINT}


_GONE = (
    f"{GONE_LABEL!r} is no label of nodes since v1beta1; leave it out, "
    "or ask for a size, as with 'karpenter.k8s.aws/instance-cpu'"
)


def _renamed(key: str) -> str:
    if _KEYS[key] == keys.DO_NOT_DISRUPT:
        return f"Was {key}; today's holds back every voluntary disruption."
    return f"Was {key}."


def _same(one: Any, other: Any) -> bool:
    return one is other
