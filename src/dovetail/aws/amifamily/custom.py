"""Custom AMIs: the user brings the AMI, all of the user data and the volumes."""

from collections.abc import Iterable

from dovetail.aws.amifamily.family import AmiFamilyProvider, AmiParameter
from dovetail.aws.userdata.bootstrap import Bootstrap
from dovetail.model.karpenter.ami_family import AmiFamily
from dovetail.model.karpenter.ec2nodeclass import BlockDevice


class Custom(AmiFamilyProvider):
    """An AMI that Dovetail knows nothing about."""

    name = AmiFamily.CUSTOM

    def render_user_data(self, bootstrap: Bootstrap) -> str:
        """Return the user's text unchanged: only the user knows how the AMI boots."""
        return bootstrap.user_data or ""

    def ami_parameters(self, version: str, kubernetes: str) -> Iterable[AmiParameter]:
        """Return nothing: the family has no alias."""
        return ()

    def default_block_devices(self) -> tuple[BlockDevice, ...]:
        """Return nothing: EC2 uses the volumes of the AMI."""
        return ()
