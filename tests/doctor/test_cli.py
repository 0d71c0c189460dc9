"""``dovetail doctor`` from the outside."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from dovetail.doctor.api_resources import CRDS
from tests.doctor.account import Account
from tests.doctor.cluster import Cluster
from tests.doctor.serving import on_a_thread
from tests.support.clusters import EXAMPLES, a_file
from tests.support.moto.door import Fault

POOL = {
    "name": "default",
    "limits": {"cpu": "100"},
}


@pytest.fixture(autouse=True)
def nobody_elses_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Have neither a cluster nor an account by accident."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


@pytest.fixture
def cluster(account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Cluster]:
    """A cluster that is served, with a kubeconfig that leads to it and an account beside."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", account.moto.url)
    made = Cluster(account.instance)
    with on_a_thread(made) as config:
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(config))
        monkeypatch.setenv("KUBECONFIG", str(path))
        yield made


def doctor(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["doctor", *arguments])


def test_a_healthy_cluster_ends_with_0_and_says_what_no_file_told(cluster: Cluster) -> None:
    result = doctor()

    assert result.exit_code == 0, result.output
    assert "nothing is wrong" in result.stdout
    assert "no plan was given" in result.stdout
    assert "45 checks made of cluster demo, 5 not" in result.stdout


def test_what_is_wrong_is_told_with_what_mends_it_and_ends_with_2(
    cluster: Cluster, account: Account
) -> None:
    account.keep_out()
    cluster.pool(lambda spec: spec.pop("limits"))

    result = doctor()

    assert result.exit_code == 2
    lines = result.stdout.splitlines()
    assert lines.index("Broken") < lines.index("At risk")
    assert "  I1  role/demo-node  node role unknown to the cluster" in lines
    assert (
        "       mend   aws eks create-access-entry --cluster-name demo --principal-arn "
        f"{account.node_role_arn} --type EC2_LINUX" in lines
    )
    assert "  P9  NodePool/default  no pool limits" in lines


def test_findings_are_documents_for_scripts(cluster: Cluster) -> None:
    cluster.pool(lambda spec: spec.pop("limits"))

    result = doctor("-o", "json", "--only", "P9", "--only", "T4")

    told = json.loads(result.stdout)
    assert result.exit_code == 2
    assert told["checked"] == ["P9"]
    assert [(one["code"], one["severity"], one["about"]) for one in told["findings"]] == [
        ("P9", "risk", "NodePool/default")
    ]
    assert set(told["findings"][0]) == {
        "code",
        "title",
        "severity",
        "about",
        "seen",
        "wrong",
        "fix",
    }
    assert [one["code"] for one in told["skipped"]] == ["T4"]


def test_a_part_of_aws_that_refuses_is_not_called_fine(cluster: Cluster, account: Account) -> None:
    refused = Fault(operation="DescribeSubnets", code="UnauthorizedOperation", status=403, times=99)
    account.moto.door.script(refused)

    result = doctor()

    assert result.exit_code == 0
    (line,) = [one for one in result.stdout.splitlines() if "UnauthorizedOperation" in one]
    assert line.endswith(": N1, N2, N4, N7, N8")


def test_without_credentials_kubernetes_is_looked_at_all_the_same(
    cluster: Cluster, account: Account
) -> None:
    wrong = Fault(operation="GetCallerIdentity", code="ExpiredToken", status=403, times=99)
    account.moto.door.script(wrong)
    cluster.pool(lambda spec: spec.pop("limits"))

    result = doctor()

    assert result.exit_code == 2
    assert "P9" in result.stdout
    assert "ExpiredToken" in result.stdout


def test_files_alone_are_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_bytes(a_file(nodePools=[POOL]))

    result = doctor("-f", str(path), "--no-aws", "--only", "P9", "--only", "K11")

    assert (result.exit_code, result.stdout) == (
        0,
        "2 checks made of cluster dev, 0 not: nothing is wrong.\n",
    )


def test_nothing_at_all_to_look_at_is_no_clean_bill(tmp_path: Path) -> None:
    result = doctor("--no-aws", "--only", "P9")

    assert result.exit_code == 1
    assert "nothing could be looked at" in result.stderr
    assert "this is no pod of a cluster" in result.stderr


def test_a_context_that_is_not_there_is_bad_input(cluster: Cluster) -> None:
    result = doctor("--context", "other")

    assert result.exit_code == 1
    assert "there is no 'other'" in result.stderr


def test_a_code_that_is_none_gets_a_suggestion() -> None:
    result = doctor("--only", "P99")

    assert result.exit_code == 1
    assert "there is no check 'P99'; did you mean P9?" in result.stderr


def test_a_kind_that_is_not_served_leaves_its_checks_unmade(cluster: Cluster) -> None:
    del cluster.elsewhere[CRDS]

    result = doctor("--no-aws", "--only", "K5", "--only", "P9")

    assert result.exit_code == 0
    assert "the API server does not know customresourcedefinitions.apiextensions.k8s.io: K5" in (
        result.stdout
    )


def test_a_file_and_aws_are_enough_to_find_what_a_class_will_not_find(
    account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", account.moto.url)
    path = tmp_path / "cluster.yaml"
    path.write_bytes(a_file(name="demo"))
    account.ec2.delete_tags(Resources=account.subnets, Tags=[{"Key": "karpenter.sh/discovery"}])

    result = doctor("-f", str(path), "--no-kubernetes", "--only", "N3", "--only", "I8")

    assert result.exit_code == 2
    assert "EC2 has nothing for subnetSelectorTerms" in result.stdout
    assert "2 checks made of cluster demo, 0 not: 1 findings in 1 of them." in result.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda one: one.stem)
def test_of_the_examples_nothing_is_said_but_that_images_are_not_pinned(path: Path) -> None:
    words = ["doctor", "-f", str(path), "--no-kubernetes", "--no-aws", "-o", "json"]

    done = CliRunner().invoke(cli, words)

    # Which versions there are is known only where the cluster is.
    assert {one["code"] for one in json.loads(done.stdout)["findings"]} == {"P1"}


def test_a_profile_that_is_not_there_spoils_only_what_aws_would_have_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobodys")

    done = CliRunner().invoke(cli, ["doctor", "-f", str(EXAMPLES[0]), "--no-kubernetes"])

    assert done.exit_code == 2, done.output
    assert "The config profile (nobodys) could not be found; log in" in done.output
    assert "10 checks made" in done.output
