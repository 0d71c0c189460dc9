"""Helm releases in an existing cluster: ownership and leftovers."""

import asyncio
import gzip
import json
from base64 import b64encode
from typing import Any

import pytest

from dovetail.eks.desired.desired_state import desired_state
from dovetail.eks.plan.resource import OWNERSHIP_TAG
from dovetail.eks.resources.kubernetes.helm import HelmLeftovers
from dovetail.ports.api_resources import NAMESPACES, PODS, SECRETS, Resource
from tests.support.eks.configs import a_cluster
from tests.support.moto.cluster_account import TestAccount

RELEASE = "karpenter"
NAMESPACE = "karpenter"


def test_namespace_created_for_a_release_is_deleted_with_it(account: TestAccount) -> None:
    config = account.prepared("existing-cluster")
    account.apply(config)
    namespaces = _namespaces(account)

    leftovers = account.destroy(config)

    assert NAMESPACE in namespaces
    assert leftovers == []
    assert NAMESPACE not in _namespaces(account)


def test_existing_namespace_is_kept(account: TestAccount) -> None:
    config = account.prepared("existing-cluster")
    api = account.served.api
    account.served.call(lambda: api.create(NAMESPACES, {"metadata": {"name": NAMESPACE}}))
    account.apply(config)

    account.destroy(config)

    assert NAMESPACE in _namespaces(account)


def test_namespace_with_foreign_objects_is_kept_and_reported(account: TestAccount) -> None:
    config = account.prepared("existing-cluster")
    account.apply(config)
    api = account.served.api
    foreign = {"metadata": {"name": "theirs"}, "type": "Opaque"}
    account.served.call(lambda: api.create(SECRETS, foreign, NAMESPACE))

    leftovers = account.destroy(config)

    assert NAMESPACE in _namespaces(account)
    assert [(leftover.kind, leftover.name) for leftover in leftovers] == [("namespace", NAMESPACE)]


class NamespaceWithPod:
    """Stands in for AWS and the API server: one owned namespace with one pod."""

    cluster = "demo"

    def __init__(self, pod: dict[str, Any]) -> None:
        self._pod = pod
        self.deleted = False

    async def wait_for(self, _: str, poll: Any) -> None:
        assert await poll()

    async def resource_for(self, _: str, kind: str) -> Resource | None:
        return PODS if kind == "Pod" else None

    async def list_objects(self, resource: Resource, *, namespace: str) -> list[Any]:
        return [{"metadata": self._pod}]

    async def get(self, resource: Resource, name: str) -> Any:
        return None if self.deleted else {"metadata": {"labels": {OWNERSHIP_TAG: self.cluster}}}

    async def delete(self, resource: Resource, name: str) -> None:
        self.deleted = True


@pytest.mark.parametrize(
    ("pod", "deleted"),
    [({"name": "p"}, False), ({"name": "p", "deletionTimestamp": "2026-01-01T00:00:30Z"}, True)],
    ids=["running", "terminating"],
)
def test_namespace_with_only_terminating_pods_is_deleted(pod: dict[str, Any], deleted: bool) -> None:
    fake: Any = NamespaceWithPod(pod)

    asyncio.run(HelmLeftovers(fake).delete_namespace(fake, NAMESPACE))

    assert fake.deleted is deleted


@pytest.mark.parametrize("status", ["pending-upgrade", "failed"])
def test_unfinished_release_is_owned_and_installed_again(account: TestAccount, status: str) -> None:
    config = account.prepared("existing-cluster")
    account.apply(config)
    api = account.served.api
    newest = _unfinished_revision(status)
    account.served.call(lambda: api.create(SECRETS, newest, NAMESPACE))

    result = account.apply(config)

    assert [step.id for step in result.done] == [f"update helm-release/{NAMESPACE}/{RELEASE}"]
    names = {secret["metadata"]["name"] for secret in account.served.call(lambda: _secrets(account))}
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
def test_chart_of_a_registry_can_come_from_a_repository_or_a_registry(
    repository: str, source: dict[str, str]
) -> None:
    config = a_cluster(
        controller={"image": "registry.example.com/dovetail:1", "interruptionQueue": False},
        addons={"node-termination-handler": {"repository": repository}},
    )

    (release,) = (
        resource for resource in desired_state(config) if resource.name.endswith("node-termination-handler")
    )

    properties = {key: release.properties.get(key) for key in ("chart", "repository")}
    assert {key: value for key, value in properties.items() if value is not None} == source


def _unfinished_revision(status: str) -> dict[str, Any]:
    """Return a second revision of the controller's release, as a killed helm leaves it."""
    revision = {
        "name": RELEASE,
        "namespace": NAMESPACE,
        "version": 2,
        "info": {"status": status, "description": "Preparing upgrade"},
        "chart": {"metadata": {"name": "karpenter", "version": "1.8.1"}},
    }
    text = b64encode(b64encode(gzip.compress(json.dumps(revision).encode()))).decode()
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


def _namespaces(account: TestAccount) -> set[str]:
    namespaces = account.served.call(lambda: account.served.api.list(NAMESPACES).items)
    return {namespace["metadata"]["name"] for namespace in namespaces}


def _secrets(account: TestAccount) -> Any:
    return account.served.api.list(SECRETS).items
