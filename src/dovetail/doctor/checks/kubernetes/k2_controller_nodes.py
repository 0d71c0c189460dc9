"""K2: there is no room for all replicas of the controller."""

from collections.abc import Iterator

from dovetail.doctor.check import Check
from dovetail.doctor.controller_deployment import controller_of
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import at, is_bought, is_fargate, name_of, shown
from dovetail.ports.api_resources import NODES, PODS


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out replicas that wait because there are fewer nodes that were not bought."""
    found = controller_of(facts)
    if found is None:
        return
    waiting = [
        name_of(one)
        for one in found.pods
        if at(one, "status", "phase") == "Pending" and not at(one, "spec", "nodeName")
    ]
    homes = [name_of(one) for one in facts.of(NODES) if not is_bought(one) and not is_fargate(one)]
    if not waiting or len(homes) >= found.replicas:
        return
    yield Symptom(
        about=found.about,
        seen=f"{found.replicas} replicas, {len(homes)} nodes that were not bought; waiting: "
        f"{shown(waiting)}",
        wrong="the controller keeps off nodes that it buys, and each replica wants its own",
        fix=f"kubectl scale deployment {found.name} -n {found.namespace} "
        f"--replicas={max(1, len(homes))}  # or add a node to the node group",
    )


CHECK = Check(
    code="K2",
    title="controller cannot fit",
    severity=Severity.RISK,
    how="replicas that wait, against nodes that no NodePool bought",
    mend="a second node, or one replica",
    needs=(Part.CONTROLLER, PODS, NODES),
    find=find,
)
