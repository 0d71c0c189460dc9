"""User data of every family, word for word: 123, 125–127 of the AWS checklist.

``GOLDEN=write`` writes the files anew; look at what changed before keeping it.
"""

import os
from pathlib import Path

import pytest

from dovetail.aws.userdata.bootstrap import Bootstrap
from dovetail.aws.userdata.registry import render
from tests.aws.userdata.machines import (
    CONTENT_TYPE_FIRST,
    KUBELET,
    MIME,
    NODE_CONFIG,
    SHELL,
    TAINTS,
    TOML,
    a_machine,
)

FILES = Path(__file__).parents[2] / "golden" / "userdata"
POWERSHELL = 'Write-Host "first"\n'
MACHINES: dict[str, tuple[str, Bootstrap]] = {
    "al2-none": ("AL2", a_machine()),
    "al2-shell": ("AL2", a_machine(user_data=SHELL)),
    "al2-mime": ("AL2", a_machine(user_data=MIME)),
    "al2-content-type-first": ("AL2", a_machine(user_data=CONTENT_TYPE_FIRST)),
    "al2-kubelet": ("AL2", a_machine(kubelet=KUBELET, taints=TAINTS)),
    "al2-raid0": ("AL2", a_machine(raid0=True)),
    "al2023-none": ("AL2023", a_machine()),
    "al2023-shell": ("AL2023", a_machine(user_data=SHELL)),
    "al2023-mime": ("AL2023", a_machine(user_data=MIME)),
    "al2023-yaml": ("AL2023", a_machine(user_data=NODE_CONFIG)),
    "al2023-kubelet": ("AL2023", a_machine(kubelet=KUBELET, taints=TAINTS)),
    "al2023-raid0": ("AL2023", a_machine(raid0=True)),
    "bottlerocket-none": ("Bottlerocket", a_machine()),
    "bottlerocket-toml": ("Bottlerocket", a_machine(user_data=TOML)),
    "bottlerocket-kubelet": ("Bottlerocket", a_machine(kubelet=KUBELET, taints=TAINTS)),
    "bottlerocket-raid0": (
        "Bottlerocket",
        a_machine(raid0=True, user_data=TOML, image_version="1.46.0"),
    ),
    "bottlerocket-raid0-1.45": ("Bottlerocket", a_machine(raid0=True, image_version="1.45.9")),
    "windows-none": ("Windows2022", a_machine()),
    "windows-powershell": ("Windows2022", a_machine(user_data=POWERSHELL)),
    "windows-kubelet": ("Windows2019", a_machine(kubelet=KUBELET, taints=TAINTS)),
    "custom-none": ("Custom", a_machine()),
    "custom-verbatim": ("Custom", a_machine(user_data="any\r\nthing", kubelet=KUBELET)),
}


@pytest.mark.parametrize("name", MACHINES)
def test_user_data_is_as_agreed(name: str) -> None:
    family, machine = MACHINES[name]
    file = FILES / f"{name}.txt"

    found = render(family, machine)

    if os.environ.get("GOLDEN") == "write":
        file.write_bytes(found)
    assert found == file.read_bytes()


def test_there_is_no_agreement_about_nothing() -> None:
    assert {one.stem for one in FILES.iterdir()} == set(MACHINES)
