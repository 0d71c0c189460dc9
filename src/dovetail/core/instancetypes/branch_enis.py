"""Branch network interfaces per instance type (security groups for pods).

The EC2 API does not return the number. AWS documents it per type: a Nitro instance
has a budget of interfaces that grows with its vCPUs, and what its own interfaces
leave are branch interfaces. Families that differ are listed with AWS's numbers.
"""

from dovetail.core.instancetypes.type_names import category_and_generation, family_of, is_flex
from dovetail.model.cloud.ec2_catalog import Ec2InstanceType

_MAX_BRANCH_ENIS = 120
_BUDGETS = ((1, 6), (2, 12), (4, 22), (8, 42), (12, 42), (24, 62))
"""(maximum vCPUs, interfaces), for types with up to 24 vCPUs."""
_FLEX_BUDGETS = ((2, 6), (4, 12), (8, 22), (16, 42), (32, 62))
_LARGE_BUDGET = 122
_MID_SIZE_BUDGET = 62
_NO_TRUNK_FAMILIES = frozenset({"u-6tb1", "trn2", "trn2u"})
_NO_TRUNK_CATEGORIES = frozenset({"t", "hpc", "mac"})
_DOCUMENTED: dict[str, dict[int, int]] = {
    "a1": {1: 10},
    "d3": {4: 42, 8: 92, 16: 118, 32: 119},
    "d3en": {4: 24, 8: 58, 16: 118, 24: 118, 32: 118, 48: 119},
    "f2": {24: 84, 48: 114},
    "g4ad": {4: 12, 8: 12, 16: 11, 32: 10, 64: 6},
    "g4dn": {4: 39, 32: 58},
    "g5": {4: 4, 8: 17, 16: 34},
    "g7e": {8: 120, 16: 120, 32: 120, 48: 120, 96: 120, 192: 120},
    "hpc7g": {16: 118, 32: 118, 64: 118},
    "i3en": {2: 5, 4: 12, 8: 28, 12: 38},
    "i4i": {2: 9, 4: 6, 8: 26, 16: 52, 32: 112, 48: 112, 64: 120, 96: 105, 128: 120},
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
_DOCUMENTED_TYPES = {"m5.metal": 120, "r5.metal": 120}
"""Types that differ from others of their family with as many vCPUs."""


def max_branch_enis(ec2_type: Ec2InstanceType) -> int:
    """Return the number of branch interfaces; 0 if the type does not support trunking."""
    family = family_of(ec2_type.name)
    category = category_and_generation(ec2_type.name)
    if ec2_type.hypervisor == "xen" or category is None:
        return 0
    documented = _DOCUMENTED_TYPES.get(ec2_type.name, _DOCUMENTED.get(family, {}).get(ec2_type.vcpus))
    if documented is not None:
        return documented
    if category[0] in _NO_TRUNK_CATEGORIES or family in _NO_TRUNK_FAMILIES:
        return 0
    generation = int(category[1])
    return min(_MAX_BRANCH_ENIS, max(0, _interface_budget(ec2_type, generation) - ec2_type.total_enis))


def _interface_budget(ec2_type: Ec2InstanceType, generation: int) -> int:
    flex = is_flex(ec2_type.name)
    if not flex and 24 < ec2_type.vcpus < 64:
        return _mid_size_budget(ec2_type, generation)
    budgets: tuple[tuple[int, int], ...] = _FLEX_BUDGETS if flex else _BUDGETS
    return next((enis for vcpus, enis in budgets if ec2_type.vcpus <= vcpus), _LARGE_BUDGET)


def _mid_size_budget(ec2_type: Ec2InstanceType, generation: int) -> int:
    """Return the budget between 24 and 64 vCPUs: half for Graviton and older types."""
    family = family_of(ec2_type.name)
    has_half_budget = ec2_type.cpu_manufacturer == "AWS" or family in ("i3en", "i7ie", "i8ge", "g4dn")
    if has_half_budget or (generation <= 5 and family != "g5"):
        return _MID_SIZE_BUDGET
    return 92 if ec2_type.vcpus <= 32 else _LARGE_BUDGET
