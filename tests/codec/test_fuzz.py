"""Decoders of objects, files and messages never fail, whatever they get.

The corpus are objects of a simulated cluster, of the examples and of the guides; some of
their values are replaced by junk, removed or doubled.
"""

import gc
import json
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dovetail.codec.fields import DecodeContext, Field
from dovetail.codec.inputs.cluster_inputs import read_inputs
from dovetail.codec.rewrite.files import convert_files
from dovetail.data.bundled import bundled_scenario, bundled_scenario_names
from dovetail.eks.validation.load import load_config
from dovetail.errors import DovetailError, InvalidInputError
from dovetail.ports.api_resources import Resource, find_resource
from dovetail.simulator.scenario.load import read_scenario
from dovetail.state.cluster.decoders import DECODERS, SharedValues, create_decoder
from tests.codec.crds.extremes import extremes
from tests.support.fuzz.corpus import ROOT, cluster_objects, written_objects
from tests.support.fuzz.mutations import locations, mutated, replaced

FEW = settings(max_examples=40, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=1_500, suppress_health_check=list(HealthCheck))
"""Of the slow tests."""
COPIES = 2_000
"""Entries of a list or map in the smaller of two objects; the larger has eight times as many."""
MIN_SECONDS = 1.0
"""Below this, the time of an object says nothing about growth."""


@cache
def cluster_files() -> list[Any]:
    return [yaml.safe_load(path.read_text()) for path in sorted((ROOT / "examples").glob("*.yaml"))]


@cache
def scenario_files() -> list[Any]:
    return [yaml.safe_load(bundled_scenario(name)) for name in bundled_scenario_names()]


@cache
def watched_objects() -> list[tuple[Resource, dict[str, Any]]]:
    """Objects that the cluster cache decodes."""
    written = [(find_resource(obj.get("apiVersion", ""), obj["kind"]), obj) for obj in written_objects()]
    live = [(resource, obj) for resource, objects in cluster_objects().items() for obj in objects]
    return [(resource, obj) for resource, obj in [*written, *live] if resource in DECODERS]


def decode_watched(resource: Resource, obj: Any) -> None:
    # The API server guarantees metadata, and the store reads its name.
    if isinstance(obj, dict) and isinstance(obj.get("metadata"), dict):
        create_decoder(resource, SharedValues())(obj)


def check_watched(data: st.DataObject) -> None:
    resource, obj = data.draw(st.sampled_from(watched_objects()))
    decode_watched(resource, data.draw(mutated([obj])))


def check_files(data: st.DataObject) -> None:
    documents = [*written_objects(), *(obj for objects in cluster_objects().values() for obj in objects)]
    text = json.dumps(data.draw(mutated(documents))).encode()
    reads: tuple[Callable[[], object], ...] = (
        lambda: read_inputs([("f.yaml", text)]),
        lambda: read_inputs([], [("f.yaml", text)]),
        lambda: convert_files([("f.yaml", text)]),
    )
    for read in reads:
        with suppress(InvalidInputError):
            read()


def check_cluster_files(data: st.DataObject) -> None:
    text = json.dumps(data.draw(mutated(cluster_files()))).encode()
    with suppress(InvalidInputError):
        load_config("cluster.yaml", text)


def check_scenarios(data: st.DataObject) -> None:
    text = json.dumps(data.draw(mutated(scenario_files()))).encode()
    with suppress(DovetailError):
        read_scenario("scenario.yaml", text)


CHECKS = pytest.mark.parametrize(
    "check",
    [check_watched, check_files, check_cluster_files, check_scenarios],
    ids=lambda check: check.__name__,
)


@CHECKS
def test_an_object_with_junk_is_decoded_or_rejected(check: Callable[[st.DataObject], None]) -> None:
    FEW(given(st.data())(check))()


@pytest.mark.slow
@CHECKS
def test_thousands_of_objects_with_junk_are_decoded_or_rejected(
    check: Callable[[st.DataObject], None],
) -> None:
    MANY(given(st.data())(check))()


def test_every_field_of_the_crds_at_its_extremes_is_decoded() -> None:
    for case in extremes():
        resource = find_resource(case.object["apiVersion"], case.object["kind"])
        assert resource is not None
        decode_watched(resource, case.object)
        DECODERS[resource](Field(case.object, DecodeContext(strict=True)))


def grown(obj: Any, at: tuple[Any, ...], value: Any, copies: int) -> Any:
    """An object with many entries in one list or map."""
    if isinstance(value, list):
        return replaced(obj, at, [value[0]] * copies)
    first = next(iter(value.values()))
    return replaced(obj, at, {f"example.com/key-{number}": first for number in range(copies)})


@pytest.mark.slow
@pytest.mark.parametrize("resource", DECODERS, ids=lambda r: r.kind)
def test_the_time_of_decoding_grows_with_the_size_of_a_list_and_not_faster(resource: Resource) -> None:
    objects = [obj for kind, obj in watched_objects() if kind is resource]
    obj = max(objects, key=lambda obj: len(str(obj)))
    collections = [
        (at, value)
        for at in locations(obj)
        if (value := _get(obj, at)) and at and isinstance(value, list | dict)
    ]

    for at, value in collections:
        small, large = (
            _decode_seconds(resource, grown(obj, at, value, copies)) for copies in (COPIES, 8 * COPIES)
        )

        assert large < max(MIN_SECONDS, 24 * small), f"{resource.kind} {at}"


def _decode_seconds(resource: Resource, obj: Any) -> float:
    gc.disable()
    started = time.process_time()
    try:
        decode_watched(resource, obj)
        DECODERS[resource](Field(obj, DecodeContext(strict=True)))
    finally:
        gc.enable()
    return time.process_time() - started


def _get(value: Any, at: tuple[Any, ...]) -> Any:
    for step in at:
        value = value[step]
    return value
