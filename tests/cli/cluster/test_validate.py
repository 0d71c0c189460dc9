"""``dovetail cluster validate`` as a user runs it."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dovetail.cli.cluster.validate import connect, get_exit_code, report_lines
from dovetail.cli.main import cli
from dovetail.eks.kubernetes.scale_validation import ValidatedNode, ValidationReport, ValidationStep
from dovetail.errors import DovetailError
from tests.cli.test_sandbox import Running
from tests.support.eks.configs import a_cluster

NODE = ValidatedNode(
    name="ip-10-0-46-239.us-west-2.compute.internal",
    node_claim="default-x7k2p",
    node_pool="default",
    instance_type="c7a.4xlarge",
    capacity_type="on-demand",
    zone="us-west-2b",
    ready_seconds=41.5,
    removed_seconds=52.0,
)
FAILED = ValidationStep(name="nodes come", ok=False, seconds=600, message="NodeClaim a is not Registered")


def validate(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["cluster", "validate", *arguments])


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    path = tmp_path / "kubeconfig"
    path.write_text(
        """\
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: u, user: {token: t}}]
"""
    )
    return str(path)


@pytest.mark.parametrize(
    ("report", "code", "text"),
    [
        (ValidationReport(ok=True, nodes=(NODE,)), 0, "valid: nodes came and went"),
        (ValidationReport(ok=False, steps=(FAILED,)), 2, "failed: nodes come: NodeClaim a is not Registered"),
        (ValidationReport(ok=False, interrupted=True, steps=(FAILED,)), 130, "interrupted"),
    ],
)
def test_exit_code_and_last_line_have_the_result(report: ValidationReport, code: int, text: str) -> None:
    assert get_exit_code(report) == code
    assert text in report_lines(report)[-1].plain


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--cpu", "lots"), "'lots' is not a CPU quantity above 0; examples: 500m, 2."),
        (("--cpu", "0"), "'0' is not a CPU quantity above 0"),
        (("--replicas", "0"), "0 is not in the range 1<=x<=1000"),
        (("--timeout", "soon"), "'soon' is not a duration up to a day"),
        (("-f", "cluster.yaml", "--context", "c"), "leave out --kubeconfig and --context"),
    ],
)
def test_bad_options_are_rejected_with_an_example(arguments: tuple[str, ...], message: str) -> None:
    result = validate(*arguments)

    assert result.exit_code == 1
    assert message in result.stderr


def test_unreachable_cluster_is_an_error_without_traceback(kubeconfig: str) -> None:
    result = validate("--kubeconfig", kubeconfig, "--timeout", "1s")

    assert result.exit_code == 1
    assert "127.0.0.1:1" in result.stderr
    assert "Traceback" not in result.stderr


def test_cluster_that_does_not_exist_names_the_command_that_creates_it() -> None:
    class NoCluster:
        async def connect(self) -> None:
            return None

    with pytest.raises(DovetailError, match=r"create it with: dovetail cluster apply -f dev\.yaml"):
        asyncio.run(connect(NoCluster(), a_cluster(), "dev.yaml"))  # type: ignore[arg-type]


def test_sandbox_is_valid(tmp_path: Path) -> None:
    sandbox = Running(tmp_path, "--speed", "60").wait_until_ready()
    try:
        result = validate("--kubeconfig", str(sandbox.config), "--timeout", "60s")
    finally:
        sandbox.process.kill()
        sandbox.process.communicate()

    assert result.exit_code == 0, result.output
    head, row, *_ = result.stdout.splitlines()
    assert head.split() == ["NODE", "TYPE", "CAPACITY", "ZONE", "READY", "GONE"]
    assert row.split()[4].endswith("s")
    assert "ok: nodes go: " in result.stderr
