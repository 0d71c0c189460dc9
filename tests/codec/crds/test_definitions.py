"""The definitions themselves, and the files that they are written to."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from dovetail import __version__
from dovetail.codec.crds.definition import Definition
from dovetail.codec.crds.definitions import DEFINITIONS, as_file, as_yaml, file_name
from dovetail.ports.api_resources import RESOURCES
from tests.codec.crds.walking import fields, schema_of

CHART = Path(__file__).parents[3] / "deploy/charts/dovetail-crd"
EACH = pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda one: one.kind)


def test_the_files_of_the_chart_are_as_make_crds_writes_them() -> None:
    found = {path.name: path.read_text("utf-8") for path in (CHART / "templates").iterdir()}

    assert found == {file_name(one): as_file(one) for one in DEFINITIONS}


def test_the_chart_has_the_version_of_the_program() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))

    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


@EACH
def test_kubectl_takes_the_files_as_they_are(definition: Definition) -> None:
    assert "{{" not in as_file(definition)
    assert yaml.safe_load(as_file(definition)) == definition.written()
    # What `kubectl apply` remembers of an object has to fit into an annotation.
    assert len(as_yaml(definition)) < 200_000


@EACH
def test_names_are_those_that_the_program_asks_for(definition: Definition) -> None:
    spec = definition.written()["spec"]
    (ours,) = [one for one in RESOURCES if one.kind == definition.kind]

    assert (spec["group"], definition.version) == (ours.group, ours.version)
    assert spec["names"]["plural"] == ours.plural
    assert tuple(spec["names"].get("shortNames", ())) == ours.short_names
    assert (spec["scope"] == "Namespaced") == ours.namespaced
    assert set(spec["versions"][0]["subresources"]) == set(ours.subresources)


@EACH
def test_uninstalling_a_chart_leaves_the_kinds_and_with_them_all_nodes(
    definition: Definition,
) -> None:
    notes = definition.written()["metadata"]["annotations"]

    assert notes["helm.sh/resource-policy"] == "keep"


@EACH
def test_kubectl_explain_has_a_sentence_for_every_field(definition: Definition) -> None:
    bare = [path for path, one in fields(schema_of(definition)) if explained(one) is False]

    assert bare == [("metadata",)]


def explained(schema: dict[str, Any]) -> bool | None:
    """Tell whether a field has a sentence; None for values of lists and maps without fields."""
    if schema.get("description"):
        return str(schema["description"]).endswith(".")
    plain = schema.get("type") == "string" or "x-kubernetes-int-or-string" in schema
    return None if plain else False


@EACH
def test_every_rule_has_a_sentence(definition: Definition) -> None:
    rules = [
        one
        for _, schema in fields(schema_of(definition))
        for one in schema.get("x-kubernetes-validations", ())
    ]

    assert [one for one in rules if not one["message"]] == []
    assert [one for one in rules if "\n" in one["message"]] == []


@EACH
def test_patterns_are_such_as_go_understands_too(definition: Definition) -> None:
    text = as_yaml(definition)
    patterns = re.findall(r"matches\(r?'+([^']*)'+\)", text) + re.findall(r"pattern: (\S+)", text)

    for one in patterns:
        re.compile(one)
        assert not re.search(r"\(\?[=!<P]|\\[1-9]", one)
