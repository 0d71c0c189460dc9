"""K1: the controller waits for DNS, and DNS for nodes that only the controller buys."""

from collections.abc import Iterator, Mapping
from typing import Any

from dovetail.doctor.check import Check
from dovetail.doctor.controller_deployment import controller_of, pods_of
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.object_fields import at, is_bought, name_of, namespace_of
from dovetail.ports.api_resources import DEPLOYMENTS, NODES, PODS


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out a controller whose DNS has no home that was there before it."""
    found = controller_of(facts)
    if found is None or not _asks_the_cluster(found.spec):
        return
    bought = {name_of(one) for one in facts.of(NODES) if is_bought(one)}
    for one in facts.of(DEPLOYMENTS):
        if (namespace_of(one), name_of(one)) != ("kube-system", "coredns"):
            continue
        places = [str(at(pod, "spec", "nodeName") or "") for pod in pods_of(facts, one)]
        if not places or any(place and place not in bought for place in places):
            continue
        waiting = sum(not place for place in places)
        yield Symptom(
            about=found.about,
            seen=f"dnsPolicy is {found.spec.get('dnsPolicy') or 'ClusterFirst'}; of "
            f"{len(places)} pods of CoreDNS {waiting} wait and the others are on bought nodes",
            wrong="a controller that starts anew cannot look AWS up: nobody buys DNS a node",
            fix=f"kubectl patch deployment {found.name} -n {found.namespace} --type merge "
            '-p \'{"spec":{"template":{"spec":{"dnsPolicy":"Default"}}}}\'',
        )


def _asks_the_cluster(spec: Mapping[str, Any]) -> bool:
    """Tell whether names are looked up with CoreDNS; in the host's network they are not."""
    policy = spec.get("dnsPolicy") or "ClusterFirst"
    if policy == "ClusterFirst":
        return not spec.get("hostNetwork")
    return bool(policy == "ClusterFirstWithHostNet")


CHECK = Check(
    code="K1",
    title="DNS deadlock",
    severity=Severity.BROKEN,
    how="dnsPolicy of the controller, and the nodes that CoreDNS runs on",
    mend="dnsPolicy Default, or a home for CoreDNS that the controller does not buy",
    needs=(Part.CONTROLLER, DEPLOYMENTS, PODS, NODES),
    find=find,
)
