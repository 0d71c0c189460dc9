"""``dovetail cluster render`` and ``schema`` as a user runs them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dovetail.cli.main import cli
from dovetail.eks.render.formats import Format
from tests.support.clusters import EXAMPLES, a_file

FARGATE = next(str(path) for path in EXAMPLES if path.stem == "fargate")


def run(*words: str, given: bytes = b"") -> Result:
    return CliRunner().invoke(cli, ["cluster", *words], input=given)


@pytest.mark.parametrize(
    ("form", "main"),
    [
        (Format.CLOUDFORMATION, "cloudformation.json"),
        (Format.TERRAFORM, "main.tf.json"),
        (Format.MANIFESTS, "policies/groupless-dovetail-NodeLifecycle.json"),
    ],
)
def test_a_rendering_is_written_with_the_software_beside_it(
    form: Format, main: str, tmp_path: Path
) -> None:
    done = run("render", "-f", FARGATE, "--format", form.value, "-d", str(tmp_path / "out"))

    assert done.exit_code == 0, done.output
    json.loads((tmp_path / "out" / main).read_text())
    assert (tmp_path / "out/manifests/nodepool-default.yaml").is_file()
    assert (tmp_path / "out/values/karpenter-dovetail.yaml").is_file()
    assert f"next: sh {tmp_path}/out/install.sh" in done.output


def test_a_file_with_mistakes_writes_nothing_and_names_them_all(tmp_path: Path) -> None:
    broken = a_file(region="us-esat-1", version="1.12")

    done = run("render", "-f", "-", "-d", str(tmp_path / "out"), given=broken)

    assert done.exit_code == 1
    assert "region: 'us-esat-1' is no region; did you mean 'us-east-1'?" in done.output
    assert "version: EKS does not have 1.12" in done.output
    assert not (tmp_path / "out").exists()


def test_a_directory_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")

    done = run("render", "-f", FARGATE, "-d", str(tmp_path / "out" / "below"))

    assert done.exit_code == 1
    assert "cannot be written" in done.output


def test_the_schema_is_json_and_knows_every_field() -> None:
    done = run("schema")

    assert done.exit_code == 0
    assert {"name", "home", "nodePools", "addons"} <= set(json.loads(done.output)["properties"])
