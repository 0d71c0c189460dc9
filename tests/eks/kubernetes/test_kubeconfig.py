"""Contexts in kubeconfig files."""

from pathlib import Path

import pytest
import yaml

from dovetail.eks.kubernetes.api import ApiEndpoint
from dovetail.eks.kubernetes.kubeconfig import kubeconfig_with_aws_cli, merge_context, remove_context
from dovetail.errors import DovetailError

ENDPOINT = ApiEndpoint("https://x", "eA==")


def test_context_is_added_to_a_kubeconfig_and_others_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("contexts: [{name: other, context: {}}]\ncurrent-context: other\n")
    context = kubeconfig_with_aws_cli("dev", "us-east-1", ENDPOINT)

    merge_context(file, context)
    merge_context(file, context)

    kubeconfig = yaml.safe_load(file.read_text())
    assert [context["name"] for context in kubeconfig["contexts"]] == ["other", "dev"]
    assert kubeconfig["current-context"] == "dev"
    assert file.stat().st_mode & 0o077 == 0


def test_context_is_removed_from_a_kubeconfig_and_others_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("contexts: [{name: other, context: {}}]\ncurrent-context: other\n")
    merge_context(file, kubeconfig_with_aws_cli("dev", "us-east-1", ENDPOINT))

    assert not remove_context(file, "dev", region="eu-west-1")
    assert remove_context(file, "dev", region="us-east-1")
    assert not remove_context(file, "dev", region="us-east-1")

    kubeconfig = yaml.safe_load(file.read_text())
    assert [context["name"] for context in kubeconfig["contexts"]] == ["other"]
    assert (kubeconfig["users"], kubeconfig["clusters"], kubeconfig["current-context"]) == ([], [], "")


def test_foreign_context_of_the_same_name_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "config"
    text = "users: [{name: dev, user: {token: mine}}]\n"
    file.write_text(text)

    assert not remove_context(file, "dev", region="us-east-1")
    assert not remove_context(tmp_path / "none", "dev", region="us-east-1")

    assert file.read_text() == text


@pytest.mark.parametrize("text", ["users: 3\n", "contexts: [dev]\n"])
def test_invalid_kubeconfig_entries_are_rejected(tmp_path: Path, text: str) -> None:
    file = tmp_path / "config"
    file.write_text(text)

    with pytest.raises(DovetailError, match="must be a list of objects"):
        remove_context(file, "dev", region="us-east-1")


def test_file_that_is_not_a_kubeconfig_is_not_changed(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("- a list\n")
    context = kubeconfig_with_aws_cli("dev", "us-east-1", ENDPOINT)

    with pytest.raises(DovetailError, match="is not a kubeconfig"):
        merge_context(file, context)

    assert file.read_text() == "- a list\n"
