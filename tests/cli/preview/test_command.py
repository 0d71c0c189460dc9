"""``dovetail preview`` as a user runs it."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from tests.preview.truth import a_pdb, a_pool, a_shop, an_app, build_real_cluster, dump

ON_DEMAND = {
    "karpenter.sh/capacity-type": ["on-demand"],
    "karpenter.k8s.aws/instance-family": ["m5", "m6i", "c5"],
    "karpenter.k8s.aws/instance-size": ["large", "xlarge"],
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A dump of a cluster at rest."""
    path = tmp_path_factory.mktemp("dump") / "cluster.json"
    objects = dump(build_real_cluster(a_shop())).objects
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    return str(path)


def preview(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["preview", *arguments])


def a_file(folder: Path, *objects: dict[str, Any]) -> str:
    path = folder / "changed.yaml"
    path.write_text(yaml.safe_dump_all(objects))
    return str(path)


def previewed(*arguments: str) -> Any:
    result = preview(*arguments, "-o", "json")
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


# Changes.


def test_a_changed_nodepool_replaces_its_nodes_within_its_budget(recorded: str, tmp_path: Path) -> None:
    file = a_file(tmp_path, a_pool(requirements=ON_DEMAND))

    report = previewed("--cluster", recorded, "-f", file)

    assert report["changes"] == [
        "NodePool default: spec.template.spec.requirements[0].values[0] spot → on-demand"
    ]
    assert report["before"]["nodes"] == report["after"]["nodes"] == 7
    assert report["difference"]["price_percent"] > 100
    assert report["course"]["reasons"] == {"Drifted": 6}
    # A budget of 20% allows two of six nodes at once.
    assert max(wave["nodes"] for wave in report["waves"]) <= 2
    assert report["course_without"]["evictions"] == 0


def test_a_file_that_equals_the_cluster_changes_nothing(recorded: str, tmp_path: Path) -> None:
    report = previewed("--cluster", recorded, "-f", a_file(tmp_path, a_pool()))

    assert report["changes"] == []
    assert report["unchanged"] == ["NodePool default"]
    assert report["course"]["duration"] == 0


def test_a_field_that_the_file_lacks_is_removed_from_the_fork_of_a_dump(tmp_path: Path) -> None:
    cluster = build_real_cluster(a_shop(pool=a_pool(limits={"cpu": "100"})))
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": list(dump(cluster).objects)}))

    report = previewed("--cluster", str(path), "-f", a_file(tmp_path, a_pool()))

    assert report["changes"] == ['NodePool default: spec.limits {"cpu":"100"} → none']


def test_a_deleted_nodepool_takes_its_nodes_until_a_poddisruptionbudget_blocks(recorded: str) -> None:
    report = previewed("--cluster", recorded, "--delete", "nodepool/default")

    assert report["course"]["reasons"] == {"Deleted": 6}
    assert {entry["workload"] for entry in report["pods_without_node"]} == {"shop/web", "shop/db"}
    assert all(entry["message"] for entry in report["pods_without_node"])
    # Pods that find no node use up the PodDisruptionBudget of the others.
    assert len(report["kept_nodes"]) == 6 - report["course"]["terminated"]
    assert {node["blocker"] for node in report["kept_nodes"]} == {"PodDisruptionBudget shop/web"}


def test_objects_that_a_file_lost_are_deleted(recorded: str, tmp_path: Path) -> None:
    old, new = tmp_path / "old.yaml", tmp_path / "new.yaml"
    old.write_text(yaml.safe_dump_all([a_pool(), an_app("db", replicas=5)]))
    new.write_text(yaml.safe_dump_all([a_pool()]))

    report = previewed("--cluster", recorded, "-f", str(new), "--delete-file", str(old))

    assert report["changes"] == ["Deployment shop/db: deleted"]
    assert report["difference"]["pods"] == -5


def test_a_poddisruptionbudget_that_blocks_a_new_image_is_named(recorded: str, tmp_path: Path) -> None:
    file = a_file(tmp_path, a_pdb("web", maxUnavailable=0))

    report = previewed("--cluster", recorded, "-f", file, "--new-image")

    assert len(report["kept_nodes"]) == 6
    assert {node["blocker"] for node in report["kept_nodes"]} == {"PodDisruptionBudget shop/web"}
    assert {node["reason"] for node in report["kept_nodes"]} == {"Drifted"}


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--new-image",), "Drifted"),
        (("--new-image", "default"), "Drifted"),
        (("--upgrade", "1.37"), "Drifted"),
        (("--interrupt", "50%"), "Interrupted"),
        (("--zone-outage", "us-east-1a"), "Interrupted"),
    ],
)
def test_events_of_aws_make_nodes_go(recorded: str, arguments: tuple[str, ...], reason: str) -> None:
    report = previewed("--cluster", recorded, *arguments)

    assert set(report["course"]["reasons"]) == {reason}
    assert report["course"]["launched"] > 0


