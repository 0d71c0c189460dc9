"""CustomResourceDefinitions define kinds that are stored, validated, listed and watched."""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, TypeVar

import pytest

from dovetail.ports.api_resources import CUSTOM_RESOURCE_DEFINITIONS, Resource
from dovetail.ports.kube_errors import BadRequest, Invalid, NotFound, TooManyRequests
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
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
            "items": {
                "type": "object",
                "required": ["name"],
                "properties": {"name": {"type": "string"}, "number": {"type": "integer"}},
            },
        },
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    },
}

INTEGER_OR_STRING = [{"type": "integer"}, {"type": "string"}]


def eventually(attempt: Callable[[], T]) -> T:
    """Return the result once a definition is served; a real server needs a moment."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        with suppress(NotFound, TooManyRequests):
            return attempt()
        time.sleep(0.1)  # noqa: TID251
    return attempt()


def a_definition(server: Subject, spec: Object, root: Object | None = None) -> Object:
    """A definition of widgets in a group of their own."""
    group = server.unique("widgets").replace("-", "") + ".example.com"
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    properties = {"spec": spec, "status": {"type": "object"}}
    schema = {"type": "object", "properties": properties, **(root or {})}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    more = {"subresources": {"status": {}}, "selectableFields": [{"jsonPath": ".spec.colour"}]}
    return {
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced",
            "versions": [{**version, **more} if "colour" in spec.get("properties", {}) else version],
        },
    }


@pytest.fixture
def widgets(server: Subject) -> Iterator[Resource]:
    definition = a_definition(server, SPEC)
    group = definition["spec"]["group"]
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


@pytest.mark.parametrize(
    ("spec", "error"),
    [
        (
            {"type": "object", "properties": {"size": {"minimum": 1}}},
            "properties[spec].properties[size].type: Required value: "
            "must not be empty for specified object fields",
        ),
        (
            {"type": "array", "items": {"minimum": 1}},
            "properties[spec].items.type: Required value: must not be empty for specified array items",
        ),
        ({"type": "array"}, "properties[spec].items: Required value: must be specified"),
        (
            {"type": "string", "anyOf": [{"type": "string"}]},
            "properties[spec].anyOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            {"type": "string", "oneOf": INTEGER_OR_STRING},
            "properties[spec].oneOf[1].type: Forbidden: must be empty to be structural",
        ),
    ],
)
def test_a_schema_that_is_not_structural_is_rejected(server: Subject, spec: Object, error: str) -> None:
    with pytest.raises(Invalid) as rejected:
        server.create(CUSTOM_RESOURCE_DEFINITIONS, a_definition(server, spec))

    assert error in str(rejected.value)


def test_nested_validation_of_a_field_without_schema_is_rejected_at_the_root_only(server: Subject) -> None:
    nested = {"anyOf": [{"properties": {"a": {"minimum": 1}}}]}
    definition = a_definition(server, {"type": "object", **nested})

    server.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
    server.delete(CUSTOM_RESOURCE_DEFINITIONS, definition["metadata"]["name"])
    with pytest.raises(Invalid) as rejected:
        server.create(CUSTOM_RESOURCE_DEFINITIONS, a_definition(server, {"type": "object"}, root=nested))

    assert "properties[a]: Required value: because it is defined in" in str(rejected.value)


@pytest.mark.parametrize(
    "validation",
    [{}, {"anyOf": INTEGER_OR_STRING}, {"allOf": [{"anyOf": INTEGER_OR_STRING}, {"pattern": "^[0-9]+%?$"}]}],
)
def test_a_field_that_is_an_integer_or_a_string_is_structural(server: Subject, validation: Object) -> None:
    either = {**validation, "x-kubernetes-int-or-string": True}
    definition = a_definition(server, {"type": "object", "properties": {"port": either}})

    server.create(CUSTOM_RESOURCE_DEFINITIONS, definition)

    server.delete(CUSTOM_RESOURCE_DEFINITIONS, definition["metadata"]["name"])


def test_lists_with_a_key_or_an_item_twice_are_rejected(server: Subject, widgets: Resource) -> None:
    ports = [{"name": "a", "number": 1}, {"name": "b"}, {"name": "a", "number": 2}]

    with pytest.raises(Invalid) as rejected:
        eventually(lambda: server.create(widgets, widget(widgets, "a", ports=ports, tags=["x", "x"])))

    message = str(rejected.value)
    assert "spec.ports[2]: Duplicate value" in message
    assert "spec.tags[1]: Duplicate value" in message
    server.create(widgets, widget(widgets, "a", ports=ports[:2], tags=["x", "y"]))


def test_objects_are_selected_by_the_selectable_fields_of_their_definition(
    server: Subject, widgets: Resource
) -> None:
    eventually(lambda: server.create(widgets, widget(widgets, "a", colour="blue")))
    server.create(widgets, widget(widgets, "b", colour="red"))

    blue = server.list(widgets, field_selector="spec.colour=blue")["items"]
    others = server.list(widgets, field_selector="spec.colour!=blue")["items"]

    assert [item["metadata"]["name"] for item in blue] == ["a"]
    assert [item["metadata"]["name"] for item in others] == ["b"]
    with pytest.raises(BadRequest, match="field label not supported"):
        server.list(widgets, field_selector="spec.size=1")
