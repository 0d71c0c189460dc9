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
from dovetail.eks.apply.lock import cluster_lock
from dovetail.eks.plan.resource import Account
from tests.support.eks.configs import EXAMPLES, a_file
from tests.support.helm import fake_program
from tests.support.moto.cluster_account import TestAccount, an_account

ROOT = Path(__file__).parents[3]
TAINTED = next(path for path in EXAMPLES if path.stem == "tainted-node-group")
Run = Callable[..., Result]


@pytest.fixture
def account() -> Iterator[TestAccount]:
    with an_account() as test_account:
        test_account.eks.instant = True
        yield test_account


@pytest.fixture
def environment(account: TestAccount, tmp_path: Path) -> dict[str, str]:
    """Return an environment with this account and a fake helm.

    All tests use the same account and cluster, so each test has a lock directory of its own.
    """
    helm = tmp_path / "bin" / "helm"
    helm.parent.mkdir()
    helm.write_text(f'#!/bin/sh\nexec {sys.executable} -P {fake_program.__file__} "$@"\n')
    helm.chmod(0o755)
    return {
        "AWS_ENDPOINT_URL": account.moto.url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "KUBECONFIG": str(tmp_path / "kubeconfig"),
        "PATH": f"{helm.parent}:{os.environ['PATH']}",
        "TMPDIR": str(tmp_path),
    }


@pytest.fixture
def run(environment: dict[str, str]) -> Run:
    """Return a function that runs a command in that environment."""

    def invoke(*arguments: str, stdin: bytes = b"", **variables: str) -> Result:
        env = {**environment, **variables}
        return CliRunner().invoke(cli, ["cluster", *arguments], input=stdin, env=env)

    return invoke


def test_cluster_is_created_in_an_empty_account_and_destroyed(run: Run, tmp_path: Path) -> None:
    planned = run("plan", "-f", str(TAINTED))
    applied = run("apply", "-f", str(TAINTED), "--yes")
    again = run("plan", "-f", str(TAINTED))
    status = run("status", "-f", str(TAINTED), "-o", "json")
    config = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    destroyed = run("destroy", "-f", str(TAINTED), "--yes")

    assert planned.exit_code == 2, planned.output
    assert "+ EKS cluster karpenter-mng" in planned.output
    assert "60 to create" in planned.output
    assert ".66 a month at list prices" in planned.output
    assert applied.exit_code == 0, applied.output
    assert "[60/60]" in applied.output
    assert "controllerRoleArn" in applied.output
    assert config["current-context"] == "arn:aws:eks:us-west-2:123456789012:cluster/karpenter-mng"
    assert again.exit_code == 0, again.output
    assert "nothing to do" in again.output
    assert status.exit_code == 0, status.output
    assert {row["state"] for row in json.loads(status.stdout)} == {"up to date"}
    assert destroyed.exit_code == 0, destroyed.output
    assert "nothing is left" in destroyed.output
    kubeconfig_after = yaml.safe_load((tmp_path / "kubeconfig").read_text())
    assert [kubeconfig_after[key] for key in ("clusters", "contexts", "users")] == [[], [], []]


@pytest.mark.slow
def test_outputs_are_the_policies_and_the_rendered_release_of_the_controller(run: Run) -> None:
    before = run("outputs", "-f", str(TAINTED))
    run("apply", "-f", str(TAINTED), "--yes")
    text = run("outputs", "-f", str(TAINTED))
    everything = json.loads(run("outputs", "-f", str(TAINTED), "-o", "json").stdout)
    manifest = run("outputs", "-f", str(TAINTED), "controllerManifest")
    role = run("outputs", "-f", str(TAINTED), "controllerRoleArn")
    unknown = run("outputs", "-f", str(TAINTED), "controlerRoleArn")

    assert before.exit_code == 2
    assert "controllerManifest: its resource does not exist; run dovetail cluster apply" in before.stderr
    assert text.exit_code == 0, text.output
    assert "6 policies" in text.stdout
    policy = everything["controllerPolicies"]["karpenter-mng-us-west-2-dovetail-NodeLifecycle"]
    assert policy["arn"].endswith(":policy/karpenter-mng-us-west-2-dovetail-NodeLifecycle")
    assert {"ec2:CreateFleet"} <= {
        action for statement in policy["document"]["Statement"] for action in _as_list(statement["Action"])
    }
    assert json.loads(manifest.stdout) == [{"kind": "ServiceAccount", "metadata": {"name": "dovetail"}}]
    assert role.stdout == "arn:aws:iam::123456789012:role/karpenter-mng-us-west-2-dovetail\n"
    assert unknown.exit_code == 1
    assert "did you mean 'controllerRoleArn'?" in unknown.stderr


