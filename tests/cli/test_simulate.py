"""``dovetail simulate`` from files on disk to exit codes."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from dovetail.cli.main import cli

WEB = """\
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
        - name: web
          image: web
          resources: {requests: {cpu: 500m, memory: 1Gi}}
"""
POOL = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: general}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: kubernetes.io/arch, operator: In, values: [amd64]}
        - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
        - {key: karpenter.k8s.aws/instance-family, operator: In, values: [m5]}
"""
HUGE = WEB.replace("cpu: 500m", "cpu: 5000")


def simulate(tmp_path: Path, *texts: str, args: tuple[str, ...] = ()) -> Result:
    """Run the command on files with these texts."""
    for number, text in enumerate(texts):
        (tmp_path / f"{number}.yaml").write_text(text)
    return CliRunner().invoke(cli, ["simulate", "-f", str(tmp_path), *args])


def document(result: Result) -> dict[str, list[dict[str, object]]]:
    read: dict[str, list[dict[str, object]]] = json.loads(result.stdout)
    return read


def test_pods_that_all_find_a_node_end_with_0_and_a_price(tmp_path: Path) -> None:
    result = simulate(tmp_path, WEB, POOL)

    assert result.exit_code == 0, result.output
    assert "1 new node for 3 pods: $" in result.stdout
    assert "web × 3" in result.stdout
    assert "Prices: " in result.stdout


def test_a_pod_that_no_node_could_hold_ends_with_2_and_the_reason(tmp_path: Path) -> None:
    result = simulate(tmp_path, HUGE, POOL)

    assert result.exit_code == 2, result.output
    assert "No node for 3 pods" in result.stdout
    assert re.search(r"general +resources +.*cpu", result.stdout, re.IGNORECASE)


def test_json_has_the_promised_fields_and_only_those(tmp_path: Path) -> None:
    result = simulate(tmp_path, WEB, POOL, args=("-o", "json"))

    plan = json.loads(result.stdout)
    assert list(plan) == ["nodes", "existing", "unplaced", "totals", "prices"]
    assert list(plan["nodes"][0]) == [
        *("name", "nodepool", "instance_type", "alternatives", "zone", "capacity_type"),
        *("price_per_hour", "pods", "requested", "allocatable"),
    ]
    assert plan["nodes"][0]["nodepool"] == "general"
    assert plan["nodes"][0]["instance_type"].startswith("m5.")
    assert len(plan["nodes"][0]["pods"]) == 3
    assert list(plan["totals"]) == ["nodes", "pods", "price_per_hour", "price_per_month"]
    assert list(plan["prices"]) == ["source", "date"]
    assert plan["prices"]["source"]


def test_json_of_a_refusal_names_pool_constraint_and_message(tmp_path: Path) -> None:
    result = simulate(tmp_path, HUGE, POOL, args=("-o", "json"))

    [first, *_] = document(result)["unplaced"]
    assert result.exit_code == 2
    assert list(first) == ["pod", "refusals"]
    assert isinstance(first["refusals"], list)
    assert list(first["refusals"][0]) == ["nodepool", "constraint", "message"]
    assert first["refusals"][0]["nodepool"] == "general"


def test_yaml_says_the_same_as_json(tmp_path: Path) -> None:
    as_json = simulate(tmp_path, WEB, POOL, args=("-o", "json"))
    as_yaml = simulate(tmp_path, WEB, POOL, args=("-o", "yaml"))

    assert yaml.safe_load(as_yaml.stdout) == json.loads(as_json.stdout)


def test_two_runs_print_the_same_text(tmp_path: Path) -> None:
    first, second = (simulate(tmp_path, WEB, POOL) for _ in range(2))

    assert first.stdout == second.stdout


def test_without_a_node_pool_a_default_one_is_used_and_said(tmp_path: Path) -> None:
    result = simulate(tmp_path, WEB)

    assert result.exit_code == 0, result.output
    assert "Note: no NodePool given" in result.stdout


def test_notes_do_not_disturb_json(tmp_path: Path) -> None:
    result = simulate(tmp_path, WEB, args=("-o", "json"))

    assert json.loads(result.stdout)
    assert "note: no NodePool given" in result.stderr


def test_spot_is_bought_where_the_pool_allows_it_and_it_is_cheaper(tmp_path: Path) -> None:
    result = simulate(tmp_path, WEB, POOL, args=("-o", "json"))

    assert {node["capacity_type"] for node in document(result)["nodes"]} == {"spot"}


def test_the_region_asked_for_is_the_region_bought_in(tmp_path: Path) -> None:
    result = simulate(tmp_path, WEB, args=("-o", "json", "--region", "eu-west-1"))

    assert all(str(node["zone"]).startswith("eu-west-1") for node in document(result)["nodes"])


