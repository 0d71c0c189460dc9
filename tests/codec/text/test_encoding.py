"""Files of every sort: what can be read, and what is said of the rest."""

import time
import tracemalloc

import pytest

from dovetail.codec.inputs.cluster_inputs import read_inputs
from dovetail.codec.rewrite.round_trip import read_documents
from dovetail.codec.text.documents import Files
from dovetail.codec.text.yaml_scalars import plain
from dovetail.errors import BadInput
from tests.codec.sources import POOL, mistakes, read


def the_mistake(text: str, file: str = "m.yaml") -> str:
    found = mistakes(text, file)
    assert len(found) == 1
    return str(found[0])


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
def test_an_unquoted_word_means_what_it_means_to_kubernetes(text: str, value: object) -> None:
    assert plain(text) == value
    assert type(plain(text)) is type(value)


def test_several_documents_and_empty_ones_between_are_read() -> None:
    text = f"---\n# nothing here\n---\n{POOL}---\n---\n{POOL.replace('general', 'other')}"

    inputs = read(text)

    assert [pool.name for pool in inputs.node_pools] == ["general", "other"]


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

    inputs = read(text)

    assert inputs.pending[0].spec.requests["cpu"] == 3000


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_text_is_read_in_the_encodings_that_shells_write(encoding: str) -> None:
    documents = read_documents([("pool.yaml", POOL.encode(encoding))])

    assert documents[0].model.name == "general"


def test_windows_line_ends_do_no_harm() -> None:
    inputs = read(POOL.replace("\n", "\r\n"))

    assert inputs.node_pools[0].name == "general"


@pytest.mark.parametrize(
    "text", ["", "   \n\n", "# only\n# comments\n", "---\n---\n", "[]", "null"]
)
def test_a_file_without_objects_is_a_mistake(text: str) -> None:
    assert the_mistake(text) == "m.yaml holds no objects"


def test_a_list_without_items_is_an_answer_of_kubectl_not_a_mistake() -> None:
    assert read("apiVersion: v1\nkind: List\nitems: []\n").pending == ()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "a:\n\tb: 1\n",
            "m.yaml:2 is no valid YAML: found character that cannot start any token; "
            "YAML is indented with spaces, never with tabs",
        ),
        ("a: b\n  c: d\n", "m.yaml:2 is no valid YAML: mapping values are not allowed"),
        ("a: {{ .Values.x }}\n", "it looks like a template: render it first"),
        ("a: b\n<<<<<<< HEAD\nc: d\n", "merge conflict"),
        ("a: [1, 2\nb: 3\n", "m.yaml:"),
        ("just words", "m.yaml:1 is no object"),
        ("- a\n- b\n", "m.yaml:1 is a list"),
        ("a: *nowhere\n", "the alias *nowhere stands before its anchor"),
        ("a: !Ref x\nkind: Pod\napiVersion: v1\n", "the tag '!Ref' means nothing"),
        ("? [a, b]\n: c\n", "a key must be text"),
    ],
)
def test_text_that_is_no_manifest_is_named_with_its_line(text: str, message: str) -> None:
    found = mistakes(text)

    assert message in str(found[0])


def test_a_key_given_twice_is_a_mistake_at_the_second_place() -> None:
    text = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  name: b\n"

    assert the_mistake(text) == "m.yaml:5 metadata.name: the key 'name' is there twice"


def test_a_key_given_twice_in_json_is_a_mistake_too() -> None:
    text = '{"apiVersion": "v1", "kind": "Namespace",\n "metadata": {"name": "a",\n "name": "b"}}'

    assert the_mistake(text, "m.json") == "m.json:3 name: the key 'name' is there twice"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1,\n "b": }', "m.json:2 is no valid JSON: invalid character"),
        ('{"a": [1,\n2', "m.json:2 is no valid JSON: it ends too early"),
        ('{"a": 1}\n{"b": 2}', "m.json:2 is no valid JSON: trailing characters"),
    ],
)
def test_broken_json_is_named_with_its_line(text: str, message: str) -> None:
    assert message in the_mistake(text, "m.json")


def test_json_objects_one_after_another_are_told_from_broken_yaml() -> None:
    text = '{\n"a": 1\n}\n{\n"b": 2\n}\n'

    assert the_mistake(text) == (
        "m.yaml:4 is no valid JSON: trailing characters; "
        "several objects belong in a List, or in files of their own"
    )


def test_a_map_in_braces_that_is_no_json_may_still_be_yaml() -> None:
    inputs = read("{apiVersion: v1, kind: Namespace, metadata: {name: shop}} # fine\n")

    assert "shop" in inputs.namespaces


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x00\x01\x02", "f:1 is not text: byte 0x00 has no place in it"),
        (b"kind: Pod\nname: \xff\xfe", "f:2 is not text: byte 0xff has no place in it"),
        (b"\x1f\x8b\x08\x00", "f is compressed with gzip; unpack it first"),
        (b"PK\x03\x04", "f is a zip archive; unpack it first"),
    ],
)
def test_bytes_that_are_no_text_are_said_to_be_none(data: bytes, message: str) -> None:
    files = Files()

    assert list(files.objects("f", data)) == []
    assert [str(one) for one in files.mistakes] == [message]


def a_bomb() -> bytes:
    lines = [b"a: &a [x, x, x, x, x, x, x, x, x]"]
    for number in range(10):
        inner = b", ".join([b"*%c" % (97 + number)] * 9)
        lines.append(b"%c: &%c [%s]" % (98 + number, 98 + number, inner))
    return b"\n".join(lines)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("aliases.yaml", a_bomb(), "its aliases stand for more than 1,000,000 values"),
        ("deep.yaml", b"[" * 1_000_000, "is a list"),
        ("deep-map.yaml", b"{a: " * 100_000, "is nested more than 200 levels deep"),
        ("deep.json", b'{"a":' * 1_000_000, "is nested too deeply"),
        ("blocks.yaml", b"- " * 1_000_000, "is a list"),
        ("twins.yaml", b"a: b\n" * 1_000_000, "has too many mistakes to go on"),
        ("numbers.json", b'{"a": ' + b"9" * 1_000_000 + b"}", "is no valid JSON"),
        ("words.yaml", b"word " * 4_000_000, "is no object"),
        ("noise.txt", bytes(range(33, 127)) * 200_000, "is no valid YAML"),
    ],
)
def test_absurd_files_are_refused_soon_and_without_eating_memory(
    name: str, data: bytes, message: str
) -> None:
    files = Files()
    tracemalloc.start()
    begun = time.process_time()

    assert list(files.objects(name, data)) == []

    assert time.process_time() - begun < 5
    assert tracemalloc.get_traced_memory()[1] < 200 << 20
    tracemalloc.stop()
    assert message in str(files.mistakes[-1])


def test_all_mistakes_of_all_files_come_at_once_in_order() -> None:
    files = [
        ("b.yaml", b"kind: Pod\n"),
        ("a.json", b"{"),
        ("c.yaml", b"apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: {}}\n"),
    ]

    with pytest.raises(BadInput) as caught:
        read_inputs(files)

    assert [str(one).split()[0] for one in caught.value.mistakes] == [
        "b.yaml:1",
        "a.json:1",
        "c.yaml:4",
    ]
