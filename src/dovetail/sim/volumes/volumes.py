"""All that storage needs in a simulated cluster."""

from typing import Final

from dovetail.sim.apiserver.server import ApiServer
from dovetail.sim.engine import Engine
from dovetail.sim.volumes.attachments import Attachments
from dovetail.sim.volumes.claims import ClaimBinding
from dovetail.sim.volumes.latencies import StorageLatencies

_USUAL: Final = StorageLatencies()


class Volumes:
    """Binds claims, makes volumes where pods run, attaches and detaches them."""

    def __init__(
        self, api: ApiServer, engine: Engine, *, latencies: StorageLatencies = _USUAL
    ) -> None:
        self.claims = ClaimBinding(api, engine, latencies)
        self.attachments = Attachments(api, engine, latencies)