@pytest.mark.parametrize(
    ("terms", "arguments", "reason"),
    [
        (None, ("--new-image",), "there is no EC2NodeClass"),
        (
            [{"id": "ami-0123456789abcdef0"}],
            ("--new-image", "default"),
            "no EC2NodeClass selects the latest AMI: default selects id ami-0123456789abcdef0",
        ),
        (
            [{"alias": "al2023@v20250101"}],
            ("--new-image",),
            "no EC2NodeClass selects the latest AMI: default selects alias al2023@v20250101",
        ),
        (
            [{"id": "ami-0123456789abcdef0"}],
            ("--upgrade", "1.37"),
            "AMIs follow the version only if an alias selects them",
        ),
        (None, ("--upgrade", "1.37"), "there is no EC2NodeClass"),
    ],
)
def test_new_images_that_no_node_class_selects_change_nothing_and_the_reason_is_named(
    recorded: str, tmp_path: Path, terms: list[dict[str, str]] | None, arguments: tuple[str, ...], reason: str
) -> None:
    objects = json.loads(Path(recorded).read_text())["items"]
    node_class = next(obj for obj in objects if obj["kind"] == "EC2NodeClass")
    if terms is None:
        objects.remove(node_class)
    else:
        node_class["spec"]["amiSelectorTerms"] = terms
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": objects}))

    report = previewed("--cluster", str(path), *arguments)
    table = preview("--cluster", str(path), *arguments)

    assert report["changes"] == []
    assert reason in report["unchanged"][0]
    assert report["notes"] == ["The change has no effect on this cluster."]
    assert report["course"]["launched"] == report["course"]["terminated"] == 0
    assert "changes nothing" in " ".join(table.stdout.split())


def test_a_node_without_its_nodeclaim_is_kept_and_its_instance_id_is_not_used_again(tmp_path: Path) -> None:
    # A dump of a simulation with the same seed: new instances would get its IDs.
    example = Path(__file__).parents[3] / "examples/preview/cluster.json"
    objects = json.loads(example.read_text())["items"]
    claim = next(obj for obj in objects if obj["metadata"]["name"] == "default-5rm8c")
    objects.remove(claim)
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": objects}))

    report = previewed("--cluster", str(path), "--new-image")

    assert any(claim["status"]["nodeName"] in text for text in report["assumptions"])
    assert report["course"]["launched"] > 0


def test_a_misspelt_limit_gets_a_suggestion_that_ends_with_its_question_mark(recorded: str) -> None:
    result = preview("--cluster", recorded, "--new-image", "--fail-on", "availabel(shop/web)<3")

    assert result.exit_code == 1
    assert result.stderr.strip().endswith("did you mean 'available(shop/web)<80%'?")


def test_an_interruption_without_spot_instances_changes_nothing(tmp_path: Path) -> None:
    cluster = build_real_cluster(a_shop(pool=a_pool(requirements=ON_DEMAND)))
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"kind": "List", "items": list(dump(cluster).objects)}))

    report = previewed("--cluster", str(path), "--interrupt", "30%")

    assert report["unchanged"] == [
        "Interruption of 30% of the spot instances (no NodePool has a spot instance)"
    ]


@pytest.mark.parametrize("version", ["1.36", "v1.36.3"])
def test_an_upgrade_to_the_version_that_runs_changes_nothing(recorded: str, version: str) -> None:
    report = previewed("--cluster", recorded, "--upgrade", version)

    assert report["changes"] == []
    assert "the cluster runs 1.36 already; a dump has only the version of its nodes" in report["unchanged"][0]
    assert report["notes"] == ["The change has no effect on this cluster."]
    assert report["course"]["launched"] == 0


def test_an_upgrade_to_a_version_that_is_not_known_yet_is_played_with_a_note(recorded: str) -> None:
    report = previewed("--cluster", recorded, "--upgrade", "1.37")

    assert report["changes"] == ["Control plane version 1.37"]
    assert "Kubernetes 1.37 is not known to this release, whose last one is 1.36." in report["notes"][0]


def test_a_setting_of_the_controller_is_a_change(recorded: str) -> None:
    report = previewed(
        "--cluster", recorded, "--set", "node-cost=0.5", "--gates", "SpotToSpotConsolidation=true"
    )

    assert report["changes"] == [
        "Setting node-cost: 0.5",
        "Setting feature-gates: SpotToSpotConsolidation=true",
    ]


def test_a_setting_that_the_cluster_has_already_is_no_change(recorded: str) -> None:
    report = previewed("--cluster", recorded, "--set", "node-cost=0.5", "--current", "node-cost=0.5")

    assert report["changes"] == []
    assert report["course"]["duration"] == report["course_without"]["duration"]


