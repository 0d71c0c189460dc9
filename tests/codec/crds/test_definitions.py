"""CustomResourceDefinitions, and the chart files that contain them."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dovetail import __version__
from dovetail.codec.crds.definition import Definition
from dovetail.codec.crds.definitions import DEFINITIONS, chart_file_name, encode_chart_file, encode_yaml
from dovetail.ports.api_resources import RESOURCES
from tests.codec.crds.schema_fields import fields, schema_of

CHART = Path(__file__).parents[3] / "deploy/charts/dovetail-crd"
EACH = pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.kind)


def test_chart_files_are_up_to_date_with_make_crds() -> None:
    files = {path.name: path.read_text("utf-8") for path in (CHART / "templates").iterdir()}

    assert files == {chart_file_name(definition): encode_chart_file(definition) for definition in DEFINITIONS}


def test_chart_version_is_the_version_of_dovetail() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))

    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


@EACH
def test_definitions_are_valid_yaml_for_kubectl(definition: Definition) -> None:
    assert "{{" not in encode_chart_file(definition)
    assert yaml.safe_load(encode_chart_file(definition)) == definition.encode()
    # What `kubectl apply` remembers of an object has to fit into an annotation.
    assert len(encode_yaml(definition)) < 200_000


@EACH
def test_names_match_the_api_resources_that_dovetail_uses(definition: Definition) -> None:
    spec = definition.encode()["spec"]
    (ours,) = [resource for resource in RESOURCES if resource.kind == definition.kind]

    assert (spec["group"], definition.version) == (ours.group, ours.version)
    assert spec["names"]["plural"] == ours.plural
    assert tuple(spec["names"].get("shortNames", ())) == ours.short_names
    assert (spec["scope"] == "Namespaced") == ours.namespaced
    assert set(spec["versions"][0]["subresources"]) == set(ours.subresources)


@EACH
def test_definitions_are_kept_when_the_chart_is_uninstalled(definition: Definition) -> None:
    notes = definition.encode()["metadata"]["annotations"]

    assert notes["helm.sh/resource-policy"] == "keep"


@EACH
def test_every_field_has_a_description_for_kubectl_explain(definition: Definition) -> None:
    bare = [path for path, inner in fields(schema_of(definition)) if explained(inner) is False]

    assert bare == [("metadata",)]


def explained(schema: dict[str, Any]) -> bool | None:
    """Return True if a field has a description; None for items without fields."""
    if schema.get("description"):
        return str(schema["description"]).endswith(".")
    plain = schema.get("type") == "string" or "x-kubernetes-int-or-string" in schema
    return None if plain else False


@EACH
def test_every_rule_has_a_message(definition: Definition) -> None:
    rules = [
        rule
        for _, schema in fields(schema_of(definition))
        for rule in schema.get("x-kubernetes-validations", ())
    ]

    assert [rule for rule in rules if not rule["message"]] == []
    assert [rule for rule in rules if "\n" in rule["message"]] == []


@EACH
def test_patterns_are_valid_in_go(definition: Definition) -> None:
    text = encode_yaml(definition)
    patterns = re.findall(r"matches\(r?'+([^']*)'+\)", text) + re.findall(r"pattern: (\S+)", text)

    for pattern in patterns:
        re.compile(pattern)
        assert not re.search(r"\(\?[=!<P]|\\[1-9]", pattern)
