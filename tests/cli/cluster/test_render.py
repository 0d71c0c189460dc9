"""``dovetail cluster render`` and ``schema`` as a user runs them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from dovetail.eks.render.formats import Format
from tests.support.eks.configs import EXAMPLES, a_file

FARGATE = next(str(path) for path in EXAMPLES if path.stem == "fargate")


def run(*arguments: str, stdin: bytes = b"") -> Result:
    return CliRunner().invoke(cli, ["cluster", *arguments], input=stdin)


@pytest.mark.parametrize(
    ("render_format", "main_file"),
    [
        (Format.CLOUDFORMATION, "cloudformation.json"),
        (Format.TERRAFORM, "main.tf.json"),
        (Format.MANIFESTS, "policies/groupless-us-east-1-dovetail-NodeLifecycle.json"),
    ],
)
def test_rendering_includes_manifests_and_helm_values(
    render_format: Format, main_file: str, tmp_path: Path
) -> None:
    done = run("render", "-f", FARGATE, "--format", render_format.value, "-d", str(tmp_path / "out"))

    assert done.exit_code == 0, done.output
    json.loads((tmp_path / "out" / main_file).read_text())
    assert (tmp_path / "out/manifests/nodepool-default.yaml").is_file()
    assert (tmp_path / "out/values/karpenter-dovetail.yaml").is_file()
    assert f"next: sh {tmp_path}/out/install.sh" in done.output


def test_invalid_file_writes_nothing_and_reports_all_errors(tmp_path: Path) -> None:
    document = a_file(region="us-esat-1", version="1.12")

    done = run("render", "-f", "-", "-d", str(tmp_path / "out"), stdin=document)

    assert done.exit_code == 1
    assert "region: 'us-esat-1' is not a region; did you mean 'us-east-1'?" in done.output
    assert "version: EKS does not support 1.12" in done.output
    assert not (tmp_path / "out").exists()


def test_unwritable_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")

    done = run("render", "-f", FARGATE, "-d", str(tmp_path / "out" / "below"))

    assert done.exit_code == 1
    assert "cannot be written" in done.output


def test_schema_is_json_with_every_field() -> None:
    done = run("schema")

    assert done.exit_code == 0
    assert {"name", "home", "nodePools", "addons"} <= set(json.loads(done.output)["properties"])
