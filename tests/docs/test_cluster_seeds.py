"""The tables from the five documents to our examples name resources and fields that exist."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dovetail.eks.desired.desired_state import desired_state, outputs
from dovetail.eks.plan.resource_kinds import KINDS
from tests.support.eks.configs import EXAMPLES, an_example

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "cluster-seeds.md"
CHAPTERS = re.split(r"^## ", GUIDE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
ROWS = [
    (match[1], line)
    for chapter in CHAPTERS
    if (match := re.search(r"examples/([a-z-]+)\.yaml", chapter.splitlines()[0]))
    for line in chapter.splitlines()
    if line.startswith("| ") and not line.startswith("| in the document")
]


def _ticked(line: str) -> list[str]:
    return re.findall(r"`([^`]+)`", line)


def _is_resource(word: str) -> bool:
    return word.partition("/")[0] in KINDS


def test_every_example_of_a_document_has_a_chapter() -> None:
    without_document = {"ipv6", "windows-gpu"}

    assert {name for name, _ in ROWS} == {path.stem for path in EXAMPLES} - without_document


@pytest.mark.parametrize("name", [path.stem for path in EXAMPLES])
def test_every_resource_that_the_guide_names_is_desired(name: str) -> None:
    addresses = {resource.address for resource in desired_state(an_example(name))}

    named = {word for row, line in ROWS if row == name for word in _ticked(line)}

    assert {word for word in named if _is_resource(word)} <= addresses


@pytest.mark.parametrize("name", [path.stem for path in EXAMPLES])
def test_every_field_that_the_guide_names_is_in_the_example(name: str) -> None:
    path = next(path for path in EXAMPLES if path.stem == name)
    present = set(_paths(yaml.safe_load(path.read_text(encoding="utf-8"))))

    named = {word for row, line in ROWS if row == name for word in _ticked(line)}

    fields = {word for word in named if not _is_resource(word) and " " not in word}
    assert fields <= present


def _paths(value: Any, before: tuple[str, ...] = ()) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield ".".join((*before, key))
            yield from _paths(inner, (*before, key))
    elif isinstance(value, list):
        for inner in value:
            yield from _paths(inner, before)


def test_outputs_of_the_documents_are_outputs_of_the_cluster() -> None:
    names = outputs(an_example("managed-node-group"))

    assert {"endpoint", "certificateAuthority", "oidcUrl", "controllerRoleArn"} <= set(names)
