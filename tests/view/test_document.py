"""Document of the view: its schema is published, and it holds nothing secret."""

import json
import os
from pathlib import Path

import msgspec

from dovetail.view.document import VERSION, View, encode_view, view_schema
from tests.view.clusters import NOW, a_view, add_node, add_pod, an_environment

SCHEMA = Path(__file__).parents[2] / "docs" / "view.schema.json"
FIELDS_OF_VERSION_1 = {
    *("version", "at", "cluster", "totals", "savings", "nodePools", "nodes", "pendingPods"),
    *("nodeClaims", "decisions", "blockers", "notices"),
}


def test_published_schema_is_that_of_the_document() -> None:
    text = json.dumps(view_schema(), indent=2) + "\n"

    if os.environ.get("UPDATE_GOLDEN"):
        SCHEMA.write_text(text)
    assert SCHEMA.read_text() == text, "run with UPDATE_GOLDEN=1 to accept the change"


def test_schema_describes_every_part_in_words() -> None:
    definitions = view_schema()["$defs"]

    assert all(definition.get("description") for definition in definitions.values())


def test_document_has_the_fields_of_its_version() -> None:
    document = json.loads(encode_view(View(at=NOW)))

    assert (document["version"], VERSION) == (2, 2)
    assert document.keys() == FIELDS_OF_VERSION_1


def test_document_shows_no_annotations_but_do_not_disrupt() -> None:
    secret = {"vault.example/token": "s3cr3t", "kubectl.kubernetes.io/last-applied-configuration": "s3cr3t"}
    env = an_environment()
    add_node(env, annotations={**secret, "karpenter.sh/do-not-disrupt": "true"})
    add_pod(env, annotations=secret)

    text = encode_view(a_view(env)).decode()

    assert "s3cr3t" not in text
    (node,) = a_view(env).nodes.values()
    assert node.annotations == {"karpenter.sh/do-not-disrupt": "true"}


def test_a_name_with_markup_is_data() -> None:
    env = an_environment()
    add_node(env)
    add_pod(env, name="<script>alert(1)</script>")

    view = msgspec.json.decode(encode_view(a_view(env)), type=View)

    (node,) = view.nodes.values()
    assert [pod.name for workload in node.workloads for pod in workload.pods] == ["<script>alert(1)</script>"]
