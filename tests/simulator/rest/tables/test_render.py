"""Cells of the printer columns, for objects in all states."""

from datetime import UTC, datetime
from typing import Any

import pytest

from dovetail.ports.api_resources import (
    API_SERVICES,
    CRON_JOBS,
    CSI_DRIVERS,
    DAEMON_SETS,
    ENDPOINTS,
    EVENTS,
    HORIZONTAL_POD_AUTOSCALERS,
    JOBS,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    PODS,
    RESOURCES,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VALIDATING_POLICIES,
    VALIDATING_POLICY_BINDINGS,
    Resource,
)
from dovetail.simulator.rest.tables.render import encode_row, printer_columns

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def shown(resource: Resource, obj: dict[str, Any]) -> dict[str, Any]:
    meta = {"name": "x", "creationTimestamp": "2026-01-01T11:59:00Z", **obj.get("metadata", {})}
    columns = printer_columns(resource)
    cells = encode_row(columns, {**obj, "metadata": meta}, NOW, "None")["cells"]
    return {column.name: cell for column, cell in zip(columns, cells, strict=True)}


def a_pod(*states: dict[str, Any], **status: Any) -> dict[str, Any]:
    containers = [{"name": f"c{at}", "image": "i"} for at in range(max(1, len(states)))]
    statuses = [
        {"name": f"c{at}", "ready": "running" in state, "restartCount": at, "state": state}
        for at, state in enumerate(states)
    ]
    return {
        "spec": {"containers": containers},
        "status": {"phase": "Running", "containerStatuses": statuses, **status},
    }


RUNNING: dict[str, Any] = {"running": {}}
DONE = {"terminated": {"exitCode": 0, "reason": "Completed"}}
LEAVING = {"metadata": {"deletionTimestamp": "2026-01-01T12:00:00Z"}}
READY = [{"type": "Ready", "status": "True"}]


@pytest.mark.parametrize(
    ("pod", "status"),
    [
        (a_pod(RUNNING), "Running"),
        (a_pod(phase="Pending"), "Pending"),
        (a_pod(phase="Failed", reason="Evicted"), "Evicted"),
        (a_pod({"waiting": {"reason": "CrashLoopBackOff"}}), "CrashLoopBackOff"),
        (a_pod({"terminated": {"exitCode": 3}}), "ExitCode:3"),
        (a_pod({"terminated": {"exitCode": 137, "signal": 9}}), "Signal:9"),
        (a_pod({"terminated": {"exitCode": 1, "reason": "Error"}}), "Error"),
        (a_pod(DONE, phase="Succeeded"), "Completed"),
        (a_pod(DONE, RUNNING, conditions=READY), "Running"),
        (a_pod(DONE, RUNNING), "NotReady"),
        (a_pod(RUNNING) | LEAVING, "Terminating"),
        (
            a_pod(
                phase="Pending",
                conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
            ),
            "SchedulingGated",
        ),
    ],
)
def test_the_status_of_a_pod_is_the_most_specific_reason(pod: dict[str, Any], status: str) -> None:
    assert shown(PODS, pod)["Status"] == status


def test_a_pod_counts_ready_containers_and_restarts() -> None:
    cells = shown(PODS, a_pod(RUNNING, {"waiting": {"reason": "ErrImagePull"}}, RUNNING))

    assert cells["Ready"] == "2/3"
    assert cells["Restarts"] == "3"
    assert cells["Age"] == "60s"


def test_init_containers_are_counted_while_they_run() -> None:
    pod = a_pod(phase="Pending")
    pod["spec"]["initContainers"] = [
        {"name": "first"},
        {"name": "helper", "restartPolicy": "Always"},
        {"name": "last"},
    ]
    pod["status"]["initContainerStatuses"] = [
        {"name": "first", "state": DONE},
        {"name": "helper", "state": RUNNING, "started": True, "ready": True},
        {"name": "last", "state": RUNNING},
    ]

    cells = shown(PODS, pod)

    assert cells["Status"] == "Init:2/3"
    assert cells["Ready"] == "1/2"


def test_the_failure_of_an_init_container_is_shown() -> None:
    pod = a_pod(phase="Pending")
    pod["spec"]["initContainers"] = [{"name": "first"}]
    ended = {"terminated": {"exitCode": 2}}
    pod["status"]["initContainerStatuses"] = [{"name": "first", "state": ended}]

    assert shown(PODS, pod)["Status"] == "Init:ExitCode:2"


def test_readiness_gates_are_counted() -> None:
    pod = a_pod(RUNNING, conditions=[{"type": "a", "status": "True"}])
    pod["spec"]["readinessGates"] = [{"conditionType": "a"}, {"conditionType": "b"}]

    assert shown(PODS, pod)["Readiness Gates"] == "1/2"


@pytest.mark.parametrize(
    ("conditions", "unschedulable", "status"),
    [
        ([], False, "Unknown"),
        ([{"type": "Ready", "status": "Unknown"}], False, "NotReady"),
        (READY, False, "Ready"),
        (READY, True, "Ready,SchedulingDisabled"),
    ],
)
def test_the_status_of_a_node_is_its_readiness(
    conditions: list[Any], unschedulable: bool, status: str
) -> None:
    node = {"spec": {"unschedulable": unschedulable}, "status": {"conditions": conditions}}

    assert shown(NODES, node)["Status"] == status


def test_the_roles_of_a_node_come_from_its_labels() -> None:
    labels = {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "agent"}

    assert shown(NODES, {"metadata": {"labels": labels}})["Roles"] == "agent,worker"


