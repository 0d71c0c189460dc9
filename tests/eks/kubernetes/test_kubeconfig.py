"""Contexts in kubeconfig files."""

from pathlib import Path

import pytest
import yaml

from dovetail.eks.kubernetes.api import ApiEndpoint
from dovetail.eks.kubernetes.kubeconfig import (
    ClusterArn,
    kubeconfig_with_aws_cli,
    merge_context,
    remove_context,
)
from dovetail.eks.plan.resource import Account
from dovetail.errors import DovetailError

ENDPOINT = ApiEndpoint("https://x", "eA==")
EAST, WEST = (
    ClusterArn.of(Account(account="123456789012", region=region), "dev")
    for region in ("us-east-1", "us-west-2")
)


def test_context_is_added_to_a_kubeconfig_and_others_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("contexts: [{name: other, context: {}}]\ncurrent-context: other\n")
    context = kubeconfig_with_aws_cli(EAST, ENDPOINT)

    merge_context(file, context)
    merge_context(file, context)

    kubeconfig = yaml.safe_load(file.read_text())
    assert [context["name"] for context in kubeconfig["contexts"]] == ["other", EAST.arn]
    assert kubeconfig["current-context"] == EAST.arn
    assert file.stat().st_mode & 0o077 == 0


def test_context_is_removed_from_a_kubeconfig_and_others_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("contexts: [{name: other, context: {}}]\ncurrent-context: other\n")
    merge_context(file, kubeconfig_with_aws_cli(EAST, ENDPOINT))

    assert not remove_context(file, WEST)
    assert remove_context(file, EAST) == [EAST.arn]
    assert not remove_context(file, EAST)

    kubeconfig = yaml.safe_load(file.read_text())
    assert [context["name"] for context in kubeconfig["contexts"]] == ["other"]
    assert (kubeconfig["users"], kubeconfig["clusters"], kubeconfig["current-context"]) == ([], [], "")


def test_foreign_context_of_the_same_name_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "config"
    text = "users: [{name: dev, user: {token: mine}}]\n"
    file.write_text(text)

    assert not remove_context(file, EAST)
    assert not remove_context(tmp_path / "none", EAST)

    assert file.read_text() == text


@pytest.mark.parametrize("text", ["users: 3\n", "contexts: [dev]\n"])
def test_invalid_kubeconfig_entries_are_rejected(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_text(text)

    with pytest.raises(DovetailError, match="must be a list of objects"):
        remove_context(file, EAST)


def test_file_that_is_not_a_kubeconfig_is_not_changed(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("- a list\n")
    context = kubeconfig_with_aws_cli(EAST, ENDPOINT)

    with pytest.raises(DovetailError, match="is not a kubeconfig"):
        merge_context(file, context)

    assert file.read_text() == "- a list\n"


def test_clusters_of_the_same_name_in_two_regions_have_two_contexts(tmp_path: Path) -> None:
    file = tmp_path / "config"

    merge_context(file, kubeconfig_with_aws_cli(EAST, ENDPOINT))
    merge_context(file, kubeconfig_with_aws_cli(WEST, ENDPOINT, profile="ops"))

    kubeconfig = yaml.safe_load(file.read_text())
    assert [context["name"] for context in kubeconfig["contexts"]] == [EAST.arn, WEST.arn]
    assert EAST.arn == "arn:aws:eks:us-east-1:123456789012:cluster/dev"
    west = kubeconfig["users"][1]["user"]["exec"]
    assert west["env"] == [{"name": "AWS_PROFILE", "value": "ops"}]


def test_context_under_the_name_of_the_cluster_is_replaced(tmp_path: Path) -> None:
    file = tmp_path / "config"
    old = kubeconfig_with_aws_cli(EAST, ENDPOINT)
    for key in ("clusters", "contexts", "users"):
        old[key][0]["name"] = "dev"
    file.write_text(yaml.safe_dump(old))

    merge_context(file, kubeconfig_with_aws_cli(EAST, ENDPOINT))

    kubeconfig = yaml.safe_load(file.read_text())
    assert [context["name"] for context in kubeconfig["contexts"]] == [EAST.arn]