def test_only_the_zones_asked_for_are_bought_in(tmp_path: Path) -> None:
    result = simulate(tmp_path, WEB, args=("-o", "json", "--zones", "us-east-1b"))

    assert [node["zone"] for node in document(result)["nodes"]] == ["us-east-1b"]


def test_a_price_book_of_ones_own_sets_the_price(tmp_path: Path) -> None:
    book = tmp_path / "book.csv"
    book.write_text(
        "# date: 2026-08-22\n"
        "instance_type,region,zone_id,on_demand_usd_per_hour,spot_usd_per_hour\n"
        "m5.large,us-east-1,use1-az1,0.5,\n"
        "m5.2xlarge,us-east-1,use1-az1,0.01,\n"
    )

    result = simulate(tmp_path, WEB, POOL, args=("-o", "json", "--prices", str(book)))

    plan = json.loads(result.stdout)
    assert plan["nodes"][0]["instance_type"] == "m5.2xlarge"
    assert plan["totals"]["price_per_hour"] == 0.01
    assert plan["prices"] == {"source": str(book), "date": "2026-08-22"}


def test_manifests_can_come_from_stdin() -> None:
    result = CliRunner().invoke(cli, ["simulate", "-f", "-"], input=WEB)

    assert result.exit_code == 0, result.output
    assert "3 pods" in result.stdout


def test_what_a_shell_makes_of_a_glob_is_understood(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(WEB)
    (tmp_path / "b.yaml").write_text(POOL)
    named = [str(tmp_path / "a.yaml"), str(tmp_path / "b.yaml")]

    result = CliRunner().invoke(cli, ["simulate", "-f", *named])

    assert result.exit_code == 0, result.output
    assert "general" in result.stdout


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: [Pod\n", r"0\.yaml:2 "),
        ("", r"0\.yaml"),
        (WEB.replace("cpu: 500m", "cpu: -1"), r"0\.yaml:13 .*cpu.*-1"),
        (WEB.replace("cpu: 500m", "cpu: lots"), r"0\.yaml:13 .*cpu.*'lots' is no quantity"),
        (
            POOL.replace("spot, on-demand", "spot, on_demand"),
            r"0\.yaml:10 .*on_demand.*'on-demand'",
        ),
        (POOL.replace("operator: In", "operator: Is"), r"0\.yaml:9 .*'Is'"),
    ],
    ids=["malformed", "empty", "negative", "no quantity", "capacity type", "operator"],
)
def test_a_mistake_is_told_with_file_and_line_on_stderr_and_ends_with_1(
    tmp_path: Path, text: str, said: str
) -> None:
    result = simulate(tmp_path, text)

    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    assert re.search(said, result.stderr), result.stderr
    assert "Traceback" not in result.stderr


def test_all_mistakes_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    result = simulate(
        tmp_path,
        WEB.replace("cpu: 500m", "cpu: -1").replace("replicas: 3", "replicas: many"),
        POOL.replace("on-demand", "on_demand"),
    )

    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 3


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["-f", "nowhere.yaml"], "nowhere.yaml there is no such file"),
        (["--region", "us-esat-1"], "did you mean 'us-east-1'?"),
        (["--zones", "us-east-1"], "is no zone of us-east-1"),
        (["--prices", "nowhere.csv"], "nowhere.csv there is no such file"),
        (["-o", "xml"], "'xml' is not one of"),
        (["--nonsense"], "No such option"),
    ],
)
def test_a_mistake_on_the_command_line_ends_with_1(
    tmp_path: Path, args: list[str], said: str
) -> None:
    result = simulate(tmp_path, WEB, args=tuple(args))

    assert result.exit_code == 1, result.output
    assert said in result.stderr
    assert "Traceback" not in result.stderr


def test_nothing_named_is_a_mistake() -> None:
    result = CliRunner().invoke(cli, ["simulate"])

    assert result.exit_code == 1
    assert "-f PATH" in result.stderr


def test_a_reader_that_stops_early_sees_no_traceback(
    tmp_path: Path,
) -> None:
    (tmp_path / "web.yaml").write_text(WEB)
    command = [sys.executable, "-m", "dovetail", "simulate", "-f", str(tmp_path), "-o", "json"]

    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert running.stdout is not None
    assert running.stderr is not None
    running.stdout.close()
    complaints = running.stderr.read().decode()
    running.stderr.close()

    assert running.wait() == 141
    assert "Traceback" not in complaints
    assert "Exception" not in complaints


def test_piped_tables_carry_no_colour_codes_and_no_trailing_blanks(tmp_path: Path) -> None:
    (tmp_path / "web.yaml").write_text(WEB)

    done = subprocess.run(
        [sys.executable, "-m", "dovetail", "simulate", "-f", str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "\x1b" not in done.stdout
    assert all(line == line.rstrip() for line in done.stdout.splitlines())