def _as_list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def test_plan_as_json(run: Run) -> None:
    done = run("plan", "-f", str(TAINTED), "-o", "json")

    plan = json.loads(done.stdout)
    assert done.exit_code == 2
    assert len(plan["steps"]) == 60
    assert plan["steps"][0]["verb"] == "create"
    # The control plane costs more from the day on which standard support of its version ends.
    control_plane = next(step["monthlyUsd"] for step in plan["steps"] if step["kind"] == "eks-cluster")
    assert control_plane in (73, 438)
    assert plan["monthlyUsd"] == pytest.approx(176.66 + control_plane)
    assert any(note.startswith("NAT gateways: without the data") for note in plan["costNotes"])


def test_apply_and_destroy_as_json(account: TestAccount, run: Run) -> None:
    account.client("logs", "us-west-2").create_log_group(logGroupName="/aws/eks/karpenter-mng/cluster")
    dry_run = json.loads(run("apply", "-f", str(TAINTED), "--dry-run", "-o", "json").stdout)
    applied = json.loads(run("apply", "-f", str(TAINTED), "--yes", "-o", "json").stdout)
    done = run("destroy", "-f", str(TAINTED), "--yes", "-o", "json")
    destroyed = json.loads(done.stdout)

    assert len(dry_run["steps"]) == len(applied["done"]) == 60
    assert applied["left"] == []
    assert applied["outputs"]["clusterName"] == "karpenter-mng"
    assert applied["outputs"]["endpoint"].startswith("https://")
    assert done.exit_code == 2
    assert len(destroyed["removed"]) == 60
    assert destroyed["leftBehind"] == [
        {"what": "log group", "name": "/aws/eks/karpenter-mng/cluster", "why": ""}
    ]


def test_dry_run_prints_every_step_and_changes_nothing(account: TestAccount, run: Run) -> None:
    done = run("apply", "-f", str(TAINTED), "--dry-run")

    assert done.exit_code == 0, done.output
    assert "create EKS cluster karpenter-mng: the control plane" in done.output
    writes = [call for call in account.moto.middleware.calls if call.startswith(("Create", "POST"))]
    assert writes == []


def test_apply_without_a_terminal_requires_yes(account: TestAccount, run: Run) -> None:
    done = run("apply", "-f", str(TAINTED))

    assert done.exit_code == 1
    assert "pass --yes" in done.output
    assert account.eks.clusters == {}


