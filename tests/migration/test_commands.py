"""Commands of a migration: Helm accepts them with Karpenter's values."""

import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from dovetail.data.bundled import bundled_catalog
from dovetail.doctor.facts import Facts
from dovetail.migration.commands import VALUES_FILE, take_over
from dovetail.migration.facts import MigrationFacts
from dovetail.ports.api_resources import DEPLOYMENTS
from tests.support.helm.charts import CHARTS, helm
from tests.support.karpenter import objects as karpenter

pytestmark = pytest.mark.slow
NOW = datetime(2026, 11, 17, tzinfo=UTC)
VALUES: dict[str, Any] = {
    "nameOverride": "karpenter",
    "fullnameOverride": "karpenter",
    "podDisruptionBudget": {"name": "karpenter"},
    "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": karpenter.ROLE_ARN}},
    "controller": {
        "image": {
            "repository": "public.ecr.aws/karpenter/controller",
            "tag": "1.0.8",
            "digest": f"sha256:{'0' * 64}",
        }
    },
    "webhook": {"enabled": True},
    "settings": {"clusterName": "demo", "interruptionQueue": "demo"},
}
"""A values file with every name that collides with Karpenter's own release."""


def install_command(version: str) -> list[str]:
    deployment = karpenter.deployment(version=version)
    facts = Facts(now=NOW, catalog=bundled_catalog(), objects={DEPLOYMENTS: (deployment,)})
    steps = take_over(MigrationFacts.of(facts, lambda *_: None))
    (command,) = [
        command for step in steps for command in step.commands if command.startswith("helm install")
    ]
    return shlex.split(command.replace("\\\n", " "))


def test_the_install_command_renders_with_the_values_of_karpenters_release(tmp_path: Path) -> None:
    (tmp_path / VALUES_FILE).write_text(yaml.safe_dump(VALUES))
    _, _, *arguments = install_command("1.0.8")

    text = helm("template", *arguments, cwd=tmp_path_with_charts(tmp_path))

    objects = [obj for obj in yaml.safe_load_all(text) if obj]
    assert "ServiceAccount" not in {obj["kind"] for obj in objects}
    assert not [obj for obj in objects if obj["metadata"]["name"] == "karpenter"]
    (deployment,) = [obj for obj in objects if obj["kind"] == "Deployment"]
    pod = deployment["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "karpenter"
    assert pod["containers"][0]["image"] == "REGISTRY/dovetail:0.1.0"
    bindings = [obj for obj in objects if obj["kind"].endswith("Binding")]
    bound = {subject["name"] for binding in bindings for subject in binding["subjects"]}
    assert bound == {"karpenter"}


def tmp_path_with_charts(folder: Path) -> Path:
    """Return a folder with the charts at the path that the command uses."""
    (folder / "deploy").mkdir()
    (folder / "deploy" / "charts").symlink_to(CHARTS)
    return folder
