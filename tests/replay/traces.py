"""Small traces to replay."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dovetail.data.bundled import bundled_catalog, bundled_prices
from dovetail.replay.play import ReplayOptions
from dovetail.trace.model import End, Event, Header, Set, Template
from dovetail.trace.reader import Trace
from dovetail.trace.writer import TraceWriter

START = datetime(2026, 3, 2, tzinfo=UTC)
HEADER = Header(written_by="test", start=START, region="us-east-1", cluster="shop")


def a_trace(*events: Event, seconds: float = 3600) -> Trace:
    """Return a trace with a NodePool and these events."""
    return Trace(header=HEADER, events=(*pools(), *events), seconds=seconds)


def write_trace(path: Path, *events: Event, seconds: float = 3600, has_pool: bool = True) -> Path:
    """Write the same to a file."""
    with TraceWriter(path, HEADER) as writer:
        for event in (*(pools() if has_pool else ()), *events, End(t=seconds)):
            writer.write(event)
    return path


def options(**changed: Any) -> ReplayOptions:
    return ReplayOptions(catalog=bundled_catalog(), prices=bundled_prices(), **changed)


def pools() -> tuple[Set, ...]:
    return Set(t=0, object=node_class()), Set(t=0, object=nodepool())


def node_class() -> dict[str, Any]:
    return {
        "apiVersion": "karpenter.k8s.aws/v1",
        "kind": "EC2NodeClass",
        "metadata": {"name": "default"},
        "spec": {
            "role": "node",
            "amiSelectorTerms": [{"alias": "al2023@latest"}],
            "subnetSelectorTerms": [{"tags": {"karpenter.sh/discovery": "shop"}}],
            "securityGroupSelectorTerms": [{"tags": {"karpenter.sh/discovery": "shop"}}],
        },
    }


def nodepool(name: str = "default", *capacity_types: str, after: str = "1m") -> dict[str, Any]:
    types = list(capacity_types or ("spot",))
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {"name": name},
        "spec": {
            "template": {
                "spec": {
                    "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
                    "expireAfter": "Never",
                    "requirements": [
                        {"key": "karpenter.sh/capacity-type", "operator": "In", "values": types},
                        {"key": "karpenter.k8s.aws/instance-cpu", "operator": "In", "values": ["4"]},
                    ],
                }
            },
            "disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized", "consolidateAfter": after},
        },
    }


def deployment(name: str, replicas: int, *, cpu: str = "1", revision: str = "1") -> dict[str, Any]:
    template = pod_template(name, cpu)
    template["metadata"]["annotations"] = {"dovetail.sh/revision": revision}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def pod_template(name: str, cpu: str = "1") -> dict[str, Any]:
    """Return a template without images, as recorded."""
    container = {"name": "main", "resources": {"requests": {"cpu": cpu, "memory": "512Mi"}}}
    return {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}


def task_template(id: str, *, owner: str = "Job", cpu: str = "3") -> Template:
    return Template(
        t=0, id=id, namespace="batch", owner=owner, workload="nightly", template=pod_template(id, cpu)
    )
