"""What ``-o json`` prints is explained in the guides, field by field."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dovetail.cli.main import cli
from tests.cli.explain.test_command import dump
from tests.support.boxes import a_box, a_node_class, a_pool, a_story, an_app, wait

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "guides"
OPEN = frozenset(
    {"labels", "instance_types", "requested", "allocatable", "capacity", "overhead", "free"}
)
"""Whose keys are names of types, labels and resources, not fields of ours."""


def document(*command: str) -> Any:
    result = CliRunner().invoke(cli, [*command, "-o", "json"], prog_name="dovetail")
    assert result.exit_code in (0, 2), result.output
    return json.loads(result.stdout)


def fields(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            yield from () if name in OPEN else fields(inner)
    elif isinstance(value, list):
        for one in value:
            yield from fields(one)


def unexplained(guide: str, printed: Any) -> list[str]:
    words = re.findall(r"`([a-z_]+)(?:\[\])?`", (GUIDES / guide).read_text(encoding="utf-8"))
    return sorted(set(fields(printed)) - set(words))


def test_the_guide_explains_every_field_of_a_demos_report() -> None:
    assert unexplained("demo.md", document("demo", "inflate")) == []


def test_the_guide_explains_every_field_of_a_plan() -> None:
    files = [
        word for one in ("manifests", "refused") for word in ("-f", str(ROOT / "examples" / one))
    ]

    assert unexplained("simulate.md", document("simulate", *files)) == []


def test_the_guide_explains_every_field_of_the_catalogue() -> None:
    assert unexplained("catalogue.md", document("catalog", "show", "m7g.large")) == []


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> str:
    huge = an_app("huge", replicas=1)
    (container,) = huge["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "6400"}}
    objects = (a_node_class(), a_pool(), an_app("web", replicas=2), huge)
    box = a_box(a_story(objects=objects, home=0))
    wait(box, 90)
    return dump(box, tmp_path_factory.mktemp("cluster"))


def test_the_guide_explains_every_field_of_an_explanation(cluster: str) -> None:
    nodes = document("explain", "node", "--cluster", cluster)
    one = document("explain", "node", nodes["nodes"][0]["node"], "--cluster", cluster)
    blockers = document("explain", "blockers", "--cluster", cluster)
    pods = json.loads(Path(cluster).read_text(encoding="utf-8"))["items"]
    names = sorted(pod["metadata"]["name"] for pod in pods if pod["kind"] == "Pod")
    waiting = document("explain", "pod", names[0], "--cluster", cluster)

    assert waiting["refusals"]
    assert unexplained("explain.md", [nodes, one, blockers, waiting]) == []
