"""What holds for every cluster, however odd its objects."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dovetail.doctor.check import examined
from dovetail.doctor.checks.registry import CHECKS
from dovetail.doctor.facts import Facts

Path = tuple[str | int, ...]


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_check_fails_on_objects_that_lack_something(healthy: Facts, data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from([one for one, ones in healthy.objects.items() if ones]))
    objects = [_plain(one) for one in healthy.objects[kind]]
    at = data.draw(st.integers(0, len(objects) - 1))
    path = data.draw(st.sampled_from(sorted(_paths(objects[at]), key=str)))
    _drop(objects[at], path)

    broken = msgspec.structs.replace(healthy, objects={**healthy.objects, kind: tuple(objects)})

    report = examined(broken, CHECKS)
    assert len(report.checked) + len(report.skipped) == len(CHECKS)


@given(st.data())
def test_looking_changes_no_facts(healthy: Facts, data: st.DataObject) -> None:
    check = data.draw(st.sampled_from(CHECKS))
    before = deepcopy(
        {kind: [_plain(one) for one in ones] for kind, ones in healthy.objects.items()}
    )

    list(check.look(healthy))

    assert before == {kind: [_plain(one) for one in ones] for kind, ones in healthy.objects.items()}


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Hand out where something can be left out; a name every object has."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if (*path, key) not in (("metadata",), ("metadata", "name")):
                yield (*path, key)
            # A schema is thousands of fields that nobody looks at one by one.
            if key != "openAPIV3Schema":
                yield from _paths(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from _paths(inner, (*path, number))


def _drop(value: Any, path: Path) -> None:
    for step in path[:-1]:
        value = value[step]
    del value[path[-1]]
