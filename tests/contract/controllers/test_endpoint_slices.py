"""EndpointSlices: the addresses of the pods that a Service selects."""

from typing import Any

import pytest

from dovetail.ports.api_resources import ENDPOINT_SLICES, PODS, SERVICES
from tests.contract.apiserver.objects import a_pod
from tests.contract.apiserver.subject import Object
from tests.contract.controllers.subject import ControlPlane, create_node, report_pod, run_pod

WEB = {"app": "web"}


@pytest.fixture
def node(plane: ControlPlane) -> str:
    return create_node(plane, "n1")


def create_service(plane: ControlPlane, *, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    ports = [{"name": "http", "port": 80, "targetPort": "http"}]
    service = {"metadata": {"name": "web", "labels": labels or {}}}
    return plane.create(SERVICES, {**service, "spec": {"selector": WEB, "ports": ports, **spec}})


def web_pod(name: str, node: str, *, port: int = 8080, **spec: Any) -> Object:
    ports = [{"name": "http", "containerPort": port}]
    containers = [{"name": "main", "image": "app:1", "ports": ports}]
    return a_pod(name, labels=WEB, nodeName=node, containers=containers, **spec)


def slices(plane: ControlPlane) -> list[Object]:
    items: list[Object] = plane.list(ENDPOINT_SLICES)["items"]
    return items


def endpoints(plane: ControlPlane) -> dict[str, Object]:
    """Return the endpoints of all slices by the name of their pod."""
    return {
        endpoint["targetRef"]["name"]: endpoint
        for item in slices(plane)
        for endpoint in item.get("endpoints") or ()
    }


def ready(plane: ControlPlane) -> dict[str, bool]:
    return {name: endpoint["conditions"]["ready"] for name, endpoint in endpoints(plane).items()}


def test_a_service_gets_the_addresses_of_its_pods(plane: ControlPlane, node: str) -> None:
    service = create_service(plane, labels={"team": "shop"})

    run_pod(plane, web_pod("a", node), ip="10.9.0.1")
    run_pod(plane, a_pod("other", labels={"app": "db"}, nodeName=node), ip="10.9.0.2")
    plane.wait_until("the pod is an endpoint", lambda: ready(plane) == {"a": True})

    (item,) = slices(plane)
    assert item["metadata"]["generateName"] == "web-"
    assert item["metadata"]["labels"] == {
        "team": "shop",
        "kubernetes.io/service-name": "web",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    (owner,) = item["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("Service", service["metadata"]["uid"], True)
    assert item["addressType"] == "IPv4"
    assert item["ports"] == [{"name": "http", "port": 8080, "protocol": "TCP"}]
    pod = plane.get(PODS, "a")
    assert item["endpoints"] == [
        {
            "addresses": ["10.9.0.1"],
            "conditions": {"ready": True, "serving": True, "terminating": False},
            "nodeName": node,
            "zone": "zone-a",
            "targetRef": {
                "kind": "Pod",
                "namespace": plane.namespace,
                "name": "a",
                "uid": pod["metadata"]["uid"],
            },
        }
    ]


def test_endpoints_follow_the_readiness_of_pods(plane: ControlPlane, node: str) -> None:
    create_service(plane)
    run_pod(plane, web_pod("a", node), ip="10.9.0.1")
    run_pod(plane, web_pod("b", node), ip="10.9.0.2", ready=False)
    plane.wait_until("one is ready", lambda: ready(plane) == {"a": True, "b": False})

    report_pod(plane, "a", ip="10.9.0.1", ready=False)
    report_pod(plane, "b", ip="10.9.0.2")

    plane.wait_until("the other is ready", lambda: ready(plane) == {"a": False, "b": True})
    assert len(slices(plane)) == 1


def test_a_terminating_pod_serves_until_it_is_gone(plane: ControlPlane, node: str) -> None:
    create_service(plane)
    run_pod(plane, web_pod("a", node, terminationGracePeriodSeconds=300), ip="10.9.0.1")
    plane.wait_until("the pod is an endpoint", lambda: ready(plane) == {"a": True})

    plane.delete(PODS, "a")
    plane.wait_until("it terminates", lambda: ready(plane) == {"a": False})
    conditions = endpoints(plane)["a"]["conditions"]
    plane.delete(PODS, "a", grace_period_seconds=0)

    assert conditions == {"ready": False, "serving": True, "terminating": True}
    plane.wait_until("it is gone", lambda: not ready(plane))


def test_pods_that_have_ended_and_pods_without_an_address_are_no_endpoints(
    plane: ControlPlane, node: str
) -> None:
    create_service(plane)
    plane.create(PODS, web_pod("starting", node))
    for name in ("ended", "running"):
        run_pod(plane, web_pod(name, node, restartPolicy="Never"), ip=f"10.9.0.{len(name)}")
    plane.wait_until("two are endpoints", lambda: ready(plane).keys() == {"ended", "running"})

    report_pod(plane, "ended", ip="10.9.0.5", ready=False, phase="Succeeded")

    plane.wait_until("one is left", lambda: ready(plane) == {"running": True})


def test_pods_that_are_not_ready_can_be_published(plane: ControlPlane, node: str) -> None:
    create_service(plane, publishNotReadyAddresses=True)

    run_pod(plane, web_pod("a", node), ip="10.9.0.1", ready=False)

    plane.wait_until("the pod is an endpoint", lambda: ready(plane) == {"a": True})
    assert endpoints(plane)["a"]["conditions"]["serving"] is False


def test_a_service_without_pods_has_an_empty_slice(plane: ControlPlane) -> None:
    create_service(plane)

    plane.wait_until("there is a slice", lambda: len(slices(plane)) == 1)

    (item,) = slices(plane)
    assert not item.get("endpoints")
    assert not item.get("ports")


def test_services_without_a_selector_have_no_slices(plane: ControlPlane) -> None:
    create_service(plane, selector=None)
    named = {"type": "ExternalName", "externalName": "db.example.com", "selector": WEB}
    plane.create(SERVICES, {"metadata": {"name": "db"}, "spec": named})
    # Shows when the controller has seen the other two.
    later = {"selector": {"app": "later"}, "ports": [{"port": 80}]}
    plane.create(SERVICES, {"metadata": {"name": "later"}, "spec": later})

    plane.wait_until("there is a slice", lambda: bool(slices(plane)))

    assert [item["metadata"]["labels"]["kubernetes.io/service-name"] for item in slices(plane)] == ["later"]


def test_pods_with_other_port_numbers_are_in_another_slice(plane: ControlPlane, node: str) -> None:
    create_service(plane)

    run_pod(plane, web_pod("a", node), ip="10.9.0.1")
    run_pod(plane, web_pod("b", node, port=9090), ip="10.9.0.2")
    plane.wait_until("both are endpoints", lambda: ready(plane) == {"a": True, "b": True})
    plane.wait_until("there are two slices", lambda: len(slices(plane)) == 2)

    ports = {item["endpoints"][0]["targetRef"]["name"]: item["ports"][0]["port"] for item in slices(plane)}
    assert ports == {"a": 8080, "b": 9090}


def test_a_headless_service_is_labelled_and_has_host_names(plane: ControlPlane, node: str) -> None:
    create_service(plane, clusterIP="None")

    run_pod(plane, web_pod("web-0", node, hostname="web-0", subdomain="web"), ip="10.9.0.1")
    plane.wait_until("the pod is an endpoint", lambda: ready(plane) == {"web-0": True})

    assert endpoints(plane)["web-0"]["hostname"] == "web-0"
    (item,) = slices(plane)
    assert item["metadata"]["labels"]["service.kubernetes.io/headless"] == ""


def test_a_deleted_slice_is_written_again(plane: ControlPlane, node: str) -> None:
    create_service(plane)
    run_pod(plane, web_pod("a", node), ip="10.9.0.1")
    plane.wait_until("the pod is an endpoint", lambda: ready(plane) == {"a": True})
    before = slices(plane)[0]["metadata"]

    plane.delete(ENDPOINT_SLICES, before["name"])

    plane.wait_until("it is back", lambda: ready(plane) == {"a": True})
    assert slices(plane)[0]["metadata"]["uid"] != before["uid"]


def test_a_changed_selector_selects_other_pods(plane: ControlPlane, node: str) -> None:
    create_service(plane)
    run_pod(plane, web_pod("a", node), ip="10.9.0.1")
    run_pod(plane, a_pod("b", labels={"app": "new"}, nodeName=node), ip="10.9.0.2")
    plane.wait_until("the first is an endpoint", lambda: ready(plane) == {"a": True})

    ports = [{"port": 80, "targetPort": 8080}]
    plane.patch(SERVICES, "web", {"spec": {"selector": {"app": "new"}, "ports": ports}})

    plane.wait_until("the second is the only one", lambda: ready(plane) == {"b": True})


def test_slices_are_deleted_with_their_service(plane: ControlPlane, node: str) -> None:
    create_service(plane)
    run_pod(plane, web_pod("a", node), ip="10.9.0.1")
    plane.wait_until("the pod is an endpoint", lambda: ready(plane) == {"a": True})

    plane.delete(SERVICES, "web")

    plane.wait_until("the slice is gone", lambda: not slices(plane))


def test_a_slice_has_at_most_100_endpoints(plane: ControlPlane, node: str) -> None:
    create_service(plane)

    for number in range(103):
        run_pod(plane, web_pod(f"p{number}", node), ip=f"10.9.1.{number + 1}")
    plane.wait_until("all are endpoints", lambda: len(ready(plane)) == 103)

    assert sorted(len(item["endpoints"]) for item in slices(plane)) == [3, 100]
