"""``dovetail cluster plan --offline``: without credentials and without AWS."""

import json

import pytest
from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from tests.support.eks.configs import EXAMPLES, a_file


def run(*arguments: str, stdin: bytes = b"") -> Result:
    # An endpoint that nothing listens on: a call would fail.
    env = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_PROFILE": "missing",
        "AWS_CONFIG_FILE": "/nonexistent",
    }
    return CliRunner().invoke(cli, ["cluster", "plan", *arguments], input=stdin, env=env)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_offline_plan_needs_no_credentials_and_states_its_assumptions(path: object) -> None:
    done = run("--offline", "-f", str(path))

    assert done.exit_code == 2, done.output
    assert "to create" in done.output
    assert "has no resources of this cluster yet" in done.output


def test_offline_plan_names_zones_account_and_existing_resources() -> None:
    created = run("--offline", "-f", "-", "-o", "json", stdin=a_file(account="123456789012"))
    existing = run("--offline", "-f", str(next(p for p in EXAMPLES if p.stem == "existing-cluster")))

    notes = json.loads(created.stdout)["notes"]
    assert notes[0] == "offline: assumes that account 123456789012 has no resources of this cluster yet"
    assert "assumes the zones us-east-1a, us-east-1b, us-east-1c" in notes[1]
    assert "assumes that EKS cluster platform-one exists" in existing.output
    assert "is required" not in existing.output


def test_offline_plan_cannot_be_saved() -> None:
    done = run("--offline", "-f", "-", "--out", "plan.json", stdin=a_file())

    assert done.exit_code != 0
    assert "--out needs the account" in done.output
