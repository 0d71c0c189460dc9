"""Renderings: compared with golden files, and checked by cfn-lint and terraform.

``GOLDEN=write`` writes the golden files; review the diff before committing it.
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from cfnlint.api import lint

from dovetail.codec.inputs.collection import read_collections
from dovetail.eks.desired.desired_state import desired_state
from dovetail.eks.render.formats import Format, render_files
from tests.support.eks.configs import EXAMPLES, a_cluster, an_example

GOLDEN = Path(__file__).parents[2] / "golden" / "eks"
NAMES = [path.stem for path in EXAMPLES]
PLUGINS = os.environ.get("TF_PLUGIN_DIR", "")
Golden = Callable[[Path, str], None]

IN_INSTALL_SCRIPT = ("kubernetes-object", "helm-release", "ec2-tags", "service-linked-role")
"""Kinds that no template has."""


@pytest.mark.parametrize("example", NAMES)
@pytest.mark.parametrize("render_format", list(Format))
def test_example_renders_to_the_golden_files(example: str, render_format: Format, golden: Golden) -> None:
    files = render_files(an_example(example), render_format)

    for name, text in files.items():
        # Values and manifests are the same in all three.
        if render_format is Format.MANIFESTS or name.endswith(".json"):
            golden(GOLDEN / example / name, text)


@pytest.mark.parametrize("example", NAMES)
def test_cloudformation_template_passes_cfn_lint(example: str) -> None:
    text = render_files(an_example(example), Format.CLOUDFORMATION)["cloudformation.json"]

    assert [str(match) for match in lint(text)] == []


def test_template_of_a_private_cluster_passes_cfn_lint() -> None:
    config = a_cluster(vpc={"create": {"nat": "none"}}, logging={"types": ["api", "audit"]})

    text = render_files(config, Format.CLOUDFORMATION)["cloudformation.json"]

    assert [str(match) for match in lint(text)] == []


@pytest.mark.slow
@pytest.mark.skipif(
    not (PLUGINS and shutil.which("terraform")),
    reason="needs terraform and a directory with its AWS provider (TF_PLUGIN_DIR)",
)
@pytest.mark.parametrize("example", NAMES)
def test_terraform_module_is_valid(example: str, tmp_path: Path) -> None:
    text = render_files(an_example(example), Format.TERRAFORM)["main.tf.json"]
    (tmp_path / "main.tf.json").write_text(text)

    _terraform(tmp_path, "init", "-input=false", f"-plugin-dir={PLUGINS}")

    _terraform(tmp_path, "validate")


def _terraform(where: Path, *words: str) -> None:
    done = subprocess.run(
        [str(shutil.which("terraform")), words[0], "-no-color", *words[1:]],
        cwd=where,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("example", NAMES)
@pytest.mark.parametrize("render_format", [Format.CLOUDFORMATION, Format.TERRAFORM])
def test_every_desired_resource_is_rendered(example: str, render_format: Format) -> None:
    config = an_example(example)
    files = render_files(config, render_format)

    template = json.loads(next(text for name, text in files.items() if name.endswith(".json")))

    install_files = [name for name in files if name.startswith(("values/", "manifests/"))]
    addresses = [
        resource
        for resource in desired_state(config)
        if not resource.external and resource.kind not in IN_INSTALL_SCRIPT
    ]
    assert len(install_files) == sum(
        resource.kind in ("kubernetes-object", "helm-release") for resource in desired_state(config)
    )
    if render_format is Format.CLOUDFORMATION:
        assert len(template["Resources"]) == len(addresses)
    else:
        kinds = template["resource"]
        assert sum(len(kinds[kind]) for kind in kinds if not _is_extra_block(kind)) == len(addresses)


def _is_extra_block(kind: str) -> bool:
    """Return True for blocks that are part of another resource in CloudFormation."""
    extra_types = ("aws_iam_role_policy_attachment", "aws_cloudwatch_event_target", "aws_ec2_tag")
    return kind in (*extra_types, "aws_eks_access_policy_association")


@pytest.mark.parametrize("example", NAMES)
def test_rendered_manifests_are_readable_by_simulate(example: str) -> None:
    files = render_files(an_example(example), Format.MANIFESTS)
    manifests = [(name, text.encode()) for name, text in files.items() if name.startswith("manifests/")]

    inputs, _ = read_collections(manifests)

    assert inputs.models("NodePool")
    assert inputs.models("EC2NodeClass")


def test_oidc_trust_policy_has_the_issuer_in_its_keys() -> None:
    template = _template(a_cluster(home="fargate"))

    trust = template["Resources"]["IamRoleDevUsEast1Dovetail"]["Properties"]["AssumeRolePolicyDocument"]

    text, variables = trust["Fn::Sub"]
    assert '"${Issuer}:sub": "system:serviceaccount:kube-system:dovetail"' in text
    issuer = {"Fn::GetAtt": ["EksClusterDev", "OpenIdConnectIssuerUrl"]}
    assert variables == {"Issuer": {"Fn::Select": [1, {"Fn::Split": ["//", issuer]}]}}


def test_external_resources_become_parameters_and_data_sources() -> None:
    config = an_example("existing-cluster")

    template = _template(config)
    module = json.loads(render_files(config, Format.TERRAFORM)["main.tf.json"])

    assert "EksClusterIssuerUrl" in template["Parameters"]
    assert "EksClusterPlatformOne" not in template["Resources"]
    assert module["data"]["aws_eks_cluster"]["platform_one"] == {"name": "platform-one"}
    assert "aws_eks_cluster" not in module["resource"]


def test_policy_variables_of_the_user_are_escaped() -> None:
    home = "arn:aws:s3:::homes/${aws:PrincipalTag/team}/*"
    allow = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": home}
    config = a_cluster(serviceAccounts=[{"name": "app", "statements": [allow]}])

    module = render_files(config, Format.TERRAFORM)["main.tf.json"]

    assert "homes/$${aws:PrincipalTag/team}/*" in module


def test_with_a_known_account_only_generated_ids_are_variables() -> None:
    files = render_files(a_cluster(account="123456789012", home="fargate"), Format.MANIFESTS)
    values = yaml.safe_load(files["values/kube-system-dovetail.yaml"])

    role = values["serviceAccount"]["annotations"]["eks.amazonaws.com/role-arn"]

    assert role == "arn:aws:iam::123456789012:role/dev-us-east-1-dovetail"
    assert values["settings"]["clusterEndpoint"] == "${EKS_CLUSTER_DEV_ENDPOINT}"


@pytest.mark.parametrize("render_format", list(Format))
def test_rendering_takes_less_than_a_second(render_format: Format) -> None:
    config = an_example("fargate")
    started = time.process_time()

    render_files(config, render_format)

    assert time.process_time() - started < 1


def _template(config: Any) -> Any:
    return json.loads(render_files(config, Format.CLOUDFORMATION)["cloudformation.json"])