def test_workloads_show_desired_and_actual_replicas() -> None:
    daemon = shown(
        DAEMON_SETS,
        {
            "spec": {"template": {"spec": {"nodeSelector": {"a": "b"}, "containers": []}}},
            "status": {"desiredNumberScheduled": 3, "numberReady": 2},
        },
    )
    stateful = shown(STATEFUL_SETS, {"spec": {"replicas": 3}, "status": {"readyReplicas": 1}})

    assert (daemon["Desired"], daemon["Ready"], daemon["Node Selector"]) == (3, 2, "a=b")
    assert stateful["Ready"] == "1/3"


def test_jobs_show_completions_and_duration() -> None:
    status = {
        "succeeded": 2,
        "startTime": "2026-01-01T11:00:00Z",
        "completionTime": "2026-01-01T11:00:42Z",
        "conditions": [{"type": "Complete", "status": "True"}],
    }
    done = shown(JOBS, {"spec": {"completions": 2}, "status": status})
    running = shown(JOBS, {"spec": {"parallelism": 3}, "status": {"startTime": status["startTime"]}})
    cron = shown(CRON_JOBS, {"spec": {"schedule": "@daily"}, "status": {}})

    assert (done["Status"], done["Completions"], done["Duration"]) == ("Complete", "2/2", "42s")
    assert (running["Status"], running["Completions"]) == ("Running", "0/1 of 3")
    assert running["Duration"] == "60m"
    assert (cron["Suspend"], cron["Last Schedule"]) == (False, "<none>")


def test_events_show_time_reason_and_object() -> None:
    event = {
        "type": "Warning",
        "reason": "FailedScheduling",
        "message": "no nodes\n",
        "involvedObject": {"kind": "Pod", "name": "web"},
        "lastTimestamp": "2026-01-01T11:59:55Z",
        "source": {"component": "karpenter"},
    }

    cells = shown(EVENTS, event)

    assert (cells["Last Seen"], cells["Object"], cells["Message"]) == ("5s", "pod/web", "no nodes")
    assert (cells["Source"], cells["Count"]) == ("karpenter", 1)


def test_services_show_their_addresses_and_ports() -> None:
    service = {"spec": {"type": "LoadBalancer", "ports": [{"port": 80, "nodePort": 30080}]}}

    waiting = shown(SERVICES, service)
    entry = {"loadBalancer": {"ingress": [{"hostname": "lb.example"}]}}
    served = shown(SERVICES, {**service, "status": entry})
    elsewhere = shown(SERVICES, {"spec": {"type": "ExternalName", "externalName": "a.example"}})

    assert (waiting["External-IP"], waiting["Port(s)"]) == ("<pending>", "80:30080/TCP")
    assert served["External-IP"] == "lb.example"
    assert (elsewhere["External-IP"], elsewhere["Port(s)"]) == ("a.example", "<none>")


def test_autoscalers_show_their_targets() -> None:
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": {"averageUtilization": 80}}}
    target = {"kind": "Deployment", "name": "web"}

    cells = shown(
        HORIZONTAL_POD_AUTOSCALERS,
        {"spec": {"scaleTargetRef": target, "metrics": [metric], "maxReplicas": 5}},
    )

    assert cells["Reference"] == "Deployment/web"
    assert cells["Targets"] == "cpu: <unknown>/80%"


def test_volumes_show_their_claims() -> None:
    volume = shown(
        PERSISTENT_VOLUMES,
        {
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
                "claimRef": {"namespace": "default", "name": "data"},
            },
            "status": {"phase": "Bound"},
        },
    )
    claim = shown(PERSISTENT_VOLUME_CLAIMS, {"status": {"phase": "Pending"}})
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    kind = shown(STORAGE_CLASSES, {"metadata": {"annotations": annotations}, "provisioner": "ebs"})

    assert (volume["Access Modes"], volume["Claim"]) == ("RWO,RWX", "default/data")
    assert claim["Status"] == "Pending"
    assert (kind["Name"], kind["ReclaimPolicy"]) == ("x (default)", "Delete")


def test_kinds_that_charts_bring_have_the_columns_of_kubernetes() -> None:
    driver = shown(CSI_DRIVERS, {"spec": {"attachRequired": True, "volumeLifecycleModes": ["Persistent"]}})
    unavailable = {"type": "Available", "status": "False", "reason": "FailedDiscoveryCheck"}
    service = {"namespace": "kube-system", "name": "metrics-server"}
    api = shown(API_SERVICES, {"spec": {"service": service}, "status": {"conditions": [unavailable]}})
    policy = shown(VALIDATING_POLICIES, {"spec": {"validations": [{"expression": "true"}]}})
    binding = shown(VALIDATING_POLICY_BINDINGS, {"spec": {"policyName": "x", "paramRef": {"name": "limits"}}})
    addresses = [{"ip": f"10.0.0.{number}"} for number in range(1, 6)]
    endpoints = shown(ENDPOINTS, {"subsets": [{"addresses": addresses, "ports": [{"port": 80}]}]})

    assert (driver["AttachRequired"], driver["TokenRequests"], driver["Modes"]) == (
        True,
        "<unset>",
        "Persistent",
    )
    assert (api["Service"], api["Available"]) == (
        "kube-system/metrics-server",
        "False (FailedDiscoveryCheck)",
    )
    assert (policy["Validations"], policy["ParamKind"]) == (1, "<unset>")
    assert (binding["PolicyName"], binding["ParamRef"]) == ("x", "limits")
    assert endpoints["Endpoints"] == "10.0.0.1:80,10.0.0.2:80,10.0.0.3:80 + 2 more..."


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.plural)
def test_an_object_without_fields_has_a_row(resource: Resource) -> None:
    cells = shown(resource, {})

    assert "x" in cells.values()
