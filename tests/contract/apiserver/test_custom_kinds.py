"""CustomResourceDefinitions define kinds that are stored, validated, listed and watched."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

import pytest

from dovetail.ports.api_resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from dovetail.ports.kube_errors import Invalid, NotFound, TooManyRequests
from tests.contract.apiserver.subject import Object, Subject

T = TypeVar("T")
DEADLINE = 30.0
"""Real seconds until a definition is served, or gone."""

SPEC = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1},
        "colour": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "parts": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
    },
}


def eventually(attempt: Callable[[], T]) -> T:
    """Return the result once a definition is served; a real server needs a moment."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        with suppress(NotFound, TooManyRequests):
            return attempt()
        time.sleep(0.1)  # noqa: TID251
    return attempt()


@pytest.fixture
def widgets(server: Subject) -> Iterator[Resource]:
    group = server.unique("widgets").replace("-", "") + ".example.com"
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    schema = {"type": "object", "properties": {"spec": SPEC, "status": {"type": "object"}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    definition: Object = {
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced",
            "versions": [{**version, "subresources": {"status": {}}}],
        },
    }
    server.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    resource = Resource(
        group, "v1", "widgets", "Widget", has_generation=True, is_custom=True, singular="widget"
    )
    eventually(lambda: server.list(resource))
    yield resource
    with suppress(NotFound):
        server.delete(CUSTOM_RESOURCE_DEFINITIONS, definition["metadata"]["name"])


def widget(resource: Resource, name: str, **spec: Any) -> Object:
    return {
        "apiVersion": resource.api_version,
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": 1, **spec},
    }


def test_a_definition_is_established(server: Subject, widgets: Resource) -> None:
    status = server.get(CUSTOM_RESOURCE_DEFINITIONS, widgets.qualified_name)["status"]

    assert {condition["type"]: condition["status"] for condition in status["conditions"]} == {
        "NamesAccepted": "True",
        "Established": "True",
    }
    assert status["acceptedNames"]["kind"] == "Widget"
    assert status["storedVersions"] == ["v1"]


def test_objects_get_the_defaults_of_the_schema_and_are_listed(server: Subject, widgets: Resource) -> None:
    eventually(lambda: server.create(widgets, widget(widgets, "a", size=3)))

    listed = server.list(widgets)["items"]

    assert [(item["metadata"]["name"], item["spec"]) for item in listed] == [
        ("a", {"size": 3, "colour": "red"})
    ]
    assert listed[0]["metadata"]["generation"] == 1


def test_objects_that_violate_the_schema_are_rejected_with_every_error(
    server: Subject, widgets: Resource
) -> None:
    wrong = widget(widgets, "a", size="big", colour="green", parts=[{"name": 1}])

    with pytest.raises(Invalid) as rejected:
        eventually(lambda: server.create(widgets, wrong))

    message = str(rejected.value)
    assert 'spec.size in body must be of type integer: "string"' in message
    assert 'spec.colour: Unsupported value: "green": supported values: "red", "blue"' in message
    assert 'spec.parts[0].name in body must be of type string: "integer"' in message


def test_a_missing_required_field_is_rejected(server: Subject, widgets: Resource) -> None:
    wrong = {**widget(widgets, "a"), "spec": {}}

    with pytest.raises(Invalid) as rejected:
        eventually(lambda: server.create(widgets, wrong))

    assert "spec.size: Required value" in str(rejected.value)


def test_a_watch_sees_changes_of_custom_objects(server: Subject, widgets: Resource) -> None:
    watch = eventually(lambda: server.watch(widgets))

    server.create(widgets, widget(widgets, "a"))
    server.patch(widgets, "a", {"spec": {"size": 2}})
    server.delete(widgets, "a")

    events = [(kind, obj["spec"]["size"]) for kind, obj in watch.next_events(3)]
    watch.stop()
    assert events == [("ADDED", 1), ("MODIFIED", 2), ("DELETED", 2)]


def test_the_status_is_a_separate_subresource(server: Subject, widgets: Resource) -> None:
    eventually(lambda: server.create(widgets, widget(widgets, "a")))

    server.patch(widgets, "a", {"spec": {"size": 9}, "status": {}}, subresource="status")

    assert server.get(widgets, "a")["spec"]["size"] == 1


def test_the_deletion_of_a_definition_deletes_its_objects(server: Subject, widgets: Resource) -> None:
    eventually(lambda: server.create(widgets, widget(widgets, "a")))

    server.delete(CUSTOM_RESOURCE_DEFINITIONS, widgets.qualified_name)

    def is_gone() -> bool:
        try:
            server.get(CUSTOM_RESOURCE_DEFINITIONS, widgets.qualified_name)
        except NotFound:
            return True
        return False

    end = time.monotonic() + DEADLINE
    while not is_gone():
        assert time.monotonic() < end
        time.sleep(0.1)  # noqa: TID251
