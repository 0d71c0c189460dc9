"""Files of all encodings and formats are read or rejected with a message."""

import time
import tracemalloc

import pytest

from dovetail.codec.inputs.cluster_inputs import read_inputs
from dovetail.codec.rewrite.round_trip import read_documents
from dovetail.codec.text.documents import ManifestReader
from dovetail.codec.text.yaml_reader import parse_scalar
from dovetail.errors import InvalidInputError
from tests.codec.sources import POOL, read_manifest, validation_errors


def the_mistake(text: str, file: str = "m.yaml") -> str:
    errors = validation_errors(text, file)
    assert len(errors) == 1
    return str(errors[0])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("on", True),
        ("No", False),
        ("42", 42),
        ("-7", -7),
        ("0x1F", 31),
        ("0o17", 15),
        ("017", 15),
        ("1e3", 1000.0),
        (".5", 0.5),
        ("64e999", "64e999"),
        ("1.5Gi", "1.5Gi"),
        ("500m", "500m"),
        ("1:30", "1:30"),
        ("2026-01-01", "2026-01-01"),
        ("-", "-"),
        ("v1", "v1"),
        ("9" * 5000, "9" * 5000),
    ],
)
def test_unquoted_scalars_parse_as_in_kubernetes(text: str, value: object) -> None:
    assert parse_scalar(text) == value
    assert type(parse_scalar(text)) is type(value)


def test_several_documents_with_empty_ones_between_are_read() -> None:
    text = f"---\n# nothing here\n---\n{POOL}---\n---\n{POOL.replace('general', 'other')}"

    inputs = read_manifest(text)

    assert [pool.name for pool in inputs.nodepools] == ["general", "other"]


def test_anchors_and_merge_keys_are_resolved() -> None:
    text = """
        apiVersion: v1
        kind: Pod
        metadata: {name: a}
        spec:
          containers:
            - &base
              name: one
              resources: &small {requests: {cpu: 1}}
            - <<: *base
              name: two
            - {name: three, resources: *small}
    """

    inputs = read_manifest(text)

    assert inputs.pending[0].spec.requests["cpu"] == 3000


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_utf8_and_utf16_with_byte_order_marks_are_read(encoding: str) -> None:
    documents = read_documents([("pool.yaml", POOL.encode(encoding))])

    assert documents[0].model.name == "general"


def test_windows_line_endings_are_read() -> None:
    inputs = read_manifest(POOL.replace("\n", "\r\n"))

    assert inputs.nodepools[0].name == "general"


@pytest.mark.parametrize("text", ["", "   \n\n", "# only\n# comments\n", "---\n---\n", "[]", "null"])
def test_a_file_without_objects_is_an_error(text: str) -> None:
    assert the_mistake(text) == "m.yaml contains no objects"


def test_an_empty_list_of_kubectl_is_no_error() -> None:
    assert read_manifest("apiVersion: v1\nkind: List\nitems: []\n").pending == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a:\n\tb: 1\n",
            "m.yaml:2 is not valid YAML: found character that cannot start any token; "
            "YAML is indented with spaces, never with tabs",
        ),
        ("a: b\n  c: d\n", "m.yaml:2 is not valid YAML: mapping values are not allowed"),
        ("a: {{ .Values.x }}\n", "it looks like a template: render it first"),
        ("a: b\n<<<<<<< HEAD\nc: d\n", "merge conflict"),
        ("a: [1, 2\nb: 3\n", "m.yaml:"),
        ("just words", "m.yaml:1 is not an object"),
        ("- a\n- b\n", "m.yaml:1 is a list"),
        ("a: *nowhere\n", "the alias *nowhere is used before its anchor"),
        ("a: !Ref x\nkind: Pod\napiVersion: v1\n", "the tag '!Ref' is not supported"),
        ("? [a, b]\n: c\n", "a key must be text"),
    ],
)
def test_text_that_is_no_manifest_is_an_error_with_its_line(text: str, message: str) -> None:
    errors = validation_errors(text)

    assert message in str(errors[0])


