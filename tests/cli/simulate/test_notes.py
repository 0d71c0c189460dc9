"""Notes of ``dovetail simulate`` on files that another command or option fits better."""

import json
from pathlib import Path

import yaml
from click.testing import CliRunner

from dovetail.cli.main import cli
from tests.cli.runs import LIVE, POOL, simulate

DUMP = str(Path(__file__).resolve().parents[3] / "examples" / "preview" / "cluster.json")
ARM = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: default}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: default}
      requirements:
        - {key: kubernetes.io/arch, operator: In, values: [arm64]}
"""


def test_nodes_that_no_longer_match_their_nodepool_are_counted_and_the_preview_is_named(
    tmp_path: Path,
) -> None:
    pool = tmp_path / "pool.yaml"
    pool.write_text(ARM)

    result = CliRunner().invoke(cli, ["simulate", "--cluster", DUMP, "-f", str(pool)])

    assert result.exit_code == 0, result.output
    assert (
        "Note: drift replaces 6 nodes of NodePool default; preview it with: dovetail preview" in result.stdout
    )
    assert f"--cluster {DUMP} -f {pool}" in result.stdout
    assert "Nothing" not in result.stdout


def test_nodes_that_match_their_nodepool_get_no_note() -> None:
    result = CliRunner().invoke(cli, ["simulate", "--cluster", DUMP, "-o", "json"])

    assert "drift" not in result.stderr


def test_nodes_that_had_drifted_before_get_no_note(tmp_path: Path) -> None:
    pool, pod = tmp_path / "pool.yaml", tmp_path / "pod.yaml"
    pool.write_text(ARM)
    pod.write_text(
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {containers: [{name: a, image: a}]}\n"
    )
    dump = json.loads(Path(DUMP).read_text())
    for item in dump["items"]:
        if item["kind"] == "NodePool":
            item["spec"] = yaml.safe_load(ARM)["spec"]
    drifted = tmp_path / "drifted.json"
    drifted.write_text(json.dumps(dump))

    for files in ([pod], [pod, pool]):
        given = [part for file in files for part in ("-f", str(file))]
        result = CliRunner().invoke(cli, ["simulate", "--cluster", str(drifted), *given])

        assert result.exit_code == 0, result.output
        assert "drift replaces" not in result.stdout


def test_a_dump_among_the_manifests_gets_a_note_that_names_the_option(tmp_path: Path) -> None:
    result = simulate(tmp_path, LIVE, POOL)

    assert f"needs its dump: dovetail simulate --cluster {tmp_path}" in result.stdout


WINDOWS = """\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata: {name: win}
spec:
  template:
    spec:
      nodeClassRef: {group: karpenter.k8s.aws, kind: EC2NodeClass, name: win}
      requirements:
        - {key: kubernetes.io/os, operator: In, values: [windows]}
---
apiVersion: karpenter.k8s.aws/v1
kind: EC2NodeClass
metadata: {name: win}
spec:
  role: nodes
  amiSelectorTerms: [{alias: windows2022@latest}]
  subnetSelectorTerms: [{tags: {team: a}}]
  securityGroupSelectorTerms: [{tags: {team: a}}]
---
apiVersion: v1
kind: Pod
metadata: {name: iis}
spec:
  nodeSelector: {kubernetes.io/os: windows}
  containers: [{name: main, image: iis, resources: {requests: {cpu: "1", memory: 1Gi}}}]
---
apiVersion: v1
kind: Pod
metadata: {name: anywhere}
spec:
  containers: [{name: main, image: app, resources: {requests: {cpu: "1", memory: 1Gi}}}]
"""


def test_pods_without_an_operating_system_on_windows_nodes_are_named(tmp_path: Path) -> None:
    result = simulate(tmp_path, WINDOWS)

    assert "Note: 1 pod without an operating system on Windows nodes: anywhere; Linux pods" in result.stdout
