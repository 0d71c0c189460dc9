"""Differences between the facts of two sides, and the table of accepted ones."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, Final

import msgspec

Facts = Mapping[str, Any]
ABSENT: Final = "–"
"""Text of a value that one side does not have."""
_RESULT: Final = "result"
"""Phase of what was made of the answers."""


class Difference(msgspec.Struct, frozen=True, order=True):
    """A field that differs; with an empty path a request, or a result, that one side has."""

    phase: str
    operation: str
    path: str
    karpenter: str
    dovetail: str

    @property
    def where(self) -> str:
        return " ".join(filter(None, (self.phase, self.operation, self.path)))

    def __str__(self) -> str:
        return f"{self.where}: Karpenter {self.karpenter!r}, Dovetail {self.dovetail!r}"


class AcceptedDifference(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the table: for each field, patterns of which one must match; ``*`` is any text."""

    id: str
    where: tuple[str, ...]
    karpenter: tuple[str, ...]
    dovetail: tuple[str, ...]
    cases: tuple[str, ...]

    @property
    def fields(self) -> tuple[tuple[str, ...], ...]:
        return self.where, self.karpenter, self.dovetail, self.cases

    def match(self, case: str, difference: Difference) -> list[str] | None:
        """Return the patterns that match a difference; None if the row does not cover it."""
        texts = (difference.where, difference.karpenter, difference.dovetail, case)
        matched: list[str] = []
        for patterns, text in zip(self.fields, texts, strict=True):
            fitting = [pattern for pattern in patterns if _matches(pattern, text)]
            if not fitting:
                return None
            matched += fitting
        return matched


class AcceptedDifferences:
    """The table; it remembers which patterns of which rows were needed."""

    def __init__(self, rows: Sequence[AcceptedDifference]) -> None:
        self._rows = rows
        self._unused = {(row.id, pattern) for row in rows for field in row.fields for pattern in field}

    def uncovered(self, case: str, differences: Iterable[Difference]) -> list[Difference]:
        """Return the differences that no row covers."""
        return [difference for difference in differences if not self._covers(case, difference)]

    def unused(self) -> list[str]:
        """Return the patterns that no difference needed, each with its row."""
        return sorted(f"{row}: {pattern}" for row, pattern in self._unused)

    def _covers(self, case: str, difference: Difference) -> bool:
        is_covered = False
        for row in self._rows:
            patterns = row.match(case, difference)
            if patterns is not None:
                is_covered = True
                self._unused.difference_update((row.id, pattern) for pattern in patterns)
        return is_covered


def compare(karpenter: Facts, dovetail: Facts) -> list[Difference]:
    """Compare the facts of a case; phases that the recording lacks are not compared."""
    differences: list[Difference] = []
    for phase, requests in karpenter["requests"].items():
        differences += _compare_requests(phase, requests, dovetail["requests"].get(phase, ()))
    for subject in sorted({*karpenter["results"], *dovetail["results"]}):
        theirs, ours = (side["results"].get(subject) for side in (karpenter, dovetail))
        if theirs is None or ours is None:
            differences.append(_one_sided(_RESULT, subject, theirs, ours))
        else:
            differences += _compare_fields(_RESULT, subject, _flatten(theirs), _flatten(ours))
    return sorted(set(differences))


def _one_sided(phase: str, operation: str, karpenter: Facts | None, dovetail: Facts | None) -> Difference:
    texts = [ABSENT if side is None else "present" for side in (karpenter, dovetail)]
    return Difference(phase, operation, "", *texts)


def _compare_requests(
    phase: str, karpenter: Sequence[Facts], dovetail: Sequence[Facts]
) -> Iterator[Difference]:
    for operation in sorted({request["operation"] for request in (*karpenter, *dovetail)}):
        left = [request for request in karpenter if request["operation"] == operation]
        right = [request for request in dovetail if request["operation"] == operation]
        for theirs, ours in _pair(phase, left, right):
            if theirs is None or ours is None:
                yield _one_sided(phase, operation, theirs, ours)
            else:
                yield from _compare_pair(phase, theirs, ours)


