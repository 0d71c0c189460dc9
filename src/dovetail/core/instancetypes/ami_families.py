"""What an AMI family decides about a node."""

import msgspec

GIB = 1 << 30


class Family(msgspec.Struct, frozen=True, kw_only=True):
    """The node properties that go with an operating system image."""

    name: str
    windows_build: str = ""
    """Empty for Linux."""
    data_device: str = ""
    """The device that holds pods' scratch space; empty if only the image knows."""
    data_bytes: int = 20 * GIB
    """Its size where no block device is given."""
    eni_limited: bool = True
    """Pods get an address of the VPC each, so network interfaces bound their number."""
    reserves_for_actual_pods: bool = False
    """Kube-reserved memory follows the real pod limit, not what interfaces allow."""
    supports_pods_per_core: bool = True
    excluded_prefixes: tuple[str, ...] = ()
    """Machine types on which it does not boot."""

    @property
    def is_windows(self) -> bool:
        return bool(self.windows_build)


def _windows(name: str, build: str) -> Family:
    return Family(
        name=name,
        windows_build=build,
        data_device="/dev/sda1",
        data_bytes=50 * GIB,
        eni_limited=False,
        reserves_for_actual_pods=True,
    )


CUSTOM = Family(name="Custom")
_KNOWN = {
    family.name: family
    for family in (
        Family(name="AL2", data_device="/dev/xvda"),
        Family(name="AL2023", data_device="/dev/xvda", excluded_prefixes=("a1.",)),
        Family(
            name="Bottlerocket",
            data_device="/dev/xvdb",
            reserves_for_actual_pods=True,
            supports_pods_per_core=False,
        ),
        CUSTOM,
        _windows("Windows2019", "10.0.17763"),
        _windows("Windows2022", "10.0.20348"),
        _windows("Windows2025", "10.0.26100"),
    )
}


def family_named(name: str) -> Family:
    """Return the family; an unknown name is treated as a custom image."""
    return _KNOWN.get(name, CUSTOM)
