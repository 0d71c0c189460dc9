"""Schema of a trace's lines: published, and true of what the writer writes."""

import json
import os
from pathlib import Path

import jsonschema
import msgspec

from dovetail.trace.model import trace_schema
from tests.trace.test_trace_file import EVENTS, HEADER

SCHEMA = Path(__file__).parents[2] / "docs" / "trace.schema.json"


def test_published_schema_is_that_of_the_model() -> None:
    text = json.dumps(trace_schema(), indent=2) + "\n"

    if os.environ.get("UPDATE_GOLDEN"):
        SCHEMA.write_text(text)
    assert SCHEMA.read_text() == text, "run with UPDATE_GOLDEN=1 to accept the change"


def test_every_kind_of_line_is_valid_by_the_schema() -> None:
    validator = jsonschema.Draft202012Validator(trace_schema())

    for value in (HEADER, *EVENTS):
        validator.validate(json.loads(msgspec.json.encode(value)))
