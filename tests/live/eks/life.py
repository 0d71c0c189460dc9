"""What goes on in a cluster by itself: nodes come and go, pods run."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from tests.live.eks.api import Api, Refused
from tests.live.eks.bought import Bought
from tests.live.eks.inside import Inside
from tests.live.eks.kubelets import Kubelets
from tests.live.eks.programs import Programs
from tests.support.moto.eks import Eks

_PAUSE = 0.3
"""Seconds between two looks."""


class Life:
    """Looks again and again at what EKS and the API server hold, and does what is due."""

    def __init__(self, eks: Eks, api: Api, programs: Programs) -> None:
        self._kubelets = Kubelets(api, programs)
        self._inside = Inside(eks, api, self._kubelets)
        self._bought = Bought(api, self._kubelets)
        self._ending = Event()
        self._trouble: Exception | None = None

    def check(self) -> None:
        """Raise what went wrong, if anything did."""
        if self._trouble is not None:
            raise self._trouble

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ending.set()
            thread.join()

    def _run(self) -> None:
        while not self._ending.wait(_PAUSE):
            try:
                self._inside.look(self._kubelets.look())
                self._bought.look()
            except Refused:
                continue  # Somebody was quicker; the next look shows it.
            except Exception as error:  # noqa: BLE001 - told to the test
                self._trouble = error
                return
