"""CPU credits of burstable types: baseline, surplus price and planning policy.

Sources: the credit table of "Key concepts for burstable performance instances" in the Amazon
EC2 User Guide (docs.aws.amazon.com/AWSEC2/latest/UserGuide/burstable-credits-baseline-concepts.html),
and "T2/T3/T4g Unlimited Mode Pricing" on aws.amazon.com/ec2/pricing/on-demand. The surplus
price is the same for all sizes, regions and capacity types.
"""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import msgspec

from dovetail.model.cloud.ec2_catalog import Ec2InstanceType


class BurstablePolicy(StrEnum):
    """Treatment of burstable instance types in plans."""

    ALLOW = "allow"
    """Like any other type, at their list price, as in Karpenter."""
    BASELINE = "baseline"
    """Expected CPU above the baseline is added to the price."""
    AVOID = "avoid"
    """As ``BASELINE``, and only where no other type fits."""


LAST_RESORT_PRICE: Final = 1.0
"""USD per vCPU-hour that plans add to types which are used if no other fits.

More than any type without accelerators costs. It is never part of a reported price.
"""

_T2: Final = {
    "nano": 5.0,
    "micro": 10.0,
    "small": 20.0,
    "medium": 20.0,
    "large": 30.0,
    "xlarge": 22.5,
    "2xlarge": 17.0,
}
_T3: Final = {**_T2, "xlarge": 40.0, "2xlarge": 40.0}
_BASELINE_PERCENT: Final = {"t2": _T2, "t3": _T3, "t3a": _T3, "t4g": _T3}
"""Family → size → baseline utilization of each vCPU in percent."""
BURSTABLE_FAMILIES: Final = frozenset(_BASELINE_PERCENT)
"""Families whose baseline AWS has published."""
_STANDARD_FAMILIES: Final = frozenset({"t1", "t2"})
"""Families in standard mode unless the account says otherwise; others are unlimited."""
_SURPLUS_PRICE: Final = 0.05
_SURPLUS_PRICE_ARM: Final = 0.04
_SURPLUS_PRICE_WINDOWS: Final = 0.096
_BURSTABLE_NAME: Final = re.compile(r"t\d")
_STEPS: Final = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
"""Shares of the CPU above the baseline at which plans price a type."""


class CpuStep(NamedTuple):
    """CPU that a node delivers for a surcharge on its list price."""

    cpu: int
    """Millicores, overhead included."""
    surplus: float
    """USD per hour of surplus credits, if all of it is used."""
    premium: float
    """USD per hour that only plans add: the CPU is not delivered, or the type is avoided."""


class CpuCredits(msgspec.Struct, frozen=True, kw_only=True):
    """CPU credits of one burstable type, and the policy for plans."""

    vcpus: int
    baseline: int
    """Millicores of the instance that its price includes."""
    surplus_price: float
    """USD per vCPU-hour above the baseline; 0 in standard mode."""
    is_assumed: bool = False
    """True if AWS's table lacks the type."""
    policy: BurstablePolicy = BurstablePolicy.BASELINE

    @property
    def is_unlimited(self) -> bool:
        """False in standard mode: without credits, CPU is throttled to the baseline."""
        return self.surplus_price > 0

    @property
    def has_surplus(self) -> bool:
        """True if use above the baseline adds to the price."""
        return self.is_unlimited and self.policy is not BurstablePolicy.ALLOW

    def price_surplus(self, cpu: int) -> float:
        """Return USD per hour of surplus credits for an expected use in millicores."""
        if not self.has_surplus:
            return 0.0
        return self.surplus_price * max(0, cpu - self.baseline) / 1000

    def is_last_resort(self, cpu: int) -> bool:
        """Return True if plans use the type for so many millicores only if no other fits."""
        is_throttled = not self.is_unlimited and cpu > self.baseline
        return self.policy is BurstablePolicy.AVOID or (
            is_throttled and self.policy is not BurstablePolicy.ALLOW
        )

    def describe(self, uses: Sequence[int]) -> str:
        """Return expected and included CPU of nodes, and what the difference means.

        ``uses`` are the expected millicores of each node.
        """
        mode = "" if self.is_unlimited else " in standard mode"
        included = self.baseline * len(uses)
        text = f"burstable{mode}: {sum(uses) / 1000:.2f} vCPU expected, {included / 1000:.2f} included"
        above = sum(max(0, cpu - self.baseline) for cpu in uses) / 1000
        surplus = above * self.surplus_price
        if self.has_surplus and above:
            text += f", surplus credits add {surplus:.4f} USD per hour"
        elif self.is_unlimited and above:
            text += f"; surplus credits of {surplus:.4f} USD per hour are not counted"
        elif above:
            text += "; without credits it is throttled"
        return f"{text} (as of T3: AWS has published no baseline)" if self.is_assumed else text

    def describe_choice(self, uses: Sequence[int]) -> str:
        """Return ``describe``, and why a plan uses the type."""
        reason = "no other type fits" if any(map(self.is_last_resort, uses)) else "still the cheapest"
        return f"{self.describe(uses)}; {reason}"

    def steps(self) -> tuple[CpuStep, ...]:
        """Return what a plan may expect of a node, from the baseline to all vCPUs.

        Steps keep one price per row of the solver's table. A node between two steps
        is planned at the price of the higher one, and reported at its own.
        """
        capacity = self.vcpus * 1000
        if self.policy is BurstablePolicy.ALLOW:
            return (CpuStep(capacity, 0.0, 0.0),)
        avoided = LAST_RESORT_PRICE * self.vcpus if self.policy is BurstablePolicy.AVOID else 0.0
        baseline = CpuStep(self.baseline, 0.0, avoided)
        above = capacity - self.baseline
        if not self.is_unlimited:
            throttled = LAST_RESORT_PRICE * above / 1000
            return (baseline, CpuStep(capacity, 0.0, avoided + throttled))
        levels = [self.baseline + int(above * share) for share in _STEPS]
        return (baseline, *(CpuStep(cpu, self.price_surplus(cpu), avoided) for cpu in levels))


def find_cpu_credits(
    ec2_type: Ec2InstanceType, *, is_windows: bool, policy: BurstablePolicy
) -> CpuCredits | None:
    """Return the CPU credits of an EC2 type; None: it is not burstable.

    All of category t are: EC2 describes t1 and t8i as not burstable, at the price of
    types that are. Families that AWS's table lacks are taken as T3.
    """
    if not ec2_type.burstable and not _BURSTABLE_NAME.match(ec2_type.name):
        return None
    family, _, size = ec2_type.name.partition(".")
    known = _BASELINE_PERCENT.get(family, {})
    percent = known.get(size) or _T3.get(size) or max(_T3.values())
    if family in _STANDARD_FAMILIES:
        surplus_price = 0.0
    elif is_windows:
        surplus_price = _SURPLUS_PRICE_WINDOWS
    else:
        surplus_price = _SURPLUS_PRICE_ARM if ec2_type.architectures[:1] == ("arm64",) else _SURPLUS_PRICE
    return CpuCredits(
        vcpus=ec2_type.vcpus,
        baseline=round(ec2_type.vcpus * 10 * percent),
        surplus_price=surplus_price,
        is_assumed=size not in known,
        policy=policy,
    )
