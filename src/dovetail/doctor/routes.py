"""Which subnets have no way out of their network."""

from dovetail.doctor.facts import Facts, Raw
from dovetail.doctor.object_fields import many

_EVERYWHERE = ("0.0.0.0/0", "::/0")


def closed_subnets(facts: Facts) -> list[str]:
    """Return the classes' subnets whose routes lead nowhere but to their own network."""
    subnets = {one["SubnetId"]: one for every in facts.aws.subnets.values() for one in every}
    return [name for name, one in sorted(subnets.items()) if not _leads_out(facts, one)]


def _leads_out(facts: Facts, subnet: Raw) -> bool:
    table = _table_of(facts, subnet)
    if table is None:
        return True  # Nothing is known: nothing is claimed.
    return any(
        one.get("DestinationCidrBlock") in _EVERYWHERE
        or one.get("DestinationIpv6CidrBlock") in _EVERYWHERE
        for one in many(table, "Routes")
        if one.get("State") != "blackhole"
    )


def _table_of(facts: Facts, subnet: Raw) -> Raw | None:
    """Return the subnet's own route table, else its network's main one."""
    main = None
    for table in facts.aws.route_tables:
        for one in many(table, "Associations"):
            if one.get("SubnetId") == subnet["SubnetId"]:
                return table
            if one.get("Main") and table.get("VpcId") == subnet.get("VpcId"):
                main = table
    return main
