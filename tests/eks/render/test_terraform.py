"""The Terraform rendering, applied by terraform: it creates the desired state."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from dovetail.eks.render.formats import Format, render_files
from tests.support.moto.cluster_account import TestAccount

PLUGINS = os.environ.get("TF_PLUGIN_DIR", "")
IN_CLUSTER_KINDS = {"helm-release", "kubernetes-object"}
"""Kinds that install.sh applies."""
NOT_IN_TEMPLATES = {"service-linked-role", "eks-addon"}
"""Kinds that install.sh creates for the account, or whose version only ``apply`` knows."""


@pytest.mark.slow
@pytest.mark.skipif(
    not (PLUGINS and shutil.which("terraform")),
    reason="needs terraform and a directory with its AWS provider (TF_PLUGIN_DIR)",
)
def test_plan_is_empty_in_aws_after_terraform_applied_the_rendering(
    account: TestAccount, tmp_path: Path
) -> None:
    account.eks.instant = True
    config = account.prepared("tainted-node-group")
    for name, text in render_files(config, Format.TERRAFORM).items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    environment = {
        **os.environ,
        "AWS_ENDPOINT_URL": account.moto.url,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
    }

    for arguments in (["init", f"-plugin-dir={PLUGINS}"], ["apply", "-auto-approve"]):
        done = subprocess.run(
            [str(shutil.which("terraform")), *arguments, "-input=false", "-no-color"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    kinds = {step.kind for step in account.plan(config).steps}
    assert kinds - NOT_IN_TEMPLATES == IN_CLUSTER_KINDS
