"""ResourceQuotas limit the pods, volume claims and numbers of objects of a namespace."""

from typing import Any

import pytest

from dovetail.ports.api_resources import (
    DEPLOYMENTS,
    PERSISTENT_VOLUME_CLAIMS,
    PODS,
    RESOURCE_QUOTAS,
    SERVICES,
)
from dovetail.ports.kube_errors import Forbidden
from tests.contract.apiserver.objects import a_deployment, a_pod
from tests.contract.apiserver.subject import Object, Subject


def create_quota(server: Subject, **hard: str) -> None:
    """Create a quota, and wait until its controller has written the status."""
    spec = {"hard": {name.replace("__", "."): amount for name, amount in hard.items()}}
    server.create(RESOURCE_QUOTAS, {"metadata": {"name": "team"}, "spec": spec})
    server.wait_for_controllers()


def pod(name: str, **resources: Any) -> Object:
    return a_pod(name, containers=[{"name": "main", "image": "app:1", "resources": resources}])


def test_pods_beyond_the_requests_of_a_quota_are_rejected(server: Subject) -> None:
    create_quota(server, requests__cpu="1500m")
    server.create(PODS, pod("a", requests={"cpu": "1"}))

    with pytest.raises(Forbidden) as rejected:
        server.create(PODS, pod("b", requests={"cpu": "1"}))

    assert "exceeded quota: team, requested: requests.cpu=1, used: requests.cpu=1" in str(rejected.value)
    assert "limited: requests.cpu=1500m" in str(rejected.value)
    server.create(PODS, pod("c", requests={"cpu": "500m"}))


def test_a_pod_must_specify_what_a_quota_limits(server: Subject) -> None:
    create_quota(server, limits__memory="1Gi")

    with pytest.raises(Forbidden) as rejected:
        server.create(PODS, pod("a", requests={"memory": "1Mi"}))

    assert "failed quota: team: must specify limits.memory for: main" in str(rejected.value)


def test_volume_claims_are_limited_by_number_and_size(server: Subject) -> None:
    create_quota(server, persistentvolumeclaims="2", requests__storage="10Gi")

    def create_claim(name: str, size: str) -> None:
        resources = {"requests": {"storage": size}}
        spec = {"accessModes": ["ReadWriteOnce"], "resources": resources}
        server.create(PERSISTENT_VOLUME_CLAIMS, {"metadata": {"name": name}, "spec": spec})

    create_claim("a", "8Gi")

    with pytest.raises(Forbidden, match="exceeded quota"):
        create_claim("b", "4Gi")
    create_claim("c", "2Gi")


def test_a_dry_run_takes_nothing_of_a_quota(server: Subject) -> None:
    create_quota(server, pods="1")

    server.create(PODS, pod("a"), dry_run=True)

    server.create(PODS, pod("b"))


def a_service(name: str, kind: str = "ClusterIP") -> Object:
    return {"metadata": {"name": name}, "spec": {"type": kind, "ports": [{"port": 80}]}}


def test_the_number_of_services_is_limited(server: Subject) -> None:
    create_quota(server, services="2", services__loadbalancers="0")
    server.create(SERVICES, a_service("a"))

    with pytest.raises(Forbidden) as balanced:
        server.create(SERVICES, a_service("b", "LoadBalancer"))
    assert "requested: services.loadbalancers=1, used: services.loadbalancers=0" in str(balanced.value)
    server.create(SERVICES, a_service("b"))
    with pytest.raises(Forbidden) as rejected:
        server.create(SERVICES, a_service("c"))

    expected = 'services "c" is forbidden: exceeded quota: team, requested: services=1, used: services=2'
    assert expected in str(rejected.value)


def test_objects_of_any_kind_are_counted(server: Subject) -> None:
    create_quota(server, **{"count/deployments__apps": "1"})
    server.create(DEPLOYMENTS, a_deployment("a"))

    with pytest.raises(Forbidden) as rejected:
        server.create(DEPLOYMENTS, a_deployment("b"))

    assert 'deployments.apps "b" is forbidden: exceeded quota: team' in str(rejected.value)
    assert "requested: count/deployments.apps=1, used: count/deployments.apps=1" in str(rejected.value)