def _pair(
    phase: str, left: Sequence[Facts], right: Sequence[Facts]
) -> Iterator[tuple[Facts | None, Facts | None]]:
    """Pair requests so that those with the fewest differences are together."""
    free_left, free_right = dict(enumerate(left)), dict(enumerate(right))
    for i, theirs in enumerate(left):
        same = next((j for j, ours in free_right.items() if ours == theirs), None)
        if same is not None:
            yield free_left.pop(i), free_right.pop(same)
    costs = sorted(
        (len(_compare_pair(phase, theirs, ours)), i, j)
        for (i, theirs), (j, ours) in product(free_left.items(), free_right.items())
    )
    for _, i, j in costs:
        if i in free_left and j in free_right:
            yield free_left.pop(i), free_right.pop(j)
    yield from ((theirs, None) for theirs in free_left.values())
    yield from ((None, ours) for ours in free_right.values())


def _compare_pair(phase: str, karpenter: Facts, dovetail: Facts) -> list[Difference]:
    operation = karpenter["operation"]
    differences = _compare_fields(phase, operation, _flatten_request(karpenter), _flatten_request(dovetail))
    ours, theirs = _templates_by_override(dovetail), _templates_by_override(karpenter)
    for left, right in {(theirs[override], ours[override]) for override in theirs.keys() & ours}:
        differences += _compare_fields(phase, operation, _flatten_template(left), _flatten_template(right))
    return differences


def _flatten_request(request: Facts) -> dict[str, str]:
    flat = _flatten({key: value for key, value in request["params"].items() if key != "Configs"})
    flat |= {"region": request["region"], "answer": request["answer"]}
    for config in request["params"].get("Configs", ()):
        flat |= _flatten(dict(_overrides(config)), "Overrides")
    return flat


def _templates_by_override(request: Facts) -> dict[str, bytes]:
    """Return override → template, encoded to be compared and cached."""
    return {
        override: encoded
        for config in request["params"].get("Configs", ())
        for template in ({**config["template"], "Version": config["version"]},)
        for encoded in (msgspec.json.encode(template, order="sorted"),)
        for override, _ in _overrides(config)
    }


def _overrides(config: Facts) -> Iterator[tuple[str, Facts]]:
    """Return ``type/zone``, or ``type/subnet`` without a zone, and the fields of each override."""
    for group in config["overrides"]:
        for name, priority in group["types"].items():
            place = group.get("AvailabilityZone") or group["SubnetId"]
            fields = {key: value for key, value in group.items() if key != "types"}
            yield f"{name}/{place}", fields | ({} if priority is None else {"Priority": priority})


@lru_cache(maxsize=1024)
def _flatten_template(encoded: bytes) -> Mapping[str, str]:
    return _flatten(msgspec.json.decode(encoded), "Template")


def _compare_fields(
    phase: str, operation: str, karpenter: Mapping[str, str], dovetail: Mapping[str, str]
) -> list[Difference]:
    return [
        Difference(phase, operation, path, karpenter.get(path, ABSENT), dovetail.get(path, ABSENT))
        for path in {**karpenter, **dovetail}
        if karpenter.get(path) != dovetail.get(path)
    ]


def _flatten(value: Any, path: str = "") -> dict[str, str]:
    """Return path → value as text. An entry of a list of scalars is part of the path."""
    if isinstance(value, Mapping):
        entries = [_flatten(entry, f"{path}.{key}" if path else key) for key, entry in value.items()]
        return {key: text for entry in entries for key, text in entry.items()} or {path: "{}"}
    if not isinstance(value, list | tuple):
        return {path: value if isinstance(value, str) and value else msgspec.json.encode(value).decode()}
    flat: dict[str, str] = {}
    for number, entry in enumerate(value):
        if isinstance(entry, Mapping):
            flat |= _flatten(entry, f"{path}[{number}]")
        else:
            same = value[:number].count(entry)
            flat[f"{path}[{entry}]" + (f"#{same + 1}" if same else "")] = "listed"
    return flat


def _matches(pattern: str, text: str) -> bool:
    return _regex(pattern).fullmatch(text) is not None


@lru_cache(maxsize=4096)
def _regex(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(re.escape(part) for part in pattern.split("*")), re.DOTALL)
