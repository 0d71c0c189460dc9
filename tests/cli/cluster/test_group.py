"""``dovetail cluster plan``, ``apply``, ``status`` and ``destroy`` as a user runs them."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from tests.support import helmprogram
from tests.support.clusters import EXAMPLES, a_file
from tests.support.moto.account import TestAccount, an_account

ROOT = Path(__file__).parents[3]
TAINTED = next(one for one in EXAMPLES if one.stem == "tainted-node-group")
Run = Callable[..., Result]


@pytest.fixture
def account() -> Iterator[TestAccount]:
    with an_account() as made:
        made.eks.instant = True
        yield made


@pytest.fixture
def environment(account: TestAccount, tmp_path: Path) -> dict[str, str]:
    """Return an environment with this account, and a helm."""
    helm = tmp_path / "bin" / "helm"
    helm.parent.mkdir()
    helm.write_text(f'#!/bin/sh\nexec {sys.executable} -P {helmprogram.__file__} "$@"\n')
    helm.chmod(0o755)
    return {
        "AWS_ENDPOINT_URL": account.moto.url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "KUBECONFIG": str(tmp_path / "kubeconfig"),
        "PATH": f"{helm.parent}:{os.environ['PATH']}",
    }


@pytest.fixture
def run(environment: dict[str, str]) -> Run:
    """Return what runs the command in that environment."""

    def invoke(*words: str, given: bytes = b"", **more: str) -> Result:
        env = {**environment, **more}
        return CliRunner().invoke(cli, ["cluster", *words], input=given, env=env)

    return invoke


def test_from_an_empty_account_to_a_cluster_and_back(run: Run, tmp_path: Path) -> None:
    planned = run("plan", "-f", str(TAINTED))
    applied = run("apply", "-f", str(TAINTED), "--yes")
    again = run("plan", "-f", str(TAINTED))
    seen = run("status", "-f", str(TAINTED), "-o", "json")
    config = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    destroyed = run("destroy", "-f", str(TAINTED), "--yes")

    assert planned.exit_code == 2, planned.output
    assert "+ EKS cluster karpenter-mng" in planned.output
    assert "60 to make" in planned.output
    assert "$249.66 a month" in planned.output
    assert applied.exit_code == 0, applied.output
    assert "[60/60]" in applied.output
    assert "controllerRoleArn" in applied.output
    assert config["current-context"] == "karpenter-mng"
    assert again.exit_code == 0, again.output
    assert "nothing to do" in again.output
    assert seen.exit_code == 0, seen.output
    assert {one["state"] for one in json.loads(seen.stdout)} == {"as wanted"}
    assert destroyed.exit_code == 0, destroyed.output
    assert "nothing is left" in destroyed.output
    emptied = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    assert [emptied[key] for key in ("clusters", "contexts", "users")] == [[], [], []]


def test_a_plan_for_programs_says_the_same(run: Run) -> None:
    done = run("plan", "-f", str(TAINTED), "-o", "json")

    told = json.loads(done.stdout)
    assert done.exit_code == 2
    assert len(told["steps"]) == 60
    assert told["steps"][0]["verb"] == "create"
    assert told["monthlyUsd"] == 249.66


def test_making_and_taking_away_can_be_told_to_programs(account: TestAccount, run: Run) -> None:
    account.client("logs", "us-west-2").create_log_group(
        logGroupName="/aws/eks/karpenter-mng/cluster"
    )
    tried = json.loads(run("apply", "-f", str(TAINTED), "--dry-run", "-o", "json").stdout)
    made = json.loads(run("apply", "-f", str(TAINTED), "--yes", "-o", "json").stdout)
    done = run("destroy", "-f", str(TAINTED), "--yes", "-o", "json")
    gone = json.loads(done.stdout)

    assert len(tried["steps"]) == len(made["done"]) == 60
    assert made["left"] == []
    assert made["outputs"]["clusterName"] == "karpenter-mng"
    assert made["outputs"]["endpoint"].startswith("https://")
    assert done.exit_code == 2
    assert len(gone["removed"]) == 60
    assert gone["leftBehind"] == [
        {"what": "log group", "name": "/aws/eks/karpenter-mng/cluster", "why": ""}
    ]


def test_a_dry_run_says_every_step_and_changes_nothing(account: TestAccount, run: Run) -> None:
    done = run("apply", "-f", str(TAINTED), "--dry-run")

    assert done.exit_code == 0, done.output
    assert "create EKS cluster karpenter-mng: the control plane" in done.output
    writes = [one for one in account.moto.door.calls if one.startswith(("Create", "POST"))]
    assert writes == []


def test_without_a_terminal_nothing_is_done_that_was_not_agreed_to(
    account: TestAccount, run: Run
) -> None:
    done = run("apply", "-f", str(TAINTED))

    assert done.exit_code == 1
    assert "say --yes" in done.output
    assert account.eks.clusters == {}


def test_ctrl_c_lets_what_is_under_way_end_and_says_how_to_go_on(
    account: TestAccount, environment: dict[str, str]
) -> None:
    words = [sys.executable, "-m", "dovetail", "cluster", "apply", "-f", str(TAINTED), "--yes"]
    with subprocess.Popen(
        words, env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stderr is not None
        first = next(line for line in process.stderr if line.startswith("[1/60]"))

        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()

    assert first
    assert process.returncode == 130, rest
    assert "go on with: dovetail cluster apply -f" in rest
    assert account.apply(account.prepared("tainted-node-group")).done
    assert account.plan(account.prepared("tainted-node-group")).steps == ()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_second_signal_ends_at_once_without_a_wall_of_text(
    account: TestAccount, environment: dict[str, str], sent: signal.Signals
) -> None:
    account.moto.door.latency["POST /clusters"] = 20
    words = [sys.executable, "-m", "dovetail", "cluster", "apply", "-f", str(TAINTED), "--yes"]
    with subprocess.Popen(
        words, env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if "made IAM role karpenter-mng-cluster" in line)

        process.send_signal(sent)
        next(line for line in process.stderr if "Ctrl-C again ends it at once" in line)
        process.send_signal(sent)
        rest = process.stderr.read()

    assert process.returncode == 130, rest
    assert "the same command goes on with it" in rest
    assert "Traceback" not in rest


def test_a_profile_that_is_not_there_is_said_to_be_so(run: Run) -> None:
    done = run("plan", "-f", str(TAINTED), AWS_PROFILE="nobodys")

    assert done.exit_code == 1
    assert "The config profile (nobodys) could not be found; log in" in done.output


def test_a_mistyped_command_is_guessed_at(run: Run) -> None:
    done = run("aply", "-f", str(TAINTED))

    assert done.exit_code == 1
    assert "Did you mean 'apply'?" in done.output


def test_another_account_than_the_files_is_refused_before_anything_is_read(
    account: TestAccount, run: Run
) -> None:
    done = run("plan", "-f", "-", given=a_file(account="999999999999"))

    assert done.exit_code == 1
    assert "account: is 999999999999, and the credentials are of 123456789012" in done.output
    assert set(account.moto.door.calls) == {"GetCallerIdentity"}


def test_what_should_have_been_there_before_is_named(run: Run) -> None:
    guest = next(one for one in EXAMPLES if one.stem == "existing-cluster")

    done = run("plan", "-f", str(guest))

    assert done.exit_code == 2
    assert "EKS cluster platform-one should be there and is not" in done.output


def test_without_helm_nothing_is_begun(account: TestAccount, run: Run, tmp_path: Path) -> None:
    done = run("apply", "-f", str(TAINTED), "--yes", PATH=str(tmp_path))

    assert done.exit_code == 1
    assert "helm is not on the PATH" in done.output
    assert account.eks.clusters == {}


def test_a_chart_that_is_not_there_is_named_before_anything_is_begun(
    account: TestAccount, run: Run
) -> None:
    image = "registry.example.com/dovetail:1"
    wrong = a_file(controller={"image": image, "chart": "./no/such/chart"})

    done = run("apply", "-f", "-", "--yes", given=wrong)

    assert done.exit_code == 1
    assert "there is no chart at ./no/such/chart" in done.output
    assert account.eks.clusters == {}
