"""N4: subnets run out of addresses, or nodes take more pods than they have addresses for."""

from collections.abc import Iterator
from typing import Final

from dovetail.core.instancetypes.capacity import eni_limited_pods
from dovetail.doctor.check import Check
from dovetail.doctor.controller_deployment import controller_of, variables
from dovetail.doctor.facts import Facts, Part
from dovetail.doctor.finding import Severity, Symptom
from dovetail.doctor.instance_types import machines_of
from dovetail.doctor.object_fields import at, class_called, many, name_of, pools, shown
from dovetail.ports.api_resources import DAEMON_SETS, EC2_NODE_CLASSES, NODE_POOLS

_FEW: Final = 32
"""Addresses: about what one node of middling size takes."""


def find(facts: Facts) -> Iterator[Symptom]:
    """Hand out subnets that are nearly full, and classes with more pods than addresses."""
    subnets = {one["SubnetId"]: one for every in facts.aws.subnets.values() for one in every}
    for name, subnet in sorted(subnets.items()):
        free = int(subnet.get("AvailableIpAddressCount", _FEW))
        if free < _FEW:
            yield Symptom(
                about=f"subnet/{name}",
                seen=f"{free} addresses are free in {subnet.get('CidrBlock')}",
                wrong="nodes or pods there get no address",
                fix="kubectl set env daemonset aws-node -n kube-system ENABLE_PREFIX_DELEGATION="
                "true  # or add a subnet with the discovery tag",
            )
    if not _uses_prefixes(facts):
        yield from _too_many_pods(facts)


def _uses_prefixes(facts: Facts) -> bool:
    for one in facts.of(DAEMON_SETS):
        if name_of(one) == "aws-node":
            return any(
                variables(container).get("ENABLE_PREFIX_DELEGATION") == "true"
                for container in many(one, "spec", "template", "spec", "containers")
            )
    return True  # Another network: it does not take its addresses from interfaces.


def _too_many_pods(facts: Facts) -> Iterator[Symptom]:
    found = controller_of(facts)
    reserved = int(found.setting("RESERVED_ENIS") or 0) if found is not None else 0
    for pool in pools(facts):
        node_class = pool.template.node_class.name
        most = at(class_called(facts, node_class), "spec", "kubelet", "maxPods")
        if most is None:
            continue
        small = [
            one.name for one in machines_of(facts, pool) if eni_limited_pods(one, reserved) < most
        ]
        if small:
            yield Symptom(
                about=f"EC2NodeClass/{node_class}",
                seen=f"maxPods is {most}, and NodePool {pool.name} may buy {len(small)} types "
                f"with fewer addresses: {shown(small, 3)}",
                wrong="pods are put on such a node and wait for an address there",
                fix=f"kubectl patch ec2nodeclass {node_class} --type merge "
                '-p \'{"spec":{"kubelet":{"maxPods":null}}}\'  # or prefix delegation',
            )


CHECK = Check(
    code="N4",
    title="subnets short of addresses, or maxPods above the interfaces' capacity",
    severity=Severity.RISK,
    how="free addresses of the classes' subnets; maxPods against the types of each NodePool",
    mend="prefix delegation, a bigger range, or no maxPods",
    needs=(EC2_NODE_CLASSES, NODE_POOLS, DAEMON_SETS, Part.NETWORK, Part.TYPES),
    find=find,
)
