"""The list of metrics is the truth: the code tells those, with those labels, and no others."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import dovetail
from dovetail.observability.metric_definitions import METRICS, Kind

_SOURCE = Path(dovetail.__file__).parent
_KINDS = {"count": Kind.COUNTER, "observe": Kind.HISTOGRAM, "gauge": Kind.GAUGE}


class Told:
    """One place in the code that tells a metric."""

    def __init__(self, call: ast.Call, kind: Kind, file: Path) -> None:
        self.where = f"{file.relative_to(_SOURCE)}:{call.lineno}"
        self.kind = kind
        self.name = _pattern(call.args[0]) if call.args else None
        self.labels = {one.arg for one in call.keywords if one.arg}
        self.has_all = all(one.arg for one in call.keywords)
        """False: some labels come from a dictionary."""


def _pattern(name: ast.expr) -> re.Pattern[str] | None:
    """Return what the name can be; None when it comes in a variable."""
    if isinstance(name, ast.Constant):
        return re.compile(re.escape(str(name.value)))
    if isinstance(name, ast.JoinedStr):
        parts = (
            re.escape(str(one.value)) if isinstance(one, ast.Constant) else "[a-z_]+"
            for one in name.values
        )
        return re.compile("".join(parts))
    return None


def told_in_the_code() -> Iterator[Told]:
    for file in sorted(_SOURCE.rglob("*.py")):
        for call in ast.walk(ast.parse(file.read_text())):
            if (
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Attribute)
                and call.func.attr in _KINDS
                and ast.unparse(call.func.value).endswith("metrics")
            ):
                yield Told(call, _KINDS[call.func.attr], file)


def names_in_the_code() -> str:
    return "\n".join(
        file.read_text()
        for file in sorted(_SOURCE.rglob("*.py"))
        if file.name != "metric_definitions.py"
    )


def test_whatever_the_code_tells_is_in_the_list_with_its_labels() -> None:
    strangers = []
    for one in told_in_the_code():
        if one.name is None:
            continue
        fits = [
            metric
            for metric in METRICS
            if one.name.fullmatch(metric.name)
            and metric.kind is one.kind
            and (
                one.labels == set(metric.labels) if one.has_all else one.labels <= {*metric.labels}
            )
        ]
        if not fits:
            strangers.append((one.where, one.name.pattern, sorted(one.labels)))

    assert strangers == []


def test_whatever_is_in_the_list_is_told_somewhere() -> None:
    source = names_in_the_code()
    patterns = [one.name for one in told_in_the_code() if one.name is not None]

    silent = [
        metric.name
        for metric in METRICS
        if f'"{metric.name}"' not in source
        and not any(one.fullmatch(metric.name) for one in patterns)
    ]

    assert silent == []