def test_ctrl_c_finishes_running_steps_and_prints_the_command_to_continue(
    account: TestAccount, environment: dict[str, str]
) -> None:
    arguments = [sys.executable, "-m", "dovetail", "cluster", "apply", "-f", str(TAINTED), "--yes"]
    with subprocess.Popen(
        arguments, env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stderr is not None
        first = next(line for line in process.stderr if line.startswith("[1/60]"))

        process.send_signal(signal.SIGINT)
        rest = process.stderr.read()

    assert first
    assert process.returncode == 130, rest
    assert "continue with: dovetail cluster apply -f" in rest
    assert account.apply(account.prepared("tainted-node-group")).done
    assert account.plan(account.prepared("tainted-node-group")).steps == ()


def test_run_is_rejected_only_while_another_holds_the_lock_of_the_same_directory(
    run: Run, tmp_path: Path
) -> None:
    account = Account(account="123456789012", region="us-west-2")

    with cluster_lock(account, "karpenter-mng", directory=tmp_path):
        rejected = run("destroy", "-f", str(TAINTED), "--yes")
        allowed = run("destroy", "-f", str(TAINTED), "--yes", TMPDIR=str(tmp_path / "bin"))

    assert rejected.exit_code == 1
    assert "another run is changing karpenter-mng in us-west-2" in rejected.output
    assert allowed.exit_code == 0, allowed.output


@pytest.mark.parametrize("stop_signal", [signal.SIGINT, signal.SIGTERM])
def test_second_signal_aborts_without_a_traceback(
    account: TestAccount, environment: dict[str, str], stop_signal: signal.Signals
) -> None:
    account.moto.middleware.latency["POST /clusters"] = 20
    arguments = [sys.executable, "-m", "dovetail", "cluster", "apply", "-f", str(TAINTED), "--yes"]
    with subprocess.Popen(
        arguments, env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if "created IAM role karpenter-mng-us-west-2-cluster" in line)

        process.send_signal(stop_signal)
        next(line for line in process.stderr if "press Ctrl-C again to abort at once" in line)
        process.send_signal(stop_signal)
        rest = process.stderr.read()

    assert process.returncode == 130, rest
    assert "run the same command again to continue" in rest
    assert "Traceback" not in rest


def test_missing_aws_profile_is_reported(run: Run) -> None:
    done = run("plan", "-f", str(TAINTED), AWS_PROFILE="missing")

    assert done.exit_code == 1
    assert "The config profile (missing) could not be found; log in" in done.output


def test_mistyped_command_gets_a_suggestion(run: Run) -> None:
    done = run("aply", "-f", str(TAINTED))

    assert done.exit_code == 1
    assert "Did you mean 'apply'?" in done.output


def test_credentials_of_another_account_are_rejected_before_anything_is_read(
    account: TestAccount, run: Run
) -> None:
    done = run("plan", "-f", "-", stdin=a_file(account="999999999999"))

    assert done.exit_code == 1
    assert "account: is 999999999999, but the credentials belong to 123456789012" in done.output
    assert set(account.moto.middleware.calls) == {"GetCallerIdentity"}


def test_missing_external_cluster_is_reported(run: Run) -> None:
    example = next(path for path in EXAMPLES if path.stem == "existing-cluster")

    done = run("plan", "-f", str(example))

    assert done.exit_code == 2
    assert "EKS cluster platform-one does not exist, but is required" in done.output


def test_missing_helm_is_reported_before_the_first_step(
    account: TestAccount, run: Run, tmp_path: Path
) -> None:
    done = run("apply", "-f", str(TAINTED), "--yes", PATH=str(tmp_path))

    assert done.exit_code == 1
    assert "helm is not on the PATH" in done.output
    assert account.eks.clusters == {}


def test_missing_chart_is_reported_before_the_first_step(account: TestAccount, run: Run) -> None:
    image = "registry.example.com/dovetail:1"
    document = a_file(controller={"image": image, "chart": "./no/such/chart"})

    done = run("apply", "-f", "-", "--yes", stdin=document)

    assert done.exit_code == 1
    assert "there is no chart at ./no/such/chart" in done.output
    assert account.eks.clusters == {}


@pytest.mark.slow
def test_saved_plan_is_applied_once_and_is_refused_when_the_account_changed(
    account: TestAccount, run: Run, tmp_path: Path
) -> None:
    saved = tmp_path / "plan.json"
    example = TAINTED.read_text()
    file = tmp_path / "cluster.yaml"
    file.write_text(example)

    planned = run("plan", "-f", str(file), "--out", str(saved))
    applied = run("apply", str(saved), "--yes")
    again = run("apply", str(saved), "--yes")
    account.client("sqs", "us-west-2").delete_queue(
        QueueUrl=account.client("sqs", "us-west-2").get_queue_url(QueueName="karpenter-mng")["QueueUrl"]
    )
    changed = run("apply", str(saved), "--yes")
    empty = run("plan", "-f", str(file), "--out", str(tmp_path / "now.json"))
    file.write_text(example + "\n")
    edited = run("apply", str(saved), "--yes")

    assert planned.exit_code == 2, planned.output
    assert f"next: dovetail cluster apply {saved}" in planned.output
    assert applied.exit_code == 0, applied.output
    assert "[60/60]" in applied.output
    assert again.exit_code == 0, again.output
    assert "nothing to do" in again.output
    # The plan has shown that the queue is created, so it may be created again.
    assert changed.exit_code == 0, changed.output
    assert empty.exit_code == 0, empty.output
    assert edited.exit_code == 1
    assert f"{file} was changed after the plan was saved" in edited.output


@pytest.mark.slow
def test_saved_plan_does_nothing_that_it_has_not_shown(
    account: TestAccount, run: Run, tmp_path: Path
) -> None:
    run("apply", "-f", str(TAINTED), "--yes")
    saved = tmp_path / "plan.json"
    run("plan", "-f", str(TAINTED), "--out", str(saved))
    account.client("events", "us-west-2").disable_rule(Name="karpenter-mng-spot")
    account.moto.middleware.reset()

    done = run("apply", str(saved), "--yes")

    assert done.exit_code == 1
    assert "the plan no longer fits the account" in done.output
    assert "update EventBridge rule karpenter-mng-spot: the plan left it as it was" in done.output
    assert "(State: DISABLED → ENABLED)" in done.output
    writes = [call for call in account.moto.middleware.calls if call.startswith(("Create", "Put", "POST"))]
    assert writes == []


@pytest.mark.slow
def test_killed_apply_of_a_saved_plan_is_continued(
    account: TestAccount, environment: dict[str, str], run: Run, tmp_path: Path
) -> None:
    saved = str(tmp_path / "plan.json")
    run("plan", "-f", str(TAINTED), "--out", saved)
    arguments = [sys.executable, "-m", "dovetail", "cluster", "apply", saved, "--yes"]
    with subprocess.Popen(
        arguments, env={**os.environ, **environment}, stderr=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        assert process.stderr is not None
        next(line for line in process.stderr if line.startswith("[20/60]"))
        process.kill()

    done = run("apply", saved, "--yes")

    assert done.exit_code == 0, done.output
    assert "karpenter-mng matches its file" in done.output
    assert account.plan(account.prepared("tainted-node-group")).steps == ()


@pytest.mark.slow
def test_plan_is_not_saved_over_another_file_and_apply_reports_what_is_no_plan(
    run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_bytes(a_file())

    saved = run("plan", "-f", str(file), "--out", str(file))
    unwritable = run("plan", "-f", str(file), "--out", str(tmp_path / "no" / "plan.json"))
    applied = run("apply", str(file), "--yes")
    nothing = run("apply", "--yes")

    assert saved.exit_code == 1
    assert "exists and is not a saved plan" in saved.output
    assert file.read_bytes() == a_file()
    assert "cannot be written: No such file or directory" in unwritable.output
    assert applied.exit_code == 1
    assert "is not a saved plan; save one with: dovetail cluster plan" in applied.output
    assert "Missing option '-f'" in nothing.output


@pytest.mark.slow
def test_plan_from_stdin_is_applied_with_the_file(run: Run, tmp_path: Path) -> None:
    saved, file = tmp_path / "plan.json", tmp_path / "cluster.yaml"
    file.write_bytes(a_file())

    run("plan", "-f", "-", "--out", str(saved), stdin=a_file())
    without = run("apply", str(saved), "--dry-run")
    done = run("apply", str(saved), "-f", str(file), "--dry-run")

    assert "the plan was made from stdin: pass the cluster file with -f" in without.output
    assert done.exit_code == 0, done.output
    assert "create EKS cluster dev" in done.output
