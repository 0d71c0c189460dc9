"""How many pods can have a network interface of their own.

EC2's API does not say it. AWS documents it per type under "security groups for
pods": a Nitro machine has a budget of interfaces that grows with its vCPUs;
what its own interfaces leave of it are branch interfaces. The few families
that stray from the budget are listed with what AWS documents for them.
"""

from dovetail.core.instancetypes.type_names import category_and_generation, family_of, is_flex
from dovetail.model.cloud.ec2_catalog import Machine

_MOST_BRANCHES = 120
_BUDGETS = ((1, 6), (2, 12), (4, 22), (8, 42), (12, 42), (24, 62))
"""(vCPUs at most, interfaces): machines of up to 24 vCPUs."""
_FLEX_BUDGETS = ((2, 6), (4, 12), (8, 22), (16, 42), (32, 62))
_LARGE_BUDGET = 122
_MIDDLE_BUDGET = 62
_NO_TRUNK_FAMILIES = frozenset({"u-6tb1", "trn2", "trn2u"})
_NO_TRUNK_CATEGORIES = frozenset({"t", "hpc", "mac"})
_DOCUMENTED: dict[str, dict[int, int]] = {
    "a1": {1: 10},
    "d3": {4: 42, 8: 92, 16: 118, 32: 119},
    "d3en": {4: 24, 8: 58, 16: 118, 24: 118, 32: 118, 48: 119},
    "f2": {24: 84, 48: 114},
    "g4dn": {4: 39, 32: 58},
    "g5": {4: 4, 8: 17, 16: 34},
    "g7e": {8: 120, 16: 120, 32: 120, 48: 120, 96: 120, 192: 120},
    "i3en": {2: 5, 4: 12, 8: 28, 12: 38},
    "i4i": {2: 0, 4: 6, 8: 26, 16: 52, 32: 112, 48: 112, 64: 120, 96: 105, 128: 120},
    "i7i": {48: 84},
    "i7ie": {2: 19, 4: 27, 8: 27, 12: 27},
    "i8ge": {2: 19, 4: 27, 8: 27, 12: 25},
    "inf1": {4: 38},
    "inf2": {32: 84},
    "m5zn": {2: 13, 4: 29, 8: 62, 12: 92, 24: 114, 48: 107},
    "p5": {192: 120},
    "p5e": {192: 120},
    "p5en": {192: 120},
    "p6-b200": {192: 120},
    "p6-b300": {192: 120},
    "trn1": {8: 17, 128: 82},
    "trn1n": {128: 120},
    "u-3tb1": {224: 6},
    "x2gd": {1: 10},
    "x2iedn": {4: 11, 8: 27, 32: 114},
    "x2iezn": {8: 62, 16: 114, 24: 114, 32: 114, 48: 107},
    "z1d": {2: 13, 4: 28, 8: 58, 12: 54, 48: 107},
}
"""Family → vCPUs → branch interfaces."""


def branch_interfaces(machine: Machine) -> int:
    """Return the trunk's capacity for branch interfaces; 0 where it cannot trunk."""
    family = family_of(machine.name)
    shape = category_and_generation(machine.name)
    if machine.hypervisor == "xen" or shape is None:
        return 0
    if shape[0] in _NO_TRUNK_CATEGORIES or family in _NO_TRUNK_FAMILIES:
        return 0
    documented = _DOCUMENTED.get(family, {}).get(machine.vcpus)
    if documented is not None:
        return documented
    generation = int(shape[1])
    if machine.bare_metal and generation >= 8 and family.endswith(("b", "n")):
        return 0
    return min(_MOST_BRANCHES, max(0, _budget(machine, generation) - machine.total_enis))


def _budget(machine: Machine, generation: int) -> int:
    flex = is_flex(machine.name)
    if not flex and 24 < machine.vcpus < 64:
        return _middle_budget(machine, generation)
    ladder: tuple[tuple[int, int], ...] = _FLEX_BUDGETS if flex else _BUDGETS
    return next((many for vcpus, many in ladder if machine.vcpus <= vcpus), _LARGE_BUDGET)


def _middle_budget(machine: Machine, generation: int) -> int:
    """Between 24 and 64 vCPUs, Graviton and older machines have half of the rest's."""
    family = family_of(machine.name)
    frugal = machine.cpu_manufacturer == "AWS" or family in ("i3en", "i7ie", "i8ge", "g4dn")
    if frugal or (generation <= 5 and family != "g5"):
        return _MIDDLE_BUDGET
    return 92 if machine.vcpus <= 32 else _LARGE_BUDGET
