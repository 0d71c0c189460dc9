"""All that storage needs in a simulated cluster."""

from typing import Final

from dovetail.simulator.apiserver.server import ApiServer
from dovetail.simulator.clock import Engine
from dovetail.simulator.storage.attach_detach import Attachments
from dovetail.simulator.storage.latencies import StorageLatencies
from dovetail.simulator.storage.pv_binder import ClaimBinding

_USUAL: Final = StorageLatencies()


class Volumes:
    """Binds claims, makes volumes where pods run, attaches and detaches them."""

    def __init__(
        self, api: ApiServer, engine: Engine, *, latencies: StorageLatencies = _USUAL
    ) -> None:
        self.claims = ClaimBinding(api, engine, latencies)
        self.attachments = Attachments(api, engine, latencies)
