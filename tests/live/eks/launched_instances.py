"""Instances that a controller launched: they boot and join as nodes."""

from typing import Any

import moto.ec2.models
import moto.ssm.models
from moto.core import DEFAULT_ACCOUNT_ID
from moto.ec2.models.amis import Ami
from moto.ssm.models import Parameter

from dovetail.host.clock import SystemClock
from tests.live.eks.api import ApiClient, RequestError
from tests.live.eks.kubelets import Kubelets, Raw, node_of

_CLAIMS = "/apis/karpenter.sh/v1/nodeclaims"
_UNREGISTERED = {"key": "karpenter.sh/unregistered", "effect": "NoExecute"}
_ARCHITECTURES = {"x86_64": "ami-000000000000000a1", "arm64": "ami-000000000000000a2"}


class LaunchedInstances:
    """Registers a node for each NodeClaim with an instance."""

    def __init__(self, api: ApiClient, kubelets: Kubelets) -> None:
        self._api = api
        self._kubelets = kubelets

    def reconcile(self) -> None:
        """Register the nodes of launched instances."""
        try:
            claims = self._api.list(_CLAIMS)
        except RequestError:
            return  # The CRD is not installed yet.
        for claim in claims:
            status = claim.get("status", {})
            provider = status.get("providerID", "")
            if provider and not claim["metadata"].get("deletionTimestamp"):
                name = provider.rpartition("/")[2]
                spec = {"providerID": provider, "taints": [_UNREGISTERED]}
                node = node_of(name, zone=provider.split("/")[-2], spec=spec)
                self._kubelets.join(_with_architecture(node, claim), status["allocatable"])


def publish_images(region: str, *, kubernetes: str) -> None:
    """Create the AL2023 images and the SSM parameters that name the newest ones."""
    for arch, image in _ARCHITECTURES.items():
        backend = moto.ec2.models.ec2_backends[DEFAULT_ACCOUNT_ID][region]
        now = SystemClock().now()
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
        parameters = moto.ssm.models.ssm_backends[DEFAULT_ACCOUNT_ID][region]._parameters
        parameters[name] = [
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


def _with_architecture(node: Raw, claim: Raw) -> Raw:
    arch = claim["metadata"]["labels"].get("kubernetes.io/arch", "amd64")
    node["metadata"]["labels"]["kubernetes.io/arch"] = arch
    return node
