"""The wanted resources in the words of other tools: golden files, and the tools' own checks.

``GOLDEN=write`` writes the files anew; look at what changed before keeping it.
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

from dovetail.codec.inputs.collection import gather
from dovetail.eks.desired.desired_state import wanted
from dovetail.eks.render.formats import Format, rendered
from tests.support.clusters import EXAMPLES, a_cluster, an_example

GOLDEN = Path(__file__).parents[2] / "golden" / "eks"
NAMES = [one.stem for one in EXAMPLES]
PLUGINS = os.environ.get("TF_PLUGIN_DIR", "")
Golden = Callable[[Path, str], None]


@pytest.mark.parametrize("example", NAMES)
@pytest.mark.parametrize("form", list(Format))
def test_an_example_renders_to_these_very_files(example: str, form: Format, golden: Golden) -> None:
    files = rendered(an_example(example), form)

    for name, text in files.items():
        # Values and manifests are the same in all three.
        if form is Format.MANIFESTS or name.endswith(".json"):
            golden(GOLDEN / example / name, text)


@pytest.mark.parametrize("example", NAMES)
def test_cloudformation_finds_nothing_wrong_with_a_template(example: str) -> None:
    text = rendered(an_example(example), Format.CLOUDFORMATION)["cloudformation.json"]

    assert [str(one) for one in lint(text)] == []


def test_a_private_clusters_template_is_clean_as_well() -> None:
    spec = a_cluster(vpc={"create": {"nat": "none"}}, logging={"types": ["api", "audit"]})

    text = rendered(spec, Format.CLOUDFORMATION)["cloudformation.json"]

    assert [str(one) for one in lint(text)] == []


@pytest.mark.slow
@pytest.mark.skipif(
    not (PLUGINS and shutil.which("terraform")),
    reason="needs terraform and a directory with its AWS provider (TF_PLUGIN_DIR)",
)
@pytest.mark.parametrize("example", NAMES)
def test_terraform_finds_nothing_wrong_with_a_module(example: str, tmp_path: Path) -> None:
    text = rendered(an_example(example), Format.TERRAFORM)["main.tf.json"]
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
@pytest.mark.parametrize("form", [Format.CLOUDFORMATION, Format.TERRAFORM])
def test_nothing_that_is_wanted_gets_lost(example: str, form: Format) -> None:
    spec = an_example(example)
    files = rendered(spec, form)

    template = json.loads(next(text for name, text in files.items() if name.endswith(".json")))

    software = [name for name in files if name.startswith(("values/", "manifests/"))]
    made = [
        one
        for one in wanted(spec)
        if not one.given and one.kind not in ("kubernetes-object", "helm-release", "ec2-tags")
    ]
    assert len(software) == sum(
        one.kind in ("kubernetes-object", "helm-release") for one in wanted(spec)
    )
    if form is Format.CLOUDFORMATION:
        assert len(template["Resources"]) == len(made)
    else:
        kinds = template["resource"]
        assert sum(len(kinds[kind]) for kind in kinds if not _is_beside(kind)) == len(made)


def _is_beside(kind: str) -> bool:
    """Tell what Terraform has beside a resource that holds it in CloudFormation."""
    beside = ("aws_iam_role_policy_attachment", "aws_cloudwatch_event_target", "aws_ec2_tag")
    return kind in (*beside, "aws_eks_access_policy_association")


@pytest.mark.parametrize("example", NAMES)
def test_rendered_manifests_are_objects_that_the_simulator_reads(example: str) -> None:
    files = rendered(an_example(example), Format.MANIFESTS)
    manifests = [
        (name, text.encode()) for name, text in files.items() if name.startswith("manifests/")
    ]

    found, _ = gather(manifests)

    assert found.has("NodePool")
    assert found.has("EC2NodeClass")


def test_trust_in_an_oidc_provider_is_written_with_the_issuer_in_its_keys() -> None:
    template = _template(a_cluster(home="fargate"))

    trust = template["Resources"]["IamRoleDevDovetail"]["Properties"]["AssumeRolePolicyDocument"]

    text, variables = trust["Fn::Sub"]
    assert '"${Issuer}:sub": "system:serviceaccount:kube-system:dovetail"' in text
    issuer = {"Fn::GetAtt": ["EksClusterDev", "OpenIdConnectIssuerUrl"]}
    assert variables == {"Issuer": {"Fn::Select": [1, {"Fn::Split": ["//", issuer]}]}}


def test_what_was_there_before_becomes_parameters_and_data_sources() -> None:
    spec = an_example("existing-cluster")

    template = _template(spec)
    module = json.loads(rendered(spec, Format.TERRAFORM)["main.tf.json"])

    assert "EksClusterIssuerUrl" in template["Parameters"]
    assert "EksClusterPlatformOne" not in template["Resources"]
    assert module["data"]["aws_eks_cluster"]["platform_one"] == {"name": "platform-one"}
    assert "aws_eks_cluster" not in module["resource"]


def test_variables_of_a_user_s_policy_are_not_taken_for_expressions() -> None:
    home = "arn:aws:s3:::homes/${aws:PrincipalTag/team}/*"
    allow = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": home}
    spec = a_cluster(serviceAccounts=[{"name": "app", "statements": [allow]}])

    module = rendered(spec, Format.TERRAFORM)["main.tf.json"]

    assert "homes/$${aws:PrincipalTag/team}/*" in module


def test_with_the_account_known_only_what_aws_invents_is_left_open() -> None:
    known = rendered(a_cluster(account="123456789012", home="fargate"), Format.MANIFESTS)
    values = yaml.safe_load(known["values/kube-system-dovetail.yaml"])

    role = values["serviceAccount"]["annotations"]["eks.amazonaws.com/role-arn"]

    assert role == "arn:aws:iam::123456789012:role/dev-dovetail"
    assert values["settings"]["clusterEndpoint"] == "${EKS_CLUSTER_DEV_ENDPOINT}"


@pytest.mark.parametrize("form", list(Format))
def test_rendering_takes_less_than_a_second(form: Format) -> None:
    spec = an_example("fargate")
    started = time.process_time()

    rendered(spec, form)

    assert time.process_time() - started < 1


def _template(spec: Any) -> Any:
    return json.loads(rendered(spec, Format.CLOUDFORMATION)["cloudformation.json"])
