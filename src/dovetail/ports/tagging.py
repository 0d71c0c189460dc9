"""Writing on machines what they have become."""

from typing import Protocol


class Tagging(Protocol):
    """Tags machines; what is written on them already stays."""

    async def tag(self, provider_id: str, *, node: str, claim: str) -> None:
        """Say which node and claim a machine is; InstanceNotFound when it is gone."""
