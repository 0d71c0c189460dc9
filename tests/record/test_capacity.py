"""Interruptions and capacity errors, from Events of NodeClaims."""

from typing import Any

from dovetail.record.capacity import CapacityObserver
from dovetail.trace.model import CapacityError, Interruption


def event(reason: str, *, uid: str = "1", count: int = 1, message: str = "") -> dict[str, Any]:
    return {
        "metadata": {"uid": uid},
        "reason": reason,
        "count": count,
        "message": message,
        "involvedObject": {"kind": "NodeClaim", "name": "default-x7k2p"},
    }


def observer() -> CapacityObserver:
    observed = CapacityObserver()
    requirements = {
        "karpenter.sh/capacity-type": ["spot"],
        "node.kubernetes.io/instance-type": ["m5.large", "m6i.large"],
    }
    observed.observe_claim(
        {
            "metadata": {
                "name": "default-x7k2p",
                "labels": {
                    "node.kubernetes.io/instance-type": "m5.large",
                    "topology.kubernetes.io/zone": "eu-west-1a",
                    "karpenter.sh/capacity-type": "spot",
                },
            },
            "spec": {
                "requirements": [
                    {"key": key, "operator": "In", "values": values} for key, values in requirements.items()
                ]
            },
        }
    )
    return observed


def test_an_interruption_has_the_offering_of_its_nodeclaim() -> None:
    events = list(observer().observe([event("SpotInterrupted"), event("Unconsolidatable", uid="2")]))

    assert events == [Interruption(t=0, instance_type="m5.large", zone="eu-west-1a", count=1)]


def test_each_occurrence_is_recorded_once() -> None:
    observed = observer()
    observed.skip([event("SpotInterrupted", uid="old")])

    first = list(observed.observe([event("SpotInterrupted", uid="old"), event("SpotInterrupted")]))
    repeated = list(observed.observe([event("SpotInterrupted"), event("SpotInterrupted", count=2)]))

    assert (len(first), len(repeated)) == (1, 1)


def test_a_capacity_error_has_the_offerings_of_the_message_else_those_of_the_nodeclaim() -> None:
    named = "EC2 has no capacity for m5.large/spot/eu-west-1a"
    unnamed = "NodeClaim default-x7k2p event: creating instance, insufficient capacity"

    events = list(
        observer().observe(
            [
                event("InsufficientCapacityError", uid="a", message=named),
                event("InsufficientCapacityError", uid="b", message=unnamed),
            ]
        )
    )

    assert events == [
        CapacityError(t=0, instance_type="m5.large", zone="eu-west-1a", capacity_type="spot"),
        CapacityError(t=0, instance_type="m5.large", capacity_type="spot"),
        CapacityError(t=0, instance_type="m6i.large", capacity_type="spot"),
    ]
