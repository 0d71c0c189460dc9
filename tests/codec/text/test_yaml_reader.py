"""YAML reader: a large file takes little work for each value, and has the same values as JSON."""

import json
from typing import Any

import pytest
import yaml

from dovetail.codec.text.documents import ManifestReader
from dovetail.codec.text.yaml_reader import ParseError, YamlReader
from tests.support.work import count_calls

MAX_CALLS_PER_VALUE = 20
LARGE = 2_500_000
"""Bytes; the API server takes objects of 3 MiB."""


def a_config_map(keys: int) -> dict[str, Any]:
    data = {f"key-{number:06d}": f"value {number}" for number in range(keys)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large"}, "data": data}


def a_pod(containers: int) -> dict[str, Any]:
    requests = {"cpu": "100m", "memory": "1Gi"}
    spec = [
        {"name": f"c-{number}", "resources": {"requests": requests}, "ports": [{"containerPort": number}]}
        for number in range(containers)
    ]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "large"}, "spec": {"containers": spec}}


def to_yaml(obj: dict[str, Any]) -> bytes:
    """Return block style, without aliases for equal values."""
    return yaml.dump(json.loads(json.dumps(obj)), Dumper=yaml.CSafeDumper).encode()


def count_values(value: Any) -> int:
    children = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(count_values, children))


@pytest.mark.parametrize("build", [a_config_map, a_pod])
def test_work_grows_with_the_number_of_values_and_no_faster(build: Any) -> None:
    small, large = build(500), build(5_000)

    few = count_calls(YamlReader("file", to_yaml(small)).read_document)
    many = count_calls(YamlReader("file", to_yaml(large)).read_document)

    assert many < MAX_CALLS_PER_VALUE * count_values(large)
    assert many < 1.1 * few * count_values(large) / count_values(small)


def test_a_manifest_of_2500_kilobytes_is_read_completely() -> None:
    config_map = a_config_map(97_000)
    text = to_yaml(config_map)
    assert len(text) > LARGE

    [raw] = ManifestReader().read_objects("large.yaml", text)

    assert raw.value == config_map


def test_a_single_document_may_be_any_value() -> None:
    assert YamlReader("file", b"a: [1, x, 2026-01-01]").read_document() == {"a": [1, "x", "2026-01-01"]}
    assert YamlReader("file", b"kind: List\nitems: []\n").read_document() == {"kind": "List", "items": []}
    assert YamlReader("file", b"").read_document() is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a: 1\n---\nb: 2\n", "file:2 has more than one document"),
        (b"a: [", "is not valid YAML"),
        (b"[" * 300, "is nested more than 200 levels deep"),
    ],
)
def test_a_text_that_is_not_one_document_is_an_error(text: bytes, message: str) -> None:
    with pytest.raises(ParseError, match=message):
        YamlReader("file", text).read_document()
