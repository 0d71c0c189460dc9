"""Events that EventBridge sends to the interruption queue, as JSON."""

import json
from typing import Any

ACCOUNT = "123456789012"
TIME = "2026-01-01T09:00:00Z"


def event(title: str, detail: dict[str, Any], /, *, source: str = "aws.ec2", **more: Any) -> str:
    """Return an event as JSON."""
    envelope: dict[str, Any] = {
        "version": "0",
        "id": "1e5527d7-bb36-4607-3370-4164db56a40e",
        "detail-type": title,
        "source": source,
        "account": ACCOUNT,
        "time": TIME,
        "region": "us-east-1",
        "resources": [],
        "detail": detail,
    }
    return json.dumps({**envelope, **more})


def spot(instance_id: str, **more: Any) -> str:
    detail = {"instance-id": instance_id, "instance-action": "terminate"}
    return event("EC2 Spot Instance Interruption Warning", detail, **more)


def rebalance(instance_id: str) -> str:
    return event("EC2 Instance Rebalance Recommendation", {"instance-id": instance_id})


def reservation(instance_id: str) -> str:
    title = "EC2 Capacity Reservation Instance Interruption Warning"
    return event(title, {"instance-id": instance_id, "instance-action": "terminate"})


def state(instance_id: str, name: str) -> str:
    detail = {"instance-id": instance_id, "state": name}
    return event("EC2 Instance State-change Notification", detail)


def health(*instance_ids: str, service: str = "EC2", category: str = "scheduledChange", **more: Any) -> str:
    detail = {
        "service": service,
        "eventTypeCode": "AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED",
        "eventTypeCategory": category,
        "affectedEntities": [{"entityValue": instance_id} for instance_id in instance_ids],
        **more,
    }
    return event("AWS Health Event", detail, source="aws.health")
