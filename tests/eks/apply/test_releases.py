"""Helm releases in a cluster that stays: what is ours of them, and what is left of them."""

import gzip
import json
from base64 import b64encode
from typing import Any

import pytest

from dovetail.eks.desired.desired_state import wanted
from dovetail.ports.api_resources import NAMESPACES, SECRETS
from tests.support.clusters import a_cluster
from tests.support.moto.account import TestAccount

RELEASE = "karpenter"
SPACE = "karpenter"


def test_the_namespace_of_a_release_goes_with_it(account: TestAccount) -> None:
    spec = account.prepared("existing-cluster")
    account.apply(spec)
    made = _spaces(account)

    left = account.destroy(spec)

    assert SPACE in made
    assert left == []
    assert SPACE not in _spaces(account)


def test_a_namespace_that_was_there_before_stays(account: TestAccount) -> None:
    spec = account.prepared("existing-cluster")
    api = account.served.api
    account.served.call(lambda: api.create(NAMESPACES, {"metadata": {"name": SPACE}}))
    account.apply(spec)

    account.destroy(spec)

    assert SPACE in _spaces(account)


def test_a_namespace_that_others_use_stays_and_is_named(account: TestAccount) -> None:
    spec = account.prepared("existing-cluster")
    account.apply(spec)
    api = account.served.api
    theirs = {"metadata": {"name": "theirs"}, "type": "Opaque"}
    account.served.call(lambda: api.create(SECRETS, theirs, SPACE))

    left = account.destroy(spec)

    assert SPACE in _spaces(account)
    assert [(one.what, one.name) for one in left] == [("namespace", SPACE)]


@pytest.mark.parametrize("status", ["pending-upgrade", "failed"])
def test_a_release_that_helm_did_not_finish_is_ours_and_is_installed_anew(
    account: TestAccount, status: str
) -> None:
    spec = account.prepared("existing-cluster")
    account.apply(spec)
    api = account.served.api
    newest = _unfinished(status)
    account.served.call(lambda: api.create(SECRETS, newest, SPACE))

    run = account.apply(spec)

    assert [one.id for one in run.done] == [f"change helm-release/{SPACE}/{RELEASE}"]
    names = {one["metadata"]["name"] for one in account.served.call(lambda: _secrets(account))}
    assert (newest["metadata"]["name"] in names) == (status == "failed")


@pytest.mark.parametrize(
    ("repository", "source"),
    [
        (
            "https://charts.example.com",
            {"chart": "aws-node-termination-handler", "repository": "https://charts.example.com"},
        ),
        (
            "oci://registry.example.com/mirror/",
            {"chart": "oci://registry.example.com/mirror/aws-node-termination-handler"},
        ),
    ],
)
def test_a_chart_of_a_registry_can_come_from_a_mirror_of_either_kind(
    repository: str, source: dict[str, str]
) -> None:
    spec = a_cluster(
        controller={"image": "registry.example.com/dovetail:1", "interruptionQueue": False},
        addons={"node-termination-handler": {"repository": repository}},
    )

    (release,) = (one for one in wanted(spec) if one.name.endswith("node-termination-handler"))

    found = {key: release.properties.get(key) for key in ("chart", "repository")}
    assert {key: value for key, value in found.items() if value is not None} == source


def _unfinished(status: str) -> dict[str, Any]:
    """Return a second revision of the controller's release as helm leaves it when it is killed."""
    whole = {
        "name": RELEASE,
        "namespace": SPACE,
        "version": 2,
        "info": {"status": status, "description": "Preparing upgrade"},
        "chart": {"metadata": {"name": "karpenter", "version": "1.8.1"}},
    }
    text = b64encode(b64encode(gzip.compress(json.dumps(whole).encode()))).decode()
    labels = {
        "owner": "helm",
        "name": RELEASE,
        "status": status,
        "version": "2",
        "dovetail.sh/cluster": "platform-one",
    }
    return {
        "metadata": {"name": f"sh.helm.release.v1.{RELEASE}.v2", "labels": labels},
        "type": "helm.sh/release.v1",
        "data": {"release": text},
    }


def _spaces(account: TestAccount) -> set[str]:
    found = account.served.call(lambda: account.served.api.list(NAMESPACES).items)
    return {one["metadata"]["name"] for one in found}


def _secrets(account: TestAccount) -> Any:
    return account.served.api.list(SECRETS).items
