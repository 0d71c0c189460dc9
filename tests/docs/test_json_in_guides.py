"""The guides explain every field of ``-o json``."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dovetail.cli.main import cli
from dovetail.host.clock import SystemClock
from tests.cli.explain.test_command import dump
from tests.support.karpenter.objects import a_cluster
from tests.support.simulator.clusters import a_node_class, a_pool, an_app, build_cluster, build_scenario, wait

ROOT = Path(__file__).parents[2]
GUIDES = ROOT / "docs" / "guides"
OPEN = frozenset(
    {"labels", "reasons", "instance_types", "requested", "allocatable", "capacity", "overhead", "free"}
)
"""Fields whose keys are names of types, labels and resources."""


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
        for item in value:
            yield from fields(item)


def unexplained(guide: str, printed: Any) -> list[str]:
    words = re.findall(r"`([a-z_]+)(?:\[\])?`", (GUIDES / guide).read_text(encoding="utf-8"))
    return sorted(set(fields(printed)) - set(words))


def test_demo_guide_explains_every_field_of_a_report() -> None:
    assert unexplained("demo.md", document("demo", "inflate")) == []


def test_simulate_guide_explains_every_field_of_a_plan() -> None:
    files = [
        word for folder in ("manifests", "unschedulable") for word in ("-f", str(ROOT / "examples" / folder))
    ]

    assert unexplained("simulate.md", document("simulate", *files)) == []


def test_preview_guide_explains_every_field() -> None:
    folder = ROOT / "examples" / "preview"
    files = ("-f", str(folder / "on-demand.yaml"), "--cluster", str(folder / "cluster.json"))

    assert unexplained("preview.md", document("preview", *files, "--delete", "nodepool/default")) == []


def test_catalogue_guide_explains_every_field() -> None:
    assert unexplained("catalogue.md", document("catalog", "show", "m7g.large")) == []


def test_migrate_guide_explains_every_field(tmp_path: Path) -> None:
    items = a_cluster(now=SystemClock().now())
    dump_file = tmp_path / "dump.json"
    dump_file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))

    assert unexplained("migrate.md", document("migrate", "check", "--cluster", str(dump_file))) == []


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> str:
    huge = an_app("huge", replicas=1)
    (container,) = huge["spec"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"cpu": "6400"}}
    objects = (a_node_class(), a_pool(), an_app("web", replicas=2), huge)
    simulated = build_cluster(build_scenario(objects=objects, node_group=0))
    wait(simulated, 90)
    return dump(simulated, tmp_path_factory.mktemp("cluster"))


def test_explain_guide_explains_every_field(cluster: str) -> None:
    nodes = document("explain", "node", "--cluster", cluster)
    node = document("explain", "node", nodes["nodes"][0]["node"], "--cluster", cluster)
    blockers = document("explain", "blockers", "--cluster", cluster)
    pods = json.loads(Path(cluster).read_text(encoding="utf-8"))["items"]
    names = sorted(pod["metadata"]["name"] for pod in pods if pod["kind"] == "Pod")
    pod = document("explain", "pod", names[0], "--cluster", cluster)

    assert pod["refusals"]
    assert unexplained("explain.md", [nodes, node, blockers, pod]) == []


@pytest.mark.parametrize("guide", ["explain.md", "sandbox.md"])
def test_columns_of_explain_in_the_guides_are_current(cluster: str, guide: str) -> None:
    commands = {"explain.md": ("node", "blockers"), "sandbox.md": ("node",)}[guide]
    lines = [line.split() for line in (GUIDES / guide).read_text(encoding="utf-8").splitlines()]

    for command in commands:
        result = CliRunner().invoke(cli, ["explain", command, "--cluster", cluster], prog_name="dovetail")
        assert result.stdout.splitlines()[0].split() in lines