def test_equal_seeds_give_equal_previews(recorded: str) -> None:
    arguments = ("--cluster", recorded, "--interrupt", "50%", "--seed", "5")

    assert previewed(*arguments) == previewed(*arguments)


# Limits.


def test_a_broken_limit_exits_with_3_and_says_by_how_much(recorded: str, tmp_path: Path) -> None:
    file = a_file(tmp_path, a_pool(requirements=ON_DEMAND))

    result = preview("--cluster", recorded, "-f", file, "--fail-on", "cost>+5%", "--fail-on", "evictions>200")

    assert result.exit_code == 3
    assert result.output.startswith("Broken limits\n  cost>+5%: the cost changes by +154.1 %")
    assert "evictions>200" not in result.output


def test_a_limit_that_is_kept_exits_with_0(recorded: str) -> None:
    assert preview("--cluster", recorded, "--new-image", "--fail-on", "cost>+5%").exit_code == 0


# Output.


@pytest.mark.parametrize("arguments", [("--new-image",), ("--delete", "nodepool/default")])
def test_the_table_fits_80_columns(recorded: str, arguments: tuple[str, ...]) -> None:
    result = preview("--cluster", recorded, *arguments)

    assert result.exit_code == 0
    assert max(map(len, result.output.splitlines())) <= 80


def test_markdown_begins_with_a_marker_and_the_outcome(recorded: str) -> None:
    result = preview("--cluster", recorded, "--new-image", "--fail-on", "evictions>3", "-o", "markdown")

    lines = result.output.splitlines()
    assert result.exit_code == 3
    assert lines[:2] == [
        "<!-- dovetail preview -->",
        "### Preview of this change on the cluster: ❌ breaks a limit",
    ]
    assert "- evictions&gt;3: 16 evictions, 13 over the limit of 3" in lines


def test_html_is_one_page_without_scripts_and_network(recorded: str) -> None:
    result = preview("--cluster", recorded, "--new-image", "-o", "html")

    assert result.exit_code == 0
    assert result.output.count("<svg") == 3
    assert not re.search(r"<script|https?://|@import|src=|<link", result.output)
    assert "prefers-color-scheme: dark" in result.output


# Mistakes.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "Name a change"),
        (("--fail-on", "evictons>3"), "did you mean 'evictions>200'?"),
        (("--delete", "nodepol/x"), "did you mean 'nodepool'?"),
        (
            ("--delete", "nodepool/defaul"),
            "NodePool defaul does not exist in the cluster; did you mean 'default'",
        ),
        (("--new-image", "defaul"), "there is no EC2NodeClass 'defaul'; did you mean 'default'?"),
        (("--zone-outage", "us-east-1z"), "there is no zone 'us-east-1z'; did you mean 'us-east-1"),
        (("--interrupt", "130%"), "is not a share of the spot instances"),
        (("--upgrade", "latest"), "is not a Kubernetes version such as 1.36"),
        (("--upgrade", "1.35"), "the cluster runs 1.36; EKS cannot downgrade to 1.35; a dump has only"),
        (("--upgrade", "1.99"), "one minor version at a time: 1.37 first, then the next, up to 1.99"),
        (("--set", "node-csot=1"), "did you mean 'node-cost'?"),
        (("--set", "node-cost"), "is not node-cost=VALUE"),
        (("--set", "node-cost=cheap"), "node-cost: 'cheap' is not a number."),
        (("--set", "spot-to-spot-types=few"), "spot-to-spot-types: 'few' is not a whole number."),
        (("--gates", "Spot=true"), "'Spot' is not a feature gate"),
        (("--new-image", "--for", "3 weeks"), "is not a duration up to 30 days; examples: 90m, 24h, 7d"),
        (("-f", "missing.yaml"), "missing.yaml does not exist"),
        (("--new-image", "--fail-on", "available(shop/wb)<80%"), "did you mean 'shop/web'?"),
    ],
)
def test_a_mistake_is_explained_and_exits_with_1(
    recorded: str, arguments: tuple[str, ...], message: str
) -> None:
    result = preview("--cluster", recorded, *arguments)

    assert result.exit_code == 1
    assert message in re.sub(r"\s+", " ", result.output)


def test_a_file_that_the_api_server_would_refuse_is_refused_with_its_line(
    recorded: str, tmp_path: Path
) -> None:
    path = tmp_path / "changed.yaml"
    path.write_text(
        yaml.safe_dump({**a_pool(), "spec": {**a_pool()["spec"], "limts": {"cpu": "1"}}}, sort_keys=True)
    )

    result = preview("--cluster", recorded, "-f", str(path))

    assert result.exit_code == 1
    problem = r"spec\.limts: no such field; did you mean 'limits'\?"
    assert re.fullmatch(rf"error: {re.escape(str(path))}:\d+ {problem}\n", result.output)
