"""How long storage takes."""

from datetime import timedelta

import msgspec


class StorageLatencies(msgspec.Struct, frozen=True, kw_only=True):
    """Every wait of the volume controllers."""

    provision: timedelta = timedelta(seconds=1)
    attach: timedelta = timedelta(seconds=1)
    detach: timedelta = timedelta(seconds=2)
    """From the end of the last pod that used a volume on a node."""