def test_a_duplicate_key_is_an_error_at_the_second_line() -> None:
    text = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  name: b\n"

    assert the_mistake(text) == "m.yaml:5 metadata.name: duplicate key 'name'"


def test_a_duplicate_key_in_json_is_an_error() -> None:
    text = '{"apiVersion": "v1", "kind": "Namespace",\n "metadata": {"name": "a",\n "name": "b"}}'

    assert the_mistake(text, "m.json") == "m.json:3 name: duplicate key 'name'"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1,\n "b": }', "m.json:2 is not valid JSON: invalid character"),
        ('{"a": [1,\n2', "m.json:2 is not valid JSON: unexpected end of file"),
        ('{"a": 1}\n{"b": 2}', "m.json:2 is not valid JSON: trailing characters"),
    ],
)
def test_invalid_json_is_an_error_with_its_line(text: str, message: str) -> None:
    assert message in the_mistake(text, "m.json")


def test_concatenated_json_is_distinguished_from_invalid_yaml() -> None:
    text = '{\n"a": 1\n}\n{\n"b": 2\n}\n'

    assert the_mistake(text) == (
        "m.yaml:4 is not valid JSON: trailing characters; "
        "put several objects into a List or into separate files"
    )


def test_a_map_in_braces_that_is_no_json_is_read_as_yaml() -> None:
    inputs = read_manifest("{apiVersion: v1, kind: Namespace, metadata: {name: shop}} # fine\n")

    assert "shop" in [namespace.name for namespace in inputs.namespaces]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x00\x01\x02", "f:1 is not text: invalid byte 0x00"),
        (b"kind: Pod\nname: \xff\xfe", "f:2 is not text: invalid byte 0xff"),
        (b"\x1f\x8b\x08\x00", "f is compressed with gzip; unpack it first"),
        (b"PK\x03\x04", "f is a zip archive; unpack it first"),
    ],
)
def test_binary_files_are_rejected_as_not_text(data: bytes, message: str) -> None:
    files = ManifestReader()

    assert list(files.read_objects("f", data)) == []
    assert [str(error) for error in files.errors] == [message]


def a_bomb() -> bytes:
    lines = [b"a: &a [x, x, x, x, x, x, x, x, x]"]
    for number in range(10):
        inner = b", ".join([b"*%c" % (97 + number)] * 9)
        lines.append(b"%c: &%c [%s]" % (98 + number, 98 + number, inner))
    return b"\n".join(lines)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("aliases.yaml", a_bomb(), "its aliases expand to more than 1,000,000 values"),
        ("deep.yaml", b"[" * 1_000_000, "is a list"),
        ("deep-map.yaml", b"{a: " * 100_000, "is nested more than 200 levels deep"),
        ("deep.json", b'{"a":' * 1_000_000, "is nested too deeply"),
        ("blocks.yaml", b"- " * 1_000_000, "is a list"),
        ("twins.yaml", b"a: b\n" * 1_000_000, "has too many errors"),
        ("numbers.json", b'{"a": ' + b"9" * 1_000_000 + b"}", "is not valid JSON"),
        ("words.yaml", b"word " * 4_000_000, "is not an object"),
        ("noise.txt", bytes(range(33, 127)) * 200_000, "is not valid YAML"),
    ],
)
def test_hostile_files_are_rejected_in_bounded_time_and_memory(name: str, data: bytes, message: str) -> None:
    files = ManifestReader()
    tracemalloc.start()
    begun = time.process_time()

    assert list(files.read_objects(name, data)) == []

    assert time.process_time() - begun < 5
    assert tracemalloc.get_traced_memory()[1] < 200 << 20
    tracemalloc.stop()
    assert message in str(files.errors[-1])


def test_errors_of_all_files_are_reported_at_once_in_order() -> None:
    files = [
        ("b.yaml", b"kind: Pod\n"),
        ("a.json", b"{"),
        ("c.yaml", b"apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: {}}\n"),
    ]

    with pytest.raises(InvalidInputError) as caught:
        read_inputs(files)

    assert [str(error).split()[0] for error in caught.value.errors] == ["b.yaml:1", "a.json:1", "c.yaml:4"]
