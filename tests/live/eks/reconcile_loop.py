"""Background reconciliation of nodes and pods in an EKS cluster."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from tests.live.eks.api import ApiClient, RequestError
from tests.live.eks.containers import Containers
from tests.live.eks.data_plane import DataPlane
from tests.live.eks.kubelets import Kubelets
from tests.live.eks.launched_instances import LaunchedInstances
from tests.support.moto.eks import Eks

_INTERVAL = 0.3
"""Seconds between reconciles."""


class ReconcileLoop:
    """Thread that reconciles kubelets, data plane and launched instances."""

    def __init__(self, eks: Eks, api: ApiClient, containers: Containers) -> None:
        self._kubelets = Kubelets(api, containers)
        self._data_plane = DataPlane(eks, api, self._kubelets)
        self._instances = LaunchedInstances(api, self._kubelets)
        self._stop = Event()
        self._error: Exception | None = None

    def check(self) -> None:
        """Raise the error that ended the thread, if any."""
        if self._error is not None:
            raise self._error

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def _run(self) -> None:
        while not self._stop.wait(_INTERVAL):
            try:
                self._data_plane.reconcile(self._kubelets.reconcile())
                self._instances.reconcile()
            except RequestError:
                continue  # Race with another client; the next reconcile sees the result.
            except Exception as error:  # noqa: BLE001 - check() raises it
                self._error = error
                return
