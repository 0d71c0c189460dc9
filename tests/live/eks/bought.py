"""Machines that a controller bought: they boot, and join as nodes."""

from typing import Any

import moto.ec2.models
import moto.ssm.models
from moto.core import DEFAULT_ACCOUNT_ID
from moto.ec2.models.amis import Ami
from moto.ssm.models import Parameter

from dovetail.host.clock import RealClock
from tests.live.eks.api import Api, Refused
from tests.live.eks.kubelets import Kubelets, Raw, node_of

_CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
_UNREGISTERED = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}
_ARCHITECTURES = {"x86_64": "ami-000000000000000a1", "arm64": "ami-000000000000000a2"}


class Bought:
    """Knows a machine by the claim that has bought it."""

    def __init__(self, api: Api, kubelets: Kubelets) -> None:
        self._api = api
        self._kubelets = kubelets

    def look(self) -> None:
        """Have every machine that was bought be a node."""
        try:
            claims = self._api.list(_CLAIMS)
        except Refused:
            return  # Nobody has claims before there is such a kind.
        for claim in claims:
            status = claim.get("status", {})
            provider = status.get("providerID", "")
            if provider and not claim["metadata"].get("deletionTimestamp"):
                name = provider.rpartition("/")[2]
                spec = {"providerID": provider, "taints": [_UNREGISTERED]}
                node = node_of(name, zone=provider.split("/")[-2], spec=spec)
                self._kubelets.join(_of_arch(node, claim), status["allocatable"])


def publish_images(region: str, *, kubernetes: str) -> None:
    """Have AWS's images of AL2023, under the parameters that name the newest of them."""
    for arch, image in _ARCHITECTURES.items():
        backend = moto.ec2.models.ec2_backends[DEFAULT_ACCOUNT_ID][region]
        now = RealClock().now()
        fields: dict[str, Any] = {
            "name": f"amazon-eks-node-al2023-{arch}-standard-{kubernetes}-v20260101",
            "architecture": arch,
            "owner_alias": "amazon",
            "owner_id": "602401143452",
            "creation_date": now,
            "region_name": region,
        }
        backend.amis[image] = Ami(backend, image, **fields)
        name = (
            f"/aws/service/eks/optimized-ami/{kubernetes}/amazon-linux-2023/{arch}"
            "/standard/recommended/image_id"
        )
        held = moto.ssm.models.ssm_backends[DEFAULT_ACCOUNT_ID][region]._parameters
        held[name] = [
            Parameter(
                account_id=DEFAULT_ACCOUNT_ID,
                name=name,
                value=image,
                parameter_type="String",
                description=None,
                allowed_pattern=None,
                keyid=None,
                last_modified_date=now,
                version=1,
                data_type="text",
            )
        ]


def _of_arch(node: Raw, claim: Raw) -> Raw:
    arch = claim["metadata"]["labels"].get("kubernetes.io/arch", "amd64")
    node["metadata"]["labels"]["kubernetes.io/arch"] = arch
    return node
