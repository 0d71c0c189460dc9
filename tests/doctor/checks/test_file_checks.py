"""Checks of facts from files: Terraform sources and plans, cluster.yaml."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dovetail.doctor.facts import Facts, FileFacts
from dovetail.doctor.run import run_checks
from dovetail.doctor.sources.files import file_facts, objects_in
from dovetail.errors import DovetailError
from dovetail.ports.api_resources import EC2_NODE_CLASSES, NODE_CLAIMS, NODE_POOLS
from tests.support.eks.configs import a_cluster, a_file

CLUSTER = 'resource "aws_eks_cluster" "this" {\n  name = "demo"\n}\n'
MODULE = 'module "eks" {\n  source = "terraform-aws-modules/eks/aws"\n}\n'
MANIFEST = 'resource "kubernetes_manifest" "pool" {\n  manifest = {}\n}\n'
LOCKED = 'provider "registry.terraform.io/gavinbunney/kubectl" {\n  version = "1.14.0"\n}\n'


def codes(facts: Facts) -> set[str]:
    return {finding.code for finding in run_checks(facts).findings}


@pytest.fixture
def with_sources(healthy: Facts, tmp_path: Path) -> Callable[..., Facts]:
    """Return a function that adds Terraform files to a healthy cluster."""

    def add(**files: str) -> Facts:
        for name, text in files.items():
            (tmp_path / name.replace("__", ".")).write_text(text)
        files_read, _ = file_facts(spec=None, terraform=tmp_path, plan=None)
        return msgspec.structs.replace(healthy, files=files_read)

    return add


@pytest.fixture
def with_plan(healthy: Facts, tmp_path: Path) -> Callable[..., Facts]:
    """Return a function that adds a plan with these changes to a healthy cluster."""

    def add(*changes: dict[str, Any]) -> Facts:
        path = tmp_path / "plan.json"
        path.write_text(json.dumps({"resource_changes": changes}))
        files_read, _ = file_facts(spec=None, terraform=None, plan=path)
        return msgspec.structs.replace(healthy, files=files_read)

    return add


def a_change(kind: str, *actions: str, **states: Any) -> dict[str, Any]:
    return {"address": f"{kind}.x", "type": kind, "change": {"actions": list(actions), **states}}


def test_cluster_alone_in_its_state_has_no_findings(with_sources: Callable[..., Facts]) -> None:
    assert codes(with_sources(main__tf=CLUSTER)) == set()


@pytest.mark.parametrize("cluster", [CLUSTER, MODULE])
def test_manifest_in_the_state_of_its_cluster_is_reported(
    cluster: str, with_sources: Callable[..., Facts]
) -> None:
    assert codes(with_sources(main__tf=cluster, pools__tf=MANIFEST)) == {"T1"}


def test_manifest_in_a_comment_is_ignored(with_sources: Callable[..., Facts]) -> None:
    commented = "".join(f"# {line}\n" for line in MANIFEST.splitlines())

    assert codes(with_sources(main__tf=CLUSTER + commented)) == set()


def test_manifest_in_json_is_reported(with_sources: Callable[..., Facts]) -> None:
    text = json.dumps({"resource": {"kubernetes_manifest": {"pool": {"manifest": {}}}}})

    facts = with_sources(**{"main__tf": CLUSTER, "pools__tf__json": text})

    assert codes(facts) == {"T1"}


def test_unmaintained_provider_in_the_lock_file_is_reported(with_sources: Callable[..., Facts]) -> None:
    facts = with_sources(**{"main__tf": CLUSTER, "__terraform__lock__hcl": LOCKED})

    assert codes(facts) == {"T2"}


@pytest.mark.parametrize(
    ("cluster", "host"), [(CLUSTER, "aws_eks_cluster.this.endpoint"), (MODULE, "module.eks.cluster_endpoint")]
)
def test_provider_that_depends_on_a_cluster_of_its_state_is_reported(
    cluster: str, host: str, with_sources: Callable[..., Facts]
) -> None:
    provider = f'provider "helm" {{\n  kubernetes {{\n    host = {host}\n  }}\n}}\n'

    assert codes(with_sources(main__tf=cluster + provider)) == {"T3"}


def test_provider_that_depends_on_a_data_source_has_no_findings(with_sources: Callable[..., Facts]) -> None:
    provider = 'provider "helm" {\n  host = data.aws_eks_cluster.other.endpoint\n}\n'

    assert codes(with_sources(main__tf=provider)) == set()


@pytest.mark.parametrize(
    ("kind", "before"),
    [
        ("kubernetes_manifest", {"manifest": {"kind": "NodePool"}}),
        ("kubectl_manifest", {"yaml_body": "apiVersion: karpenter.k8s.aws/v1\nkind: EC2NodeClass"}),
    ],
)
def test_planned_replacement_of_a_nodepool_or_node_class_is_reported(
    kind: str, before: dict[str, Any], with_plan: Callable[..., Facts]
) -> None:
    assert codes(with_plan(a_change(kind, "delete", "create", before=before))) == {"T4"}


def test_planned_update_of_a_nodepool_has_no_findings(with_plan: Callable[..., Facts]) -> None:
    before = {"manifest": {"kind": "NodePool"}}

    assert codes(with_plan(a_change("kubernetes_manifest", "update", before=before))) == set()


def test_planned_deletion_of_a_cluster_with_nodes_is_reported(with_plan: Callable[..., Facts]) -> None:
    facts = with_plan(a_change("aws_eks_cluster", "delete"))
    emptied = {**facts.objects, NODE_POOLS: (), NODE_CLAIMS: ()}

    assert codes(facts) == {"D1"}
    assert "D1" not in codes(msgspec.structs.replace(facts, objects=emptied))


def test_planned_policy_above_the_size_limit_is_reported(with_plan: Callable[..., Facts]) -> None:
    action = [f"ec2:Action{number}" for number in range(500)]
    text = json.dumps({"Version": "2012-10-17", "Statement": [{"Action": action}]}, indent=4)

    assert codes(with_plan(a_change("aws_iam_policy", "create", after={"policy": text}))) == {"I5"}


def test_white_space_does_not_count_in_a_policy(with_plan: Callable[..., Facts]) -> None:
    text = "{" + " " * 7000 + "}"

    facts = with_plan(a_change("aws_iam_policy", "create", after={"policy": text}))

    assert codes(facts) == set()


def test_planned_role_with_too_long_a_name_is_reported(with_plan: Callable[..., Facts]) -> None:
    facts = with_plan(a_change("aws_iam_role", "create", after={"name": "x" * 65}))

    assert codes(facts) == {"I9"}


def test_policies_of_a_cluster_file_are_below_the_size_limit(healthy: Facts) -> None:
    files = FileFacts(spec=a_cluster())

    assert codes(msgspec.structs.replace(healthy, files=files)) == set()


def test_cluster_file_provides_nodepools_and_node_classes() -> None:
    objects = objects_in(a_cluster())

    assert [pool["metadata"]["name"] for pool in objects[NODE_POOLS]] == ["default"]
    assert objects[EC2_NODE_CLASSES][0]["spec"]["role"] == "dev-us-east-1-node"


def test_files_that_are_not_given_are_unknown(tmp_path: Path) -> None:
    _, unseen = file_facts(spec=("cluster.yaml", a_file()), terraform=None, plan=None)

    assert {str(need) for need in unseen} == {"Terraform files", "a Terraform plan"}


@pytest.mark.parametrize("text", ["{}", "[]", "not JSON"])
def test_file_that_is_not_a_plan_is_rejected(text: str, tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    path.write_text(text)

    with pytest.raises(DovetailError, match="terraform show -json"):
        file_facts(spec=None, terraform=None, plan=path)


def test_directory_without_terraform_files_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(DovetailError, match="has no Terraform files"):
        file_facts(spec=None, terraform=tmp_path, plan=None)
