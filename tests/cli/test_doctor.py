"""``dovetail doctor`` as a user runs it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from dovetail.doctor.api_resources import FLOW_SCHEMAS
from tests.doctor.account import Account
from tests.doctor.cluster import Cluster
from tests.doctor.conftest import account, moto_servers, session
from tests.doctor.server import serve_in_thread
from tests.support.eks.configs import EXAMPLES, a_file
from tests.support.moto.middleware import ScriptedError

__all__ = ["account", "moto_servers", "session"]
"""Fixtures."""
POOL = {"name": "default", "limits": {"cpu": "100"}}


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the cluster and account of the environment."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


@pytest.fixture
def cluster(account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Cluster]:
    """A served cluster, with KUBECONFIG and an account for it."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", account.moto.url)
    served = Cluster(account.instance)
    with serve_in_thread(served) as config:
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(config))
        monkeypatch.setenv("KUBECONFIG", str(path))
        yield served


def doctor(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["doctor", *arguments])


def test_healthy_cluster_exits_with_0_and_lists_missing_files(cluster: Cluster) -> None:
    result = doctor()

    assert result.exit_code == 0, result.output
    assert "no findings" in result.stdout
    assert "no Terraform plan" in result.stdout
    assert "60 checks ran of cluster demo, 5 did not" in result.stdout


def test_findings_are_printed_with_their_fix_and_exit_with_2(cluster: Cluster, account: Account) -> None:
    account.delete_access_entry()
    cluster.pool(lambda spec: spec.pop("limits"))

    result = doctor()

    assert result.exit_code == 2
    lines = result.stdout.splitlines()
    assert lines.index("Broken") < lines.index("At risk")
    assert "  I1  role/demo-node  node role unknown to the cluster" in lines
    assert (
        "       fix    aws eks create-access-entry --cluster-name demo --principal-arn "
        f"{account.node_role_arn} --type EC2_LINUX" in lines
    )
    assert "  P9  NodePool/default  no NodePool limits" in lines


@pytest.mark.parametrize(("options", "code"), [((), 0), (("--strict",), 2)])
def test_advice_alone_exits_with_2_only_if_strict(
    options: tuple[str, ...], code: int, cluster: Cluster
) -> None:
    latest = [{"alias": "al2023@latest"}]
    cluster.node_class(lambda node_class: node_class["spec"].update(amiSelectorTerms=latest))

    result = doctor("--only", "P1", "--no-aws", *options)

    assert result.exit_code == code
    assert "Could be better" in result.stdout


def test_findings_as_json(cluster: Cluster) -> None:
    cluster.pool(lambda spec: spec.pop("limits"))

    result = doctor("-o", "json", "--only", "P9", "--only", "T4")

    report = json.loads(result.stdout)
    assert result.exit_code == 2
    assert report["checked"] == ["P9"]
    assert [(finding["code"], finding["severity"], finding["about"]) for finding in report["findings"]] == [
        ("P9", "risk", "NodePool/default")
    ]
    assert set(report["findings"][0]) == {"code", "title", "severity", "about", "seen", "wrong", "fix"}
    assert [check["code"] for check in report["skipped"]] == ["T4"]


def test_denied_aws_call_skips_its_checks(cluster: Cluster, account: Account) -> None:
    denied = ScriptedError(operation="DescribeSubnets", code="UnauthorizedOperation", status=403, times=99)
    account.moto.middleware.add_error(denied)

    result = doctor()

    assert result.exit_code == 0
    (line,) = [line for line in result.stdout.splitlines() if "UnauthorizedOperation" in line]
    assert line.endswith(": N1, N2, N4, N7, N8, N9, N10")


def test_without_credentials_the_kubernetes_checks_still_run(cluster: Cluster, account: Account) -> None:
    expired = ScriptedError(operation="GetCallerIdentity", code="ExpiredToken", status=403, times=99)
    account.moto.middleware.add_error(expired)
    cluster.pool(lambda spec: spec.pop("limits"))

    result = doctor()

    assert result.exit_code == 2
    assert "P9" in result.stdout
    assert "ExpiredToken" in result.stdout


def test_files_alone_can_be_checked(tmp_path: Path) -> None:
    path = tmp_path / "cluster.yaml"
    path.write_bytes(a_file(nodePools=[POOL]))

    result = doctor("-f", str(path), "--no-aws", "--only", "P9", "--only", "K11")

    assert (result.exit_code, result.stdout) == (0, "2 checks ran of cluster dev, 0 did not: no findings.\n")


def test_no_runnable_check_is_an_error(tmp_path: Path) -> None:
    result = doctor("--no-aws", "--only", "P9")

    assert result.exit_code == 1
    assert "no check could run" in result.stderr
    assert "not in $KUBECONFIG" in result.stderr


def test_a_region_that_nothing_names_is_not_shown_as_an_empty_name() -> None:
    result = doctor("--no-aws")

    assert "the region is not known; set --region" in result.stderr
    assert "''" not in result.stderr


def test_unknown_context_is_bad_input(cluster: Cluster) -> None:
    result = doctor("--context", "other")

    assert result.exit_code == 1
    assert "there is no 'other'" in result.stderr


def test_unknown_check_gets_a_suggestion() -> None:
    result = doctor("--only", "P99")

    assert result.exit_code == 1
    assert "there is no check 'P99'; did you mean P9?" in result.stderr


def test_kind_that_the_api_server_does_not_know_skips_its_checks(cluster: Cluster) -> None:
    del cluster.extra_objects[FLOW_SCHEMAS]

    result = doctor("--no-aws", "--only", "K10", "--only", "P9")

    assert result.exit_code == 0
    assert "the API server does not know flowschemas.flowcontrol.apiserver.k8s.io: K10" in result.stdout


def test_selector_without_match_is_reported_from_a_file_and_aws(
    account: Account, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", account.moto.url)
    path = tmp_path / "cluster.yaml"
    path.write_bytes(a_file(name="demo"))
    account.ec2.delete_tags(Resources=account.subnets, Tags=[{"Key": "karpenter.sh/discovery"}])

    result = doctor("-f", str(path), "--no-kubernetes", "--only", "N3", "--only", "I8")

    assert result.exit_code == 2
    assert "EC2: no match for subnetSelectorTerms" in result.stdout
    assert "2 checks ran of cluster demo, 0 did not: 1 finding in 1 of them." in result.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_examples_have_no_findings_except_unpinned_amis(path: Path) -> None:
    words = ["doctor", "-f", str(path), "--no-kubernetes", "--no-aws", "-o", "json"]

    done = CliRunner().invoke(cli, words)

    # AMI versions depend on the region and the day, so examples cannot pin one.
    assert {finding["code"] for finding in json.loads(done.stdout)["findings"]} == {"P1"}


def test_unknown_aws_profile_skips_only_the_aws_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "missing")

    done = CliRunner().invoke(cli, ["doctor", "-f", str(EXAMPLES[0]), "--no-kubernetes"])

    assert done.exit_code == 0, done.output
    assert "The config profile (missing) could not be found; log in" in done.output
    assert "12 checks ran" in done.output
