"""What shows from outside how a process is doing: its numbers and its health."""

from dovetail import __version__
from dovetail.observability.exposition import Scraping
from dovetail.observability.health import Health
from dovetail.observability.prometheus import PrometheusMetrics
from dovetail.ports.event_loop import Clock


class Instruments:
    """The numbers, who writes them out, and the answers to probes; one set a process."""

    def __init__(self, clock: Clock, *, each_node: bool = True) -> None:
        """Without ``each_node``, nothing is told of single nodes."""
        self.metrics = PrometheusMetrics(version=__version__)
        self.health = Health()
        self.scraping = Scraping(self.metrics, clock=clock, each_node=each_node)

    def leads(self, is_so: bool) -> None:
        """Tell whether this replica leads."""
        self.metrics.gauge("leader_election_master_status", int(is_so), name="dovetail")
