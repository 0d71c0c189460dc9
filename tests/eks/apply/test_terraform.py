"""The Terraform rendering, applied by Terraform: what it makes is what we want."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from dovetail.eks.render.formats import Format, rendered
from tests.support.moto.account import TestAccount

PLUGINS = os.environ.get("TF_PLUGIN_DIR", "")
INSIDE = {"helm-release", "kubernetes-object"}
"""What modules leave to the script beside them."""


@pytest.mark.slow
@pytest.mark.skipif(
    not (PLUGINS and shutil.which("terraform")),
    reason="needs terraform and a directory with its AWS provider (TF_PLUGIN_DIR)",
)
def test_after_terraform_has_applied_the_rendering_nothing_is_left_to_do_in_aws(
    account: TestAccount, tmp_path: Path
) -> None:
    account.eks.instant = True
    spec = account.prepared("tainted-node-group")
    for name, text in rendered(spec, Format.TERRAFORM).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    environment = {
        **os.environ,
        "AWS_ENDPOINT_URL": account.moto.url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }

    for words in (["init", f"-plugin-dir={PLUGINS}"], ["apply", "-auto-approve"]):
        done = subprocess.run(
            [str(shutil.which("terraform")), *words, "-input=false", "-no-color"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    assert {one.kind for one in account.plan(spec).steps} == INSIDE
