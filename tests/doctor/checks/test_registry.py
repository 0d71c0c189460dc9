"""All checks: a healthy cluster, incomplete objects, and the guide."""

import re
from collections.abc import Iterator, Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dovetail.doctor.checks.registry import CHECKS
from dovetail.doctor.facts import Facts
from dovetail.doctor.run import run_checks
from tests.doctor.sources.test_read_only_client import AWS_CALLS

FieldPath = tuple[str | int, ...]
GUIDE = (Path(__file__).parents[3] / "docs/guides/doctor.md").read_text(encoding="utf-8")


def test_healthy_cluster_has_no_findings_and_every_check_runs(healthy: Facts) -> None:
    report = run_checks(healthy)

    assert report.findings == ()
    assert report.skipped == ()
    assert len(report.checked) == len(CHECKS)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_check_fails_on_incomplete_objects(healthy: Facts, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([resource for resource, objects in healthy.objects.items() if objects]))
    objects = [_plain(obj) for obj in healthy.objects[kind]]
    obj = objects[data.draw(st.integers(0, len(objects) - 1))]
    _drop(obj, data.draw(st.sampled_from(sorted(_paths(obj), key=str))))

    broken = msgspec.structs.replace(healthy, objects={**healthy.objects, kind: tuple(objects)})

    report = run_checks(broken)
    assert len(report.checked) + len(report.skipped) == len(CHECKS)


@given(st.data())
def test_checks_do_not_change_facts(healthy: Facts, data: st.DataObject) -> None:
    check = data.draw(st.sampled_from(CHECKS))
    before = deepcopy({kind: [_plain(obj) for obj in objects] for kind, objects in healthy.objects.items()})

    list(check.findings(healthy))

    assert before == {kind: [_plain(obj) for obj in objects] for kind, objects in healthy.objects.items()}


def test_guide_lists_every_check_in_order() -> None:
    rows = [line for line in GUIDE.splitlines() if re.match(r"\| [A-Z]\d+ \|", line)]

    assert rows == [
        f"| {check.code} | {check.title} | {check.severity} | {check.detection} | {check.remedy} |"
        for check in CHECKS
    ]


def test_guide_lists_every_aws_call() -> None:
    named = set(re.findall(r"`[a-z0-9]+:(\w+)`", GUIDE))

    assert named == AWS_CALLS


def test_codes_are_unique_and_no_text_is_empty() -> None:
    codes = [check.code for check in CHECKS]

    assert len(set(codes)) == len(codes) == 65
    assert all(check.detection and check.remedy and check.title for check in CHECKS)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _paths(value: Any, path: FieldPath = ()) -> Iterator[FieldPath]:
    """Yield the paths of fields that can be absent; every object has a name."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if (*path, key) not in (("metadata",), ("metadata", "name")):
                yield (*path, key)
            # No check reads single fields of a schema, and there are thousands.
            if key != "openAPIV3Schema":
                yield from _paths(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _paths(inner, (*path, number))


def _drop(value: Any, path: FieldPath) -> None:
    for step in path[:-1]:
        value = value[step]
    del value[path[-1]]
