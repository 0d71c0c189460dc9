"""User data against golden files: 123, 125–127 of the AWS checklist.

``GOLDEN=write`` rewrites the files; review the diff before you keep it.
"""

import os
from pathlib import Path

import pytest

from dovetail.aws.amifamily.registry import ami_family_provider
from dovetail.aws.userdata.bootstrap import Bootstrap
from dovetail.model.karpenter.ami_family import AmiFamily
from tests.aws.amifamily.bootstraps import (
    CONTENT_TYPE_FIRST,
    EVALUATED_FAMILIES,
    KUBELET,
    MIME,
    NODE_CONFIG,
    SHELL,
    TAINTS,
    TOML,
    bootstrap,
)

FILES = Path(__file__).parents[2] / "golden" / "userdata"
POWERSHELL = 'Write-Host "first"\n'
BOOTSTRAPS: dict[str, tuple[AmiFamily, Bootstrap]] = {
    "al2-none": (AmiFamily.AL2, bootstrap()),
    "al2-shell": (AmiFamily.AL2, bootstrap(user_data=SHELL)),
    "al2-mime": (AmiFamily.AL2, bootstrap(user_data=MIME)),
    "al2-content-type-first": (AmiFamily.AL2, bootstrap(user_data=CONTENT_TYPE_FIRST)),
    "al2-kubelet": (AmiFamily.AL2, bootstrap(kubelet=KUBELET, taints=TAINTS)),
    "al2-raid0": (AmiFamily.AL2, bootstrap(raid0=True)),
    "al2023-none": (AmiFamily.AL2023, bootstrap()),
    "al2023-shell": (AmiFamily.AL2023, bootstrap(user_data=SHELL)),
    "al2023-mime": (AmiFamily.AL2023, bootstrap(user_data=MIME)),
    "al2023-yaml": (AmiFamily.AL2023, bootstrap(user_data=NODE_CONFIG)),
    "al2023-kubelet": (AmiFamily.AL2023, bootstrap(kubelet=KUBELET, taints=TAINTS)),
    "al2023-raid0": (AmiFamily.AL2023, bootstrap(raid0=True)),
    "bottlerocket-none": (AmiFamily.BOTTLEROCKET, bootstrap()),
    "bottlerocket-toml": (AmiFamily.BOTTLEROCKET, bootstrap(user_data=TOML)),
    "bottlerocket-kubelet": (AmiFamily.BOTTLEROCKET, bootstrap(kubelet=KUBELET, taints=TAINTS)),
    "bottlerocket-raid0": (
        AmiFamily.BOTTLEROCKET,
        bootstrap(raid0=True, user_data=TOML, ami_version="1.46.0"),
    ),
    "bottlerocket-raid0-1.45": (AmiFamily.BOTTLEROCKET, bootstrap(raid0=True, ami_version="1.45.9")),
    "windows-none": (AmiFamily.WINDOWS2022, bootstrap()),
    "windows-powershell": (AmiFamily.WINDOWS2022, bootstrap(user_data=POWERSHELL)),
    "windows-kubelet": (AmiFamily.WINDOWS2019, bootstrap(kubelet=KUBELET, taints=TAINTS)),
    "custom-none": (AmiFamily.CUSTOM, bootstrap()),
    "custom-verbatim": (AmiFamily.CUSTOM, bootstrap(user_data="any\r\nthing", kubelet=KUBELET)),
}


@pytest.mark.parametrize("name", BOOTSTRAPS)
def test_user_data_equals_the_golden_file(name: str) -> None:
    family, bootstrap = BOOTSTRAPS[name]
    file = FILES / f"{name}.txt"

    user_data = ami_family_provider(family).render_user_data(bootstrap).encode()

    if os.environ.get("GOLDEN") == "write":
        file.write_bytes(user_data)
    assert user_data == file.read_bytes()


def test_every_golden_file_has_a_case() -> None:
    evaluated = {f"{family.lower()}-expressions" for family in EVALUATED_FAMILIES}

    assert {file.stem for file in FILES.iterdir()} == set(BOOTSTRAPS) | evaluated


@pytest.mark.parametrize("family", AmiFamily)
def test_every_family_has_a_provider_of_its_name(family: AmiFamily) -> None:
    assert ami_family_provider(family).name is family
